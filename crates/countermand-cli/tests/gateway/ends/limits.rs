//! What is refused at once: calls beyond the limits, ids that are in flight, messages that are too long.

use super::{Caller, Stage, running, tagged};
use crate::{
    over_all,
    stage::{Door, Session},
};
use countermand_testkit::client::{HttpClient, StdioClient, message};
use serde_json::{Value, json};

fn limited(stage: &Stage, limits: &str) {
    stage.configure(|config| format!("{config}limits: {{ {limits} }}\n"));
}

fn error(message: &Value) -> (i64, &str) {
    let error = &message["error"];
    (error["code"].as_i64().unwrap_or_default(), error["message"].as_str().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_beyond_a_clients_limit_is_refused_at_once_and_a_cancel_frees_the_place() {
    let stage = Stage::new().await;
    limited(&stage, "per_principal: 2");
    let mut client = stage.stdio().await;
    for id in 1..=2 {
        client.send(&message::call(id, "search", tagged(&format!("t{id}")))).await;
    }
    stage.fake.wait_for("slow_started", 2).await;
    client.send(&message::call(3, "search", tagged("third"))).await;
    let refused = client.response(&json!(3)).await;
    let (code, text) = error(&refused);
    assert_eq!(code, -31029, "{refused}");
    assert!(text.contains("Too many calls in flight for this client") && text.contains("limit 2"), "{text}");
    assert!(!stage.fake.events().iter().any(|event| event.tagged("third")), "nothing is queued");

    client.send(&message::cancelled(1, None)).await;
    stage.fake.wait_for("closed_early", 1).await;
    // Its handler has returned once a status that counts as a call is taken.
    client.barrier().await;
    loop {
        client.send(&message::call(4, "quick", tagged("fourth"))).await;
        let answer = client.response(&json!(4)).await;
        if answer.get("result").is_some() {
            break;
        }
        assert_eq!(error(&answer).0, -31029);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_beyond_a_clients_limit_over_http_is_answered_429() {
    let stage = Stage::new().await;
    limited(&stage, "per_principal: 1");
    let gateway = stage.http().await;
    let first = gateway.client.call(1, "search", tagged("first")).await;
    stage.fake.wait_for("slow_started", 1).await;
    let mut second = gateway.client.call(2, "search", tagged("second")).await;
    let head = second.head().await;
    assert_eq!((head.status, head.header("retry-after")), (429, Some("1")));
    assert_eq!(error(&second.response().await).0, -31029);
    first.close();
    stage.fake.wait_for("closed_early", 1).await;
    while gateway.client.call(3, "quick", tagged("third")).await.head().await.status != 200 {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_of_all_calls_binds_across_both_doors() {
    let stage = Stage::new().await;
    limited(&stage, "per_principal: 2, total: 3");
    let mut client = StdioClient::spawn(stage.serve(&["--stdio", "--http", "127.0.0.1:0"])).unwrap();
    client.initialize("2025-11-25").await;
    let http = HttpClient::new(&client.stderr_line("http://").await);
    for id in 1..=2 {
        client.send(&message::call(id, "search", tagged(&format!("t{id}")))).await;
    }
    let third = http.call(3, "search", tagged("t3")).await;
    stage.fake.wait_for("slow_started", 3).await;
    let refused = http.call(4, "search", tagged("t4")).await.response().await;
    let (code, text) = error(&refused);
    assert_eq!(code, -31029);
    assert!(text.contains("Too many calls in flight (limit 3)"), "{text}");
    drop(third);
    stage.fake.wait_for("closed_early", 1).await;
    while http.call(5, "quick", tagged("t5")).await.head().await.status != 200 {}
    // The end of stdin ends the process, HTTP too.
    client.close_input();
    assert!(client.exit().await.success());
    stage.fake.wait_for("closed_early", 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_call_with_an_id_in_flight_is_refused_and_the_first_stays_cancellable() {
    let stage = Stage::new().await;
    let mut client = stage.stdio().await;
    client.send(&message::call(1, "run_report", tagged("first"))).await;
    stage.fake.wait_for("job_polled", 1).await;
    client.send(&message::call(1, "run_report", tagged("second"))).await;
    let refused = client.response(&json!(1)).await;
    assert_eq!(error(&refused).0, -32600, "{refused}");
    assert!(error(&refused).1.contains("a call with this id is in flight"), "{refused}");
    // Ids of another type are other ids.
    client.send(&message::call("1", "quick", tagged("other"))).await;
    assert!(client.response(&json!("1")).await.get("result").is_some());
    assert!(!stage.fake.events().iter().any(|event| event.tagged("second")));
    assert_eq!(stage.fake.live_jobs().len(), 1);
    client.send(&message::cancelled(1, None)).await;
    stage.phase("cancelled").await;
    // The id is free again.
    client.send(&message::call(1, "quick", tagged("again"))).await;
    assert!(client.response(&json!(1)).await.get("result").is_some());
    stage.agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_too_long_is_refused_and_the_next_one_read() {
    let stage = Stage::new().await;
    limited(&stage, "message: 8KiB");
    let (mut caller, mut pending) = running(Door::Stdio, &stage, "run_report").await;
    let Caller::Stdio(client) = &mut caller else { unreachable!("it is on stdio") };
    client.send(&message::call(2, "run_report", tagged(&"x".repeat(10_000)))).await;
    let refused = client.response(&json!(null)).await;
    assert_eq!(error(&refused).0, -32600);
    assert!(error(&refused).1.contains("above the limit of 8192 bytes"), "{refused}");
    stage.fake.finish("job-1");
    assert_eq!(caller.answer(&mut pending).await["isError"], false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_too_long_over_http_is_answered_413() {
    let stage = Stage::new().await;
    limited(&stage, "message: 8KiB");
    let gateway = stage.http().await;
    let mut refused = gateway.client.call(1, "run_report", tagged(&"x".repeat(10_000))).await;
    assert_eq!(refused.head().await.status, 413);
    assert_eq!(gateway.client.call(2, "quick", tagged("next")).await.head().await.status, 200);
    assert_eq!(stage.fake.books().created, 0);
}

over_all! {
    async fn refused_calls_leave_no_row_and_no_request(door) {
        let stage = Stage::new().await;
        limited(&stage, "per_principal: 1");
        let (mut caller, mut pending) = running(door, &stage, "run_report").await;
        for id in 10..30 {
            // Over stdio the answers are read below; over HTTP each has its own connection.
            drop(caller.call(id, "run_report", tagged("refused")).await);
        }
        caller.barrier().await;
        assert_eq!(stage.operations().await.len(), 1);
        assert!(!stage.fake.events().iter().any(|event| event.tagged("refused")));
        stage.fake.finish("job-1");
        assert_eq!(caller.answer(&mut pending).await["isError"], false);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_beyond_the_limit_is_refused_with_what_to_do_and_those_there_go_on() {
    let stage = Stage::new().await;
    limited(&stage, "sessions: 2");
    let gateway = stage.http().await;
    let first = Session::open(&gateway.client, "2025-11-25").await;
    let second = Session::open(&gateway.client, "2025-06-18").await;
    let mut called = second.send(&message::call(1, "search", tagged("goes on"))).await;
    stage.fake.wait_for("slow_started", 1).await;

    let mut refused =
        gateway.client.post(&[], message::initialize("third", "2025-11-25").to_string().as_bytes()).await;
    let head = refused.head().await;
    assert_eq!((head.status, head.header("retry-after")), (429, Some("1")));
    assert_eq!(head.header("mcp-session-id"), None);
    let refused = refused.response().await;
    let (code, text) = error(&refused);
    assert_eq!(code, -31029, "{refused}");
    assert!(text.contains("Too many sessions (`limits.sessions` is 2)"), "{text}");
    assert!(text.contains("DELETE") && text.contains("expires"), "what to do: {text}");
    // Of the stateless revision there are no sessions.
    assert_eq!(gateway.client.call(1, "quick", tagged("stateless")).await.head().await.status, 200);

    first.delete().await;
    Session::open(&gateway.client, "2025-11-25").await.barrier().await;
    stage.fake.release_slow(None);
    assert_eq!(called.response().await["result"]["isError"], false);
}
