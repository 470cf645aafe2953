//! What a client is told when it begins, and servers of every revision behind every client.

use super::{
    front::{Front, Way},
    house::House,
    tagged,
};
use crate::from_every_front;
use serde_json::json;

from_every_front! {
    async fn a_server_is_introduced_in_its_own_words(way) {
        let house = House::new();
        let mut command = house.wrap(if way.is_http() { &["--http", "127.0.0.1:0"] } else { &[] }, &[]);
        command.env("COUNTERMAND_LOG", "info");
        let mut front = Front::silent(way, command).await;
        let hello = front.introduce().await;
        let info = json!({ "name": "demo-server", "version": "1.0", "title": "A server for tests", "x-built": "today" });
        let told = [&hello["serverInfo"], &hello["_meta"]["io.modelcontextprotocol/serverInfo"]];
        assert!(told.contains(&&info), "{hello:#}");
        assert_eq!(hello["instructions"], "Call a tool, and cancel it.");
        assert_eq!(hello["x-motd"], 1.0);
        for (name, value) in [
            ("tools", json!({ "listChanged": true })),
            ("resources", json!({ "subscribe": true, "listChanged": true })),
            ("completions", json!({})),
            ("experimental", json!({ "x-demo": { "level": 1.0 } })),
        ] {
            assert_eq!(hello["capabilities"][name], value, "{hello:#}");
        }
        if !way.is_stateless() {
            assert_eq!(hello["protocolVersion"], way.revision());
        }
        front.finish(&house, &[]).await;
    }
}

from_every_front! {
    async fn a_server_of_any_revision_serves_a_client_of_any_other(way) {
        for revision in ["2025-06-18", "2025-11-25", "2026-07-28"] {
            let house = House::new();
            let mut front = Front::open(way, &house, &[], &["--revision", revision]).await;
            let result = front.result("echo", tagged(revision)).await;
            assert_eq!(result["structuredContent"]["arguments"], tagged(revision), "{result}");
            let asked = front.call("cancelled", "obedient", tagged("t")).await;
            let id = house.recorder.working("t").await;
            front.cancel(asked).await;
            house.recorder.cancelled(&id).await;
            front.finish(&house, &["cancelled"]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_a_server_that_are_no_messages_are_passed_over() {
    let house = House::new();
    let mut front = Front::open(Way::Stdio("2025-11-25"), &house, &[], &["--junk"]).await;
    for tag in ["one", "two"] {
        assert_eq!(front.result("echo", tagged(tag)).await["structuredContent"]["arguments"], tagged(tag));
    }
    front.finish(&house, &[]).await;
}
