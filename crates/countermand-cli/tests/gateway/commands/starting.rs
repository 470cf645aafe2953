//! What keeps a gateway from starting, and what `check` and `schema` say.

use super::tagged;
use crate::stage::{Outcome, Stage};
use countermand_testkit::client::message;
use serde_json::Value;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_prints_the_plan_to_stdout_and_exits_with_0() {
    let stage = Stage::new().await;
    let said = stage.outcome(&["check"]).await.exited(0);
    for word in ["run_report", "DELETE /jobs/${op.id}", "no_cancel", "search"] {
        assert!(said.stdout.contains(word), "`{word}` is missing:\n{}", said.stdout);
    }
    let said = stage.outcome(&["check", "--json"]).await.exited(0);
    let plan: Value = serde_json::from_str(&said.stdout).unwrap();
    assert!(plan.to_string().contains("DELETE /jobs/${op.id}"), "{plan:#}");
    assert!(!stage.ledger_file().exists(), "a check makes nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_writes_warnings_to_stderr_and_still_exits_with_0() {
    let stage = Stage::new().await;
    stage.configure(|config| {
        config.replace("server: { name: stage }", "server: { name: stage, http: { listen: 127.0.0.1:0 } }")
    });
    let said = stage.outcome(&["check"]).await.exited(0);
    assert!(said.stderr.contains("share") && said.stderr.contains("principal"), "{}", said.stderr);
    assert!(!said.stdout.contains("share one principal"), "{}", said.stdout);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_config_is_named_by_file_line_and_column_and_exits_with_78() {
    let stage = Stage::new().await;
    let mut line = 0;
    stage.configure(|config| {
        let config = config.replace(
            "    upstream: reports\n    http: { request: GET /slow,",
            "    upstraem: reports\n    http: { request: GET /slow,",
        );
        line = 1 + config.lines().position(|text| text.contains("upstraem")).unwrap();
        config
    });
    let place = format!("{}:{line}:5", stage.config().display());
    for args in [&["check"][..], &["check", "--json"], &["serve"], &["ops", "list"]] {
        let said = stage.outcome(args).await.exited(78);
        assert!(said.stderr.contains(&place), "{place} is missing:\n{}", said.stderr);
        assert!(said.stderr.contains("upstraem") && said.stderr.contains("`upstream`"), "{}", said.stderr);
        assert!(said.stdout.is_empty(), "{}", said.stdout);
    }
    assert!(!stage.ledger_file().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_config_that_is_not_there_exits_with_78_and_is_named() {
    let stage = Stage::new().await;
    for args in [&["check", "-c", "nowhere.yaml"][..], &["serve", "-c", "nowhere.yaml"]] {
        let said = Outcome::of(stage.command(args)).await.exited(78);
        assert!(said.stderr.contains("nowhere.yaml"), "{}", said.stderr);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_said_exits_with_2() {
    let stage = Stage::new().await;
    for args in [
        &[][..],
        &["serve"],
        &["nonsense"],
        &["check", "--nonsense"],
        &["ops"],
        &["ops", "show", "-c", "x"],
        &["ops", "list", "-c", "x", "--ledger", "sqlite:y"],
        &["serve", "-c", "x", "--grace", "soon"],
        &["serve", "-c", "x", "--http", "not an address"],
        &["ops", "list", "-c", "x", "--limit", "many"],
        &["--log", "=,=", "schema"],
    ] {
        let said = Outcome::of(stage.command(args)).await.exited(2);
        assert!(said.stdout.is_empty(), "{args:?}: {}", said.stdout);
        assert!(!said.stderr.is_empty(), "{args:?}");
    }
    for args in [&["--help"][..], &["serve", "--help"], &["--version"]] {
        let said = Outcome::of(stage.command(args)).await.exited(0);
        assert!(!said.stdout.is_empty() && said.stderr.is_empty(), "{args:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_is_not_in_the_environment_stops_serve_with_78_and_check_does_not_need_it() {
    let stage = Stage::new().await;
    stage.configure(|config| {
        config.replace(
            "{ base_url:",
            "{ headers: { authorization: { env: COUNTERMAND_TEST_ABSENT } }, base_url:",
        )
    });
    let said = stage.outcome(&["serve"]).await.exited(78);
    assert!(said.stderr.contains("COUNTERMAND_TEST_ABSENT"), "{}", said.stderr);
    assert!(said.stderr.contains(&format!("{}:", stage.config().display())), "{}", said.stderr);
    assert!(said.stdout.is_empty());
    assert!(!stage.ledger_file().exists(), "nothing was opened");
    let said = stage.outcome(&["check"]).await.exited(0);
    assert!(said.stdout.contains("run_report"));
    let mut with = stage.serve(&[]);
    with.env("COUNTERMAND_TEST_ABSENT", "there");
    let mut client = countermand_testkit::client::StdioClient::spawn(with).unwrap();
    client.initialize("2025-11-25").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_in_use_is_named_and_exits_with_1() {
    let stage = Stage::new().await;
    let taken = stage.fake.addr().to_string();
    let said = Outcome::of(stage.serve(&["--http", &taken])).await.exited(1);
    assert!(said.stderr.contains(&format!("failed to listen on {taken}")), "{}", said.stderr);
    assert!(said.stdout.is_empty());
    let said = Outcome::of(stage.serve(&["--http", "192.0.2.1:1"])).await.exited(1);
    assert!(said.stderr.contains("192.0.2.1:1"), "{}", said.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_address_in_the_config_exits_with_78() {
    let stage = Stage::new().await;
    stage.configure(|config| {
        config.replace("server: { name: stage }", "server: { name: stage, http: { listen: 8717 } }")
    });
    let said = stage.outcome(&["serve"]).await.exited(78);
    assert!(said.stderr.contains("write `127.0.0.1:8717`"), "{}", said.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schema_prints_a_json_schema_of_the_config() {
    let stage = Stage::new().await;
    let said = Outcome::of(stage.command(&["schema"])).await.exited(0);
    let schema: Value = serde_json::from_str(&said.stdout).unwrap();
    assert!(schema["$schema"].as_str().unwrap().contains("json-schema.org"), "{schema}");
    let validator = jsonschema::validator_for(&schema).unwrap();
    for field in ["tools", "upstreams", "ledger", "limits"] {
        assert!(schema["properties"].get(field).is_some(), "{field}");
    }
    assert!(
        validator.is_valid(&serde_json::json!({ "ledger": "sqlite:x.db", "upstreams": {}, "tools": {} }))
    );
    assert!(!validator.is_valid(&serde_json::json!({ "legder": "sqlite:x.db" })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stdout_belongs_to_mcp_and_logs_can_be_json() {
    let stage = Stage::new().await;
    let mut command = stage.command(&["--log-format", "json", "serve", "-c"]);
    command.arg(stage.config());
    // Every line of stdout is read as JSON-RPC, or the client panics.
    let mut client = countermand_testkit::client::StdioClient::spawn(command).unwrap();
    client.initialize("2025-11-25").await;
    client.send(&message::call(1, "quick", tagged("t"))).await;
    client.response(&serde_json::json!(1)).await;
    client.close_input();
    assert!(client.read_to_end().await.iter().all(|message| message["jsonrpc"] == "2.0"));
    assert!(client.exit().await.success());
    let said = client.stderr_to_end().await;
    assert!(said.lines().count() > 1, "{said}");
    for line in said.lines() {
        let log: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(log["level"].is_string() && log["timestamp"].is_string(), "{line}");
    }
}
