//! The control API says and does the same as the handle in process.

mod fake_support;

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use countermand_testkit::fake::{
    ControlError, FakeControl, FakeUpstream, Fault, Filter, Gate, Route, run_process,
};
use fake_support::Raw;
use tokio::io::{AsyncBufReadExt, BufReader};

#[tokio::test]
async fn the_control_api_reads_the_same_record() {
    let fake = FakeUpstream::start().await;
    let control = FakeControl::connect(&fake.base_url()).await.unwrap();
    let mut client = Raw::to(fake.addr()).await;
    client.ask("POST", "/jobs?tag=t", &["idempotency-key: k"], "").await;
    client.ask("POST", "/jobs?tag=t", &[], "").await;
    control.wait_for("responded", 2).await.unwrap();
    client.ask("DELETE", "/jobs/job-1", &[], "").await;
    fake.wait_for("responded", 3).await;
    assert_eq!(control.jobs().await.unwrap(), fake.jobs());
    assert_eq!(control.live_jobs().await.unwrap(), fake.live_jobs());
    assert_eq!(control.books().await.unwrap(), fake.books());
    assert_eq!(control.rows("t").await.unwrap(), 2);
    assert_eq!(control.connections_open().await.unwrap(), 1, "control connections do not count");
    let events = control.events().await.unwrap();
    assert_eq!(events[..], fake.events()[..events.len()]);
    assert!(!events.iter().any(|event| event.route == Some(Route::Control)));
}

#[tokio::test]
async fn the_control_api_holds_and_releases() {
    let fake = FakeUpstream::start().await;
    let control = FakeControl::connect(&fake.base_url()).await.unwrap();
    let tagged = Filter { tag: Some("t".into()), ..Filter::default() };
    let held = control.hold(Gate::CreateCommitted, tagged).await.unwrap();
    let mut client = Raw::to(fake.addr()).await;
    let mut other = Raw::to(fake.addr()).await;
    client.send("POST", "/jobs?tag=t", &[], "").await;
    held.reached().await.unwrap();
    assert_eq!(other.ask("POST", "/jobs?tag=u", &[], "").await.status, 201);
    held.release_one().await.unwrap();
    assert_eq!(client.reply().await.unwrap().status, 201);
    client.send("POST", "/jobs?tag=t", &[], "").await;
    held.reached_n(2).await.unwrap();
    held.release().await.unwrap();
    assert_eq!(client.reply().await.unwrap().status, 201);
}

#[tokio::test]
async fn control_gets_through_while_all_connections_are_held() {
    let fake = FakeUpstream::start().await;
    let control = FakeControl::connect(&fake.base_url()).await.unwrap();
    let held = control.hold(Gate::Accept, Filter::default()).await.unwrap();
    let mut client = Raw::to(fake.addr()).await;
    client.send("GET", "/quick", &[], "").await;
    held.reached().await.unwrap();
    held.release().await.unwrap();
    assert_eq!(client.reply().await.unwrap().status, 200);
}

#[tokio::test]
async fn the_control_api_places_faults_and_ends_work() {
    let fake = FakeUpstream::start().await;
    let control = FakeControl::connect(&fake.base_url()).await.unwrap();
    let mut client = Raw::to(fake.addr()).await;
    control.fault(Route::Quick, Fault::Status(503, Some(1)), Some(1)).await.unwrap();
    control.fault(Route::Quick, Fault::Redirect("http://127.0.0.1:1/".into()), None).await.unwrap();
    assert_eq!(client.ask("GET", "/quick", &[], "").await.status, 503);
    assert_eq!(client.ask("GET", "/quick", &[], "").await.status, 307);
    control.clear_faults().await.unwrap();
    assert_eq!(client.ask("GET", "/quick", &[], "").await.status, 200);

    control.expect("marker-7").await.unwrap();
    for _ in 0..3 {
        client.ask("POST", "/jobs", &["x-note: marker-7"], "").await;
    }
    assert_eq!(control.rows("marker-7").await.unwrap(), 3);
    control.finish("job-1").await.unwrap();
    control.fail("job-2").await.unwrap();
    assert!(matches!(control.finish("job-1").await, Err(ControlError::Refused { status: 404, .. })));
    control.set_cancel_delay(Duration::from_secs(3_600)).await.unwrap();
    client.ask("DELETE", "/jobs/job-3", &[], "").await;
    let books = control.books().await.unwrap();
    assert_eq!((books.completed, books.failed, books.live), (1, 1, 1));

    client.send("GET", "/slow?tag=s", &[], "").await;
    control.wait_for("slow_started", 1).await.unwrap();
    assert_eq!(control.release_slow(Some("s")).await.unwrap(), 1);
    assert_eq!(client.reply().await.unwrap().status, 200);
}

#[tokio::test]
async fn the_control_api_says_what_it_did_not_see() {
    let fake = FakeUpstream::start().await;
    let mut client = Raw::to(fake.addr()).await;
    let waited = client.ask("GET", "/_control/wait?kind=job_done&count=2&timeout_ms=1", &[], "").await.json();
    assert_eq!(waited, serde_json::json!({ "happened": false, "count": 0 }));
    let hold = client.ask("POST", "/_control/hold", &[], r#"{"gate":"poll_3"}"#).await.json();
    let target = format!("/_control/reached?id={}&timeout_ms=1", hold["id"]);
    let reached = client.ask("GET", &target, &[], "").await.json();
    assert_eq!(reached, serde_json::json!({ "reached": false, "arrived": 0 }));
    assert_eq!(client.ask("POST", "/_control/hold", &[], r#"{"gate":"nowhere"}"#).await.status, 400);
    assert_eq!(client.ask("GET", "/_control/nothing", &[], "").await.status, 404);
    assert!(FakeControl::connect("https://example.org").await.is_err());
}

/// Not a test of its own: what the next one runs as a child.
#[tokio::test]
#[ignore = "runs until its stdin ends"]
async fn as_a_process() {
    let any: SocketAddr = ([127, 0, 0, 1], 0).into();
    run_process(any).await.unwrap();
}

/// A fake in a process of its own, and where it says that it listens.
async fn spawn_process() -> (tokio::process::Child, FakeControl) {
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "as_a_process", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let stdout = child.stdout.as_mut().unwrap();
    let mut lines = BufReader::new(stdout).lines();
    let url = loop {
        let line = lines.next_line().await.unwrap().expect("a line that says where");
        // The test harness of the child may have written in front of it.
        if let Some(at) = line.find(r#"{"listening""#) {
            let line: serde_json::Value = serde_json::from_str(&line[at..]).unwrap();
            break line["listening"].as_str().unwrap().to_owned();
        }
    };
    let control = FakeControl::connect(&url).await.unwrap();
    (child, control)
}

#[tokio::test]
async fn a_fake_in_its_own_process_ends_with_its_stdin() {
    let (mut child, control) = spawn_process().await;
    assert_eq!(control.books().await.unwrap().created, 0);
    drop(child.stdin.take());
    assert!(child.wait().await.unwrap().success());
    assert!(matches!(control.books().await, Err(ControlError::Unreachable { .. })));
}

#[tokio::test]
async fn a_fake_in_its_own_process_ends_on_sigterm_though_its_stdin_is_open() {
    let (mut child, control) = spawn_process().await;
    let stdin = child.stdin.take();
    let pid = rustix::process::Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(child.wait().await.unwrap().success());
    assert!(control.books().await.is_err());
    drop(stdin);
}
