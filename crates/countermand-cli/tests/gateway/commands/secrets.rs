//! A secret goes to the upstream, and nowhere else.

use super::tagged;
use crate::stage::{Caller, Gateway, Outcome, Stage};
use countermand_testkit::{
    client::{StdioClient, message},
    fake::{Fault, Route},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const SECRET: &str = "s3cr3t-Zb7-must-stay-inside";

/// An upstream that wants a token, and an echo that shows what it got.
async fn with_a_secret() -> Stage {
    let stage = Stage::new().await;
    stage.configure(|config| {
        config.replace("{ base_url:", "{ headers: { authorization: { env: STAGE_TOKEN, prefix: \"Bearer \" } }, base_url:")
            + "  seen:\n    input: { type: object }\n    upstream: reports\n    http: { request: GET /echo/x, value: $.method }\n"
    });
    stage
}

fn serve(stage: &Stage, more: &[&str]) -> tokio::process::Command {
    let mut command = stage.serve(more);
    command.env("STAGE_TOKEN", SECRET).env("COUNTERMAND_LOG", "trace");
    command
}

async fn ops(stage: &Stage, args: &[&str]) -> String {
    let mut command = stage.command(args);
    command.arg("-c").arg(stage.config()).env("STAGE_TOKEN", SECRET);
    let said = Outcome::of(command).await;
    said.stdout + &said.stderr
}

/// Everything that is written anywhere, by where.
async fn everything(stage: &Stage, logs: String, answers: &[Value]) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::from([("logs".to_owned(), logs.into_bytes())]);
    all.insert("answers".into(), json!(answers).to_string().into_bytes());
    all.insert("ops list".into(), ops(stage, &["ops", "list"]).await.into_bytes());
    let rows = ops(stage, &["ops", "list", "--json"]).await;
    for row in rows.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let id = row["id"].as_str().unwrap();
        all.insert(format!("ops show {id}"), ops(stage, &["ops", "show", id, "--json"]).await.into_bytes());
    }
    all.insert("ops list --json".into(), rows.into_bytes());
    all.insert("check".into(), ops(stage, &["check"]).await.into_bytes());
    all.insert("check --json".into(), ops(stage, &["check", "--json"]).await.into_bytes());
    for entry in std::fs::read_dir(stage.dir.path()).unwrap() {
        let path = entry.unwrap().path();
        all.insert(path.display().to_string(), std::fs::read(&path).unwrap());
    }
    all
}

fn is_nowhere(all: &BTreeMap<String, Vec<u8>>) {
    assert!(all.keys().any(|name| name.ends_with("ledger.db")), "{:?}", all.keys());
    for (place, bytes) in all {
        let found = bytes.windows(SECRET.len()).position(|window| window == SECRET.as_bytes());
        if let Some(at) = found {
            let around = &bytes[at.saturating_sub(200)..(at + 100).min(bytes.len())];
            panic!("the secret is in {place}: {}", String::from_utf8_lossy(around));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_reaches_the_upstream_and_no_log_no_ledger_no_answer_and_no_command() {
    let stage = with_a_secret().await;
    // Every request of a job carries it, or is refused before the fake would do anything.
    let mut client = StdioClient::spawn(serve(&stage, &[])).unwrap();
    client.initialize("2025-11-25").await;
    let mut answers = Vec::new();
    let mut carried = 0;
    for (id, tool) in [(1, "run_report"), (2, "with_undo"), (3, "search"), (4, "order"), (5, "seen")] {
        let only =
            countermand_testkit::fake::Filter { marker: Some(SECRET.to_owned()), ..Default::default() };
        let held = stage.fake.hold(countermand_testkit::fake::Gate::RequestHead, only);
        let arguments = if tool == "seen" { json!({}) } else { tagged(&format!("t{id}")) };
        client.send(&message::call(id, tool, arguments)).await;
        held.reached().await;
        carried += held.arrived();
        held.release();
    }
    assert!(carried >= 5, "the upstream gets it");
    stage.fake.wait_for("job_polled", 2).await;
    stage.fake.wait_for("slow_started", 1).await;
    for id in [1, 2, 3] {
        client.send(&message::cancelled(id, Some("enough"))).await;
    }
    for id in [4, 5] {
        answers.push(client.response(&json!(id)).await);
    }
    stage.settled_with_secret(3).await;

    // A refusal, a failing cancel, a redirect, and an upstream that hangs up.
    stage.fake.fault(Route::CreateJob, Fault::Status(401, None), Some(1));
    client.send(&message::call(6, "run_report", tagged("t6"))).await;
    answers.push(client.response(&json!(6)).await);
    stage.fake.fault(Route::Slow, Fault::ResetBeforeCommit, None);
    client.send(&message::call(7, "search", tagged("t7"))).await;
    answers.push(client.response(&json!(7)).await);
    stage.fake.fault(Route::Quick, Fault::Redirect("http://127.0.0.1:1/elsewhere".into()), None);
    client.send(&message::call(8, "quick", tagged("t8"))).await;
    answers.push(client.response(&json!(8)).await);
    stage.fake.fault(Route::CancelJob, Fault::Status(401, None), None);
    client.send(&message::call(9, "run_report", tagged("t9"))).await;
    stage.fake.wait(|events| events.iter().any(|event| event.is("job_polled") && event.tagged("t9"))).await;
    client.send(&message::cancelled(9, None)).await;
    stage.fake.wait(|events| events.iter().filter(|event| event.is("fault_applied")).count() >= 4).await;
    for answer in &answers[2..] {
        assert_eq!(answer["result"]["isError"], true, "{answer}");
    }
    client.send(&message::call(10, "cancellation_status", json!({}))).await;
    answers.push(client.response(&json!(10)).await);
    client.close_input();
    client.exit().await;
    let logs = client.stderr_to_end().await;
    assert!(logs.contains("401"), "the logs are those of the whole life");
    is_nowhere(&everything(&stage, logs, &answers).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_is_in_no_error_of_an_upstream_that_cannot_be_reached() {
    let stage = with_a_secret().await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let base = stage.fake.base_url();
    stage.configure(|config| config.replace(&base, &format!("http://{closed}")));
    let gateway = Gateway::start(serve(&stage, &["--http", "127.0.0.1:0"])).await;
    let mut caller = Caller::Http(Box::new(gateway));
    let mut answers = Vec::new();
    for (id, tool) in [(1, "run_report"), (2, "search"), (3, "order")] {
        let mut pending = caller.call(id, tool, tagged("t")).await;
        let answer = caller.answer(&mut pending).await;
        assert_eq!(answer["isError"], true, "{answer}");
        assert!(
            answer["content"][0]["text"].as_str().unwrap().to_lowercase().contains("connect"),
            "{answer}"
        );
        answers.push(answer);
    }
    let Caller::Http(mut gateway) = caller else { unreachable!("it is HTTP") };
    gateway.terminate();
    let (status, logs) = gateway.exit().await;
    assert!(status.success(), "{logs}");
    is_nowhere(&everything(&stage, logs, &answers).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_no_header_can_hold_is_not_repeated_in_the_error() {
    let stage = with_a_secret().await;
    let broken = format!("{SECRET}\nx");
    let mut command = serve(&stage, &[]);
    command.env("STAGE_TOKEN", &broken);
    let mut client = StdioClient::spawn(command).unwrap();
    client.send(&message::initialize("initialize", "2025-11-25")).await;
    let mut answers = Vec::new();
    while let Some(message) = client.next().await {
        if message["id"] == "initialize" {
            client.send(&message::call(1, "quick", tagged("t"))).await;
        }
        if message["id"] == 1 {
            client.close_input();
        }
        answers.push(message);
    }
    let status = client.exit().await;
    let logs = client.stderr_to_end().await;
    println!("{status}: {answers:?}");
    assert!(!logs.contains(SECRET), "{logs}");
    assert!(!json!(answers).to_string().contains(SECRET), "{answers:?}");
}

impl Stage {
    /// Waits until `n` rows are settled; unlike `settled` there may be more.
    async fn settled_with_secret(&self, n: usize) {
        self.operations_when("settled rows", |rows| {
            rows.iter().filter(|row| row["settled"] == true).count() >= n
        })
        .await;
    }
}
