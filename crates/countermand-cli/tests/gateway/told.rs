//! Somebody is told of what could not be stopped: by a program, by a webhook, once, and that it is settled.

use crate::stage::{Caller, Gateway, Outcome, Stage, Times};
use countermand_testkit::fake::{Fault, Route};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpListener,
};

const ARGUMENT: &str = "an-argument-of-the-call";
const TOKEN: &str = "t0ken-of-the-webhook";

/// A stage with this at the top of its config; `DIR` is its directory.
async fn stage(top: &str) -> Stage {
    let stage = Stage::with_config(Times::default(), |config| {
        config.replace("tools:\n", &format!("{top}\ntools:\n"))
    })
    .await;
    let dir = stage.dir.path().display().to_string();
    stage.configure(|config| config.replace("DIR", &dir));
    stage.fake.fault(Route::CancelJob, Fault::Status(503, None), None);
    stage
}

async fn caller(stage: &Stage) -> Caller {
    let mut command = stage.serve(&["--http", "127.0.0.1:0"]);
    command.env("HOOK_TOKEN", TOKEN);
    Caller::Http(Box::new(Gateway::start(command).await))
}

/// Cancels a job whose upstream does not accept that, until it counts as late.
async fn an_orphan(caller: &mut Caller, stage: &Stage, tool: &str) -> Value {
    let pending = caller.call(1, tool, json!({ "tag": ARGUMENT })).await;
    stage.phase("running").await;
    caller.cancel(pending).await;
    stage.phase("orphaned").await
}

async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = look() {
                return found;
            }
            // Other processes write it: there is nothing to wait for but time.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), found).await.unwrap_or_else(|_| panic!("never: {what}"))
}

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    assert!(!text.contains(ARGUMENT), "no arguments: {text}");
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Waits until so much was told, and returns it.
async fn told(file: &Path, notices: &[&str]) -> Vec<Value> {
    until(&format!("{notices:?} in {}", file.display()), || {
        let lines = lines(file);
        let said: Vec<_> = lines.iter().map(|line| line["notice"].as_str().unwrap().to_owned()).collect();
        (said == notices).then_some(lines)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_is_told_of_an_orphan_and_that_it_is_settled() {
    let stage = stage(
        r#"on_orphan: { command: [sh, -c, 'cat >> DIR/told; echo "$COUNTERMAND_OPERATION" >> DIR/ids'] }"#,
    )
    .await;
    let file = stage.dir.path().join("told");
    let mut caller = caller(&stage).await;
    let row = an_orphan(&mut caller, &stage, "run_report").await;
    let orphaned = told(&file, &["orphaned"]).await.remove(0);
    for name in ["id", "key", "tool", "upstream", "upstream_id", "cause", "phase", "created_at"] {
        assert_eq!(orphaned[name], row[name], "{name}");
    }
    assert!(orphaned["last_error"].as_str().unwrap().contains("503"));
    stage.fake.clear_faults();
    stage.phase("cancelled").await;
    let settled = told(&file, &["orphaned", "settled"]).await.remove(1);
    assert_eq!(
        (&settled["phase"], &settled["settled"], &settled["id"]),
        (&json!("cancelled"), &json!(true), &row["id"])
    );
    let id = row["id"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(stage.dir.path().join("ids")).unwrap(), format!("{id}\n{id}\n"));
    caller.rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_told_before_the_gateway_was_killed_is_told_once_after_it() {
    let top = "on_orphan: { command: [sh, -c, 'test -e DIR/there || { echo nobody there >&2; exit 7; }; cat >> DIR/told'] }";
    let stage = stage(top).await;
    let file = stage.dir.path().join("told");
    let mut first = caller(&stage).await;
    let row = an_orphan(&mut first, &stage, "run_report").await;
    let id = row["id"].as_str().unwrap();
    until("a failure in the log", || {
        let logs = first.logs();
        let line = logs.lines().find(|line| line.contains("failed to tell somebody"))?;
        assert!(line.contains(id) && line.contains("nobody there") && line.contains('7'), "{line}");
        Some(())
    })
    .await;
    first.kill().await;
    std::fs::write(stage.dir.path().join("there"), "").unwrap();
    let second = caller(&stage).await;
    told(&file, &["orphaned"]).await;
    stage.fake.clear_faults();
    stage.phase("cancelled").await;
    let lines = told(&file, &["orphaned", "settled"]).await;
    assert!(lines.iter().all(|line| line["id"] == row["id"]), "{lines:#?}");
    second.rest().await;
    // A third start has nothing to tell.
    let third = caller(&stage).await;
    third.rest().await;
    told(&file, &["orphaned", "settled"]).await;
}

/// An address that notes what is POSTed to it, and answers with 500 so many times.
struct Hook {
    url: String,
    posts: Arc<Mutex<Vec<(String, Value)>>>,
    _serving: tokio::task::JoinSet<()>,
}

impl Hook {
    async fn start(mut failures: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let posts = Arc::new(Mutex::new(Vec::new()));
        let noted = posts.clone();
        let mut serving = tokio::task::JoinSet::new();
        serving.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let mut stream = BufReader::new(stream);
                let (mut head, mut length) = (String::new(), 0);
                loop {
                    let mut line = String::new();
                    stream.read_line(&mut line).await.unwrap();
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    if line.trim().is_empty() {
                        break;
                    }
                    head += &line;
                }
                let mut body = vec![0; length];
                stream.read_exact(&mut body).await.unwrap();
                noted.lock().unwrap().push((head, serde_json::from_slice(&body).unwrap()));
                let status = if failures > 0 { "500 No" } else { "204 Yes" };
                failures = failures.saturating_sub(1);
                let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        Self { url, posts, _serving: serving }
    }

    fn notices(&self) -> Vec<String> {
        let posts = self.posts.lock().unwrap();
        posts.iter().map(|(_, body)| body["notice"].as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_is_tried_again_until_it_takes_it_and_its_tool_has_its_own() {
    let hook = Hook::start(2).await;
    let stage = stage("on_orphan: { command: [sh, -c, 'cat >> DIR/told'] }").await;
    let tool = format!(
        "  hooked:\n    input: *input\n    upstream: reports\n    job: *job\n    on_orphan: {{ webhook: \"{}\", headers: {{ authorization: {{ env: HOOK_TOKEN, prefix: \"Bearer \" }} }} }}\n",
        hook.url
    );
    stage.configure(|config| config + &tool);
    let mut caller = caller(&stage).await;
    let row = an_orphan(&mut caller, &stage, "hooked").await;
    until("three tries", || (hook.notices().len() == 3).then_some(())).await;
    stage.fake.clear_faults();
    stage.phase("cancelled").await;
    until("settled", || (hook.notices().len() == 4).then_some(())).await;
    assert_eq!(hook.notices(), ["orphaned", "orphaned", "orphaned", "settled"]);
    for (head, body) in hook.posts.lock().unwrap().iter() {
        assert!(
            head.starts_with("POST /hook ") && head.contains(&format!("authorization: Bearer {TOKEN}")),
            "{head}"
        );
        assert!(head.contains("content-type: application/json"), "{head}");
        assert!(body["id"] == row["id"] && !body.to_string().contains(ARGUMENT), "{body:#}");
    }
    let nobody: PathBuf = stage.dir.path().join("told");
    assert!(!nobody.exists(), "the tool's own goes before");
    let logs = caller.logs();
    let failed = logs.lines().find(|line| line.contains("failed to tell somebody")).unwrap();
    assert!(failed.contains("500"), "{failed}");
    assert!(!logs.contains(TOKEN), "{logs}");
    caller.rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_killed_while_it_tells_tells_it_once_more_at_most() {
    let top = "on_orphan: { command: [sh, -c, 'echo x >> DIR/starts; until test -e DIR/go; do sleep 0.05; done; cat >> DIR/told'] }";
    let stage = stage(top).await;
    let file = stage.dir.path().join("told");
    let starts = stage.dir.path().join("starts");
    let started = |times: usize| {
        let text = std::fs::read_to_string(&starts).unwrap_or_default();
        (text.lines().count() == times).then_some(())
    };
    let mut first = caller(&stage).await;
    let row = an_orphan(&mut first, &stage, "run_report").await;
    until("a program that runs", || started(1)).await;
    first.kill().await;
    let second = caller(&stage).await;
    until("a program that runs again", || started(2)).await;
    // Both live: the one of the gateway that was killed has outlived it.
    std::fs::write(stage.dir.path().join("go"), "").unwrap();
    stage.fake.clear_faults();
    stage.phase("cancelled").await;
    let lines = told(&file, &["orphaned", "orphaned", "settled"]).await;
    assert!(lines.iter().all(|line| line["id"] == row["id"]), "{lines:#?}");
    second.rest().await;
    until("the three programs", || started(3)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_tool_that_says_nobody_the_log_alone_tells() {
    let stage = stage("on_orphan: { command: [sh, -c, 'cat >> DIR/told'] }").await;
    stage.configure(|config| {
        config + "  quiet:\n    input: *input\n    upstream: reports\n    job: *job\n    on_orphan: nobody\n"
    });
    let mut caller = caller(&stage).await;
    let row = an_orphan(&mut caller, &stage, "quiet").await;
    stage.fake.clear_faults();
    stage.phase("cancelled").await;
    // The next orphan is another tool's: what is told of it comes after what there was to tell of the first.
    stage.fake.fault(Route::CancelJob, Fault::Status(503, None), None);
    let pending = caller.call(2, "run_report", json!({ "tag": ARGUMENT })).await;
    stage.operations_when("a second that runs", |rows| rows[0]["phase"] == "running").await;
    caller.cancel(pending).await;
    let lines = told(&stage.dir.path().join("told"), &["orphaned"]).await;
    assert_ne!(lines[0]["id"], row["id"]);
    let id = row["id"].as_str().unwrap();
    let logs = caller.logs();
    assert!(logs.lines().any(|line| line.contains("ERROR") && line.contains(id)), "{logs}");
}

/// `ops cancel` of a job whose cancel is refused for want of credentials, and no gateway runs: it is an orphan at once.
async fn orphaned_by_hand(stage: &Stage) -> Value {
    stage.fake.clear_faults();
    stage.fake.fault(Route::CancelJob, Fault::Status(401, None), None);
    let mut caller = caller(stage).await;
    let pending = caller.call(1, "run_report", json!({ "tag": ARGUMENT })).await;
    let row = stage.phase("running").await;
    caller.kill().await;
    drop(pending);
    row
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_without_a_gateway_tells_who_its_config_names_and_the_next_gateway_does_not_again() {
    let stage = stage("on_orphan: { command: [sh, -c, 'cat >> DIR/told'] }").await;
    let file = stage.dir.path().join("told");
    let row = orphaned_by_hand(&stage).await;
    let said = stage.outcome(&["ops", "cancel", row["id"].as_str().unwrap()]).await.exited(1);
    // Before the command has ended.
    let lines = lines(&file);
    assert_eq!(lines.len(), 1, "{}", said.stderr);
    assert_eq!((&lines[0]["notice"], &lines[0]["id"]), (&json!("orphaned"), &row["id"]));
    assert_eq!((&lines[0]["phase"], &lines[0]["cause"]), (&json!("orphaned"), &json!("operator")));
    assert!(!said.stderr.contains("nobody was told"), "{}", said.stderr);
    stage.fake.clear_faults();
    let next = caller(&stage).await;
    stage.phase("cancelled").await;
    told(&file, &["orphaned", "settled"]).await;
    next.rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_without_gateway_and_config_says_that_nobody_was_told_and_the_next_gateway_tells() {
    let stage = stage("on_orphan: { command: [sh, -c, 'cat >> DIR/told'] }").await;
    let file = stage.dir.path().join("told");
    let row = orphaned_by_hand(&stage).await;
    let ledger = format!("sqlite:{}", stage.ledger_file().display());
    let args = ["ops", "cancel", row["id"].as_str().unwrap(), "--ledger", &ledger];
    let said = Outcome::of(stage.command(&args)).await.exited(1);
    assert!(
        said.stderr.contains("nobody was told of it") && said.stderr.contains("-c FILE"),
        "{}",
        said.stderr
    );
    assert!(!file.exists());
    let next = caller(&stage).await;
    told(&file, &["orphaned"]).await;
    next.rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_without_a_gateway_that_could_not_tell_says_so_and_the_next_gateway_tries_again() {
    let top = "on_orphan: { command: [sh, -c, 'test -e DIR/there || { echo nobody there >&2; exit 7; }; cat >> DIR/told'] }";
    let stage = stage(top).await;
    let row = orphaned_by_hand(&stage).await;
    let said = stage.outcome(&["ops", "cancel", row["id"].as_str().unwrap()]).await.exited(1);
    for part in ["nobody there", "not all of it could be told", "the next gateway tries again"] {
        assert!(said.stderr.contains(part), "{part}: {}", said.stderr);
    }
    std::fs::write(stage.dir.path().join("there"), "").unwrap();
    let next = caller(&stage).await;
    told(&stage.dir.path().join("told"), &["orphaned"]).await;
    next.rest().await;
}
