//! In a session a client can come back: a death around that moment.

use crate::stage::{Gateway, Session, Stage, Times};
use countermand::crash::{self, CrashPoint, Moment};
use countermand_testkit::client::message;
use serde_json::json;
use std::os::unix::process::ExitStatusExt as _;

/// The points that only a session passes.
pub const POINTS: [CrashPoint; 2] =
    [CrashPoint::Before(Moment::ClientReturned), CrashPoint::After(Moment::ClientReturned)];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_client_is_back_when_the_gateway_dies_is_cancelled_after_the_grace_of_the_next() {
    for point in POINTS {
        let stage = Stage::with_config(Times::default(), |config| {
            config.replace("tools:\n", "defaults: { on_disconnect: { grace: 2s } }\ntools:\n")
        })
        .await;
        let mark = stage.dir.path().join("mark");
        let mut command = stage.serve(&["--http", "127.0.0.1:0"]);
        command.env(crash::POINT, point.to_string()).env(crash::MARK, &mark);
        let mut gateway = Gateway::start(command).await;
        let session = Session::open(&gateway.client, "2025-11-25").await;
        let call = message::call_with_progress(1, "run_report", json!({ "tag": "t" }), 1);
        let mut exchange = session.send(&call).await;
        exchange.progress().await;
        drop(exchange);
        stage.operations_when("a grace", |rows| rows[0]["disconnect_at"].is_string()).await;
        let back = session.get(Some("1-0")).await;
        let (status, _) = gateway.exit().await;
        assert_eq!(status.signal(), Some(9));
        assert_eq!(std::fs::read_to_string(&mark).unwrap(), format!("{point}\n"));
        drop(back);
        let _next = stage.http().await;
        let row = stage.phase("cancelled").await;
        assert_eq!(row["cause"], "client_disconnected");
        assert_eq!(stage.agree().await.cancelled, 1);
    }
}
