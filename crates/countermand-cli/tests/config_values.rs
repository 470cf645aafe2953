//! What good configs mean: defaults, shorthands, presets, and what is warned of.

use countermand::{
    core::{Lookup, OnDisconnect, WhenCompleted},
    definition::{CancelDefinition, Extract, IdSource, JobDefinition, StateSource, Value, Work},
    notify::OnOrphan,
};
use countermand_cli::{
    config::{self, Config, OnReissue, Tool},
    plan::Plan,
};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn parse(text: &str) -> Config {
    config::parse("c.yaml", text, &|name| (name != "MISSING").then(|| "set".into()))
        .unwrap_or_else(|errors| panic!("{errors}"))
}

fn tool(fields: &str) -> Config {
    parse(&format!(
        "upstreams: {{ api: {{ http: 'http://h/v1/' }} }}\ntools:\n  t:\n    upstream: api\n{fields}"
    ))
}

fn job(tool: &Tool) -> &JobDefinition {
    match &tool.definition.work {
        Work::Job(job) => job,
        _ => panic!("a job was expected"),
    }
}

fn warnings(config: &Config) -> String {
    config.warnings.iter().map(|warning| format!("{warning}\n")).collect()
}

const JOB: &str = r#"    job:
      create: { request: "POST /jobs", id: $.id, query: { key: "${op.key}" } }
      status: { request: "GET /jobs/${op.id}", state: $.s, succeeded: done, failed: [failed] }
      cancel: DELETE /jobs/${op.id}
      key_window: 1h
"#;

#[test]
fn what_is_not_said_has_its_default() {
    let config = tool(JOB);
    let tool = &config.tools[0];
    let policy = &tool.definition.policy;
    assert_eq!(tool.definition.upstream.http().unwrap().base_url, "http://h/v1");
    assert_eq!(tool.timeout, 3600 * SECOND);
    assert_eq!(tool.on_disconnect, None);
    assert_eq!(tool.input, serde_json::json!({ "type": "object" }));
    assert_eq!((policy.lifetime, policy.confirm_within), (3600 * SECOND, 30 * SECOND));
    assert_eq!((policy.shield, policy.horizon), (30 * SECOND, 60 * SECOND));
    assert_eq!((policy.poll_every, policy.poll_max), (SECOND, 10 * SECOND));
    assert_eq!((policy.key_window, policy.find), (Some(3600 * SECOND), None));
    assert_eq!((policy.undo_steps, policy.when_completed), (0, WhenCompleted::Keep));
    assert!(policy.can_cancel && !policy.mark);
    assert_eq!(config.ledger, "sqlite:countermand.db");
    assert_eq!(config.retention, 30 * 24 * 3600 * SECOND);
    assert_eq!(config.limits.message, 4 << 20);
    assert_eq!(config.server.name, "countermand");
    assert!(tool.validator().unwrap().is_valid(&serde_json::json!({})));
    assert_eq!(warnings(&config), "");
}

#[test]
fn shorthands_mean_what_they_abbreviate() {
    let config = tool(JOB);
    let job = job(&config.tools[0]);
    assert_eq!(job.create.id, IdSource::Response(Extract::JsonPath("$.id".into())));
    assert_eq!(job.status.state, StateSource::Paths(vec!["$.s".into()]));
    assert_eq!(job.status.states.succeeded, ["done"]);
    let CancelDefinition::Request { request, force: None } = &job.cancel else { panic!("{:?}", job.cancel) };
    assert_eq!((request.method.as_str(), request.target.source()), ("DELETE", "/jobs/${op.id}"));
    let read = tool("    http: get /x\n");
    assert_eq!(read.tools[0].timeout, 60 * SECOND);
    assert_eq!(Plan::of(&read).tools[0].kind, "http_none");
}

#[test]
fn a_status_code_is_a_state_in_every_form() {
    for state in [
        "http_status",
        "{ http_status: true }",
        "{ http_status: }",
        "{ http_status: { succeeded: [200], failed: [500] } }",
    ] {
        let lists = if state.contains("succeeded") { "" } else { "succeeded: [200], failed: ['500']," };
        let config = tool(
            &JOB.replace("state: $.s, succeeded: done, failed: [failed]", &format!("{lists} state: {state}")),
        );
        let status = &job(&config.tools[0]).status;
        assert_eq!(status.state, StateSource::HttpStatus);
        assert_eq!(
            (&status.states.succeeded[..], &status.states.failed[..]),
            (&["200".into()][..], &["500".into()][..])
        );
    }
}

#[test]
fn states_compare_as_they_are_written() {
    let config = tool(&JOB.replace("failed: [failed]", "failed: [1.0, 007, true, no]"));
    assert_eq!(job(&config.tools[0]).status.states.failed, ["1.0", "007", "true", "no"]);
}

#[test]
fn times_are_written_in_many_ways() {
    for (written, seconds) in
        [("30s", 30), ("10m", 600), ("24h", 86_400), ("2h 30m", 9_000), ("PT30S", 30), ("30d", 2_592_000)]
    {
        assert_eq!(parse(&format!("retention: {written}\n")).retention, seconds * SECOND, "{written}");
        assert_eq!(config::duration(written), Ok(seconds * SECOND));
    }
    for wrong in ["soon", "1 month", "30", "-5s"] {
        assert!(config::duration(wrong).unwrap_err().contains("write a time"), "{wrong}");
    }
}

#[test]
fn a_preset_is_filled_in_and_every_field_can_be_overridden() {
    let text = format!(
        "presets:\n  slow:\n{}upstreams: {{ api: {{ http: 'http://h' }} }}\ntools:\n  a:\n    upstream: api\n    job: {{ preset: slow }}\n  b:\n    upstream: api\n    job:\n      preset: slow\n      create: {{ headers: {{ x: y }}, request: POST /others }}\n      cancel: {{ unsupported: none }}\n      key_window: ~\n      lost_id: accept\n      lifetime: 5m\n",
        JOB
    );
    let config = parse(&text);
    let [a, b] = &config.tools[..] else { panic!() };
    assert_eq!(job(a).create.request.target.source(), "/jobs");
    assert_eq!(job(b).create.request.target.source(), "/others");
    assert_eq!(job(b).create.request.headers[0].0, "x");
    assert_eq!(job(b).create.request.query[0].0, "key");
    assert_eq!(job(b).cancel, CancelDefinition::Unsupported("none".into()));
    assert_eq!((b.definition.policy.key_window, b.accepted.lost_id), (None, true));
    assert_eq!(b.timeout, 300 * SECOND);
}

#[test]
fn defaults_are_for_tools_that_do_not_say() {
    let text = format!(
        "defaults: {{ timeout: 5m, on_disconnect: detach, when_completed: keep }}\nupstreams: {{ api: {{ http: 'http://h' }} }}\ntools:\n  a:\n    upstream: api\n{JOB}  b:\n    upstream: api\n    timeout: 1m\n    on_disconnect: {{ grace: 10s }}\n    compensate: [ DELETE /x ]\n{JOB}  c: {{ upstream: api, http: GET /x }}\n"
    );
    let config = parse(&text);
    let [a, b, c] = &config.tools[..] else { panic!() };
    assert_eq!((a.timeout, a.on_disconnect), (300 * SECOND, Some(OnDisconnect::Detach)));
    assert_eq!((b.timeout, b.on_disconnect), (60 * SECOND, Some(OnDisconnect::Grace(10 * SECOND))));
    assert_eq!(b.definition.policy.when_completed, WhenCompleted::Keep);
    assert_eq!(c.timeout, 300 * SECOND);
}

#[test]
fn an_id_of_ours_is_looked_up_by_the_status_read() {
    let config = tool(
        &JOB.replace("id: $.id, query: { key: \"${op.key}\" }", "id: \"${op.key}\"")
            .replace("      key_window: 1h\n", ""),
    );
    let job = job(&config.tools[0]);
    let find = job.find.as_ref().unwrap();
    assert_eq!((find.request.target.source(), &find.id), ("/jobs/${op.id}", &None));
    assert_eq!(config.tools[0].definition.policy.find, Some(Lookup::Consistent));
}

#[test]
fn a_key_without_a_window_is_taken_for_five_minutes_and_that_is_said() {
    let config = tool(
        &JOB.replace("query: { key: \"${op.key}\" }", "headers: { Idempotency-Key: \"${op.key}\" }")
            .replace("      key_window: 1h\n", ""),
    );
    assert_eq!(config.tools[0].definition.policy.key_window, Some(config::lost::ASSUMED_KEY_WINDOW));
    assert!(
        warnings(&config)
            .contains("c.yaml:6:61: warning: how long the upstream honours this key is not said"),
        "{}",
        warnings(&config)
    );
    assert!(Plan::of(&config).tools[0].risks.iter().any(|risk| risk.risk == "assumed_window"));
}

#[test]
fn a_create_with_write_only_arguments_is_never_sent_again() {
    let input = "    input: { properties: { pin: { type: string, writeOnly: true } }, required: [pin] }\n";
    let job = JOB
        .replace("query: { key", "body: { pin: \"${args.pin}\" }, query: { key")
        .replace("key_window: 1h", "find: { request: \"GET /jobs?key=${op.key}\", id: \"$[0].id\" }");
    let config = tool(&format!("{input}{job}"));
    assert_eq!(config.tools[0].definition.policy.key_window, None);
    assert!(config.tools[0].accepted.write_only);
    assert!(Plan::of(&config).tools[0].risks.iter().any(|risk| risk.risk == "never_replayed"));
}

#[test]
fn what_works_and_may_surprise_is_warned_of() {
    let unsupported =
        JOB.replace("cancel: DELETE /jobs/${op.id}", "cancel: { unsupported: no }\n      lifetime: 1m");
    for (config, at, words) in [
        (tool(&unsupported), "8:7", "after a cancel it runs on, and nothing says so upstream"),
        (tool(&format!("    timeout: 2h\n{JOB}")), "5:14", "the lifetime ends before this timeout does"),
        (tool(&format!("    mark: PUT /x\n{JOB}")), "5:5", "this mark is never sent"),
        (
            tool("    http: { request: GET /x, headers: { authorization: Bearer x } }\n"),
            "5:56",
            "a secret in plain text",
        ),
        (
            tool("    http: { request: GET /x, headers: { authorization: { env: MISSING } } }\n"),
            "5:63",
            "`MISSING` is not set",
        ),
        (
            tool("    input: { properties: { a: {} } }\n    http: GET /x/${args.a}\n"),
            "6:11",
            "a call without it fails",
        ),
        (tool(&JOB.replace(", failed: [failed]", "")), "7:7", "no state means that it failed"),
        (parse("server: { http: { listen: 'localhost:1' } }\n"), "1:27", "shares one principal"),
        (parse("presets: { x: { http: GET /x } }\n"), "1:12", "no tool uses the preset `x`"),
    ] {
        let shown = warnings(&config);
        assert!(
            shown.contains(&format!("c.yaml:{at}: warning: ")) && shown.contains(words),
            "{at} {words}:\n{shown}"
        );
    }
}

#[test]
fn serving_is_told_which_secrets_are_not_there() {
    let config = tool(
        "    http: { request: GET /x, headers: { a: { env: MISSING }, b: { file: /nowhere/at/all }, c: { env: SET } } }\n",
    );
    let missing = config.missing_secrets(&|name| (name == "SET").then(|| "x".into())).unwrap();
    assert_eq!(missing.errors().len(), 2);
    assert!(
        missing.to_string().starts_with("c.yaml:5:51: the environment variable `MISSING` is not set"),
        "{missing}"
    );
    assert!(tool("    http: GET /x\n").missing_secrets(&|_| None).is_none());
}

#[test]
fn a_placeholder_may_stand_unquoted_within_braces() {
    let text = r#"
upstreams:
  reports:
    http: { base_url: "http://127.0.0.1:9100", headers: { authorization: { env: REPORTS_TOKEN } } }
tools:
  export_all:
    upstream: reports
    job:
      create: { request: POST /exports, headers: { Idempotency-Key: ${op.key} }, id: { header: Location } }
      status: { request: GET ${op.id}, state: [$.état, $.status], succeeded: [done], failed: ['*'], absent: running }
      result: { request: GET /exports/${op.id:path}/result }
      cancel: { unsupported: "the export API has no cancel" }
      key_window: 24h
      lifetime: 15m
    mark: { request: PUT /exports/${op.id}/label, body: { orphaned: true } }
    compensate: [ DELETE /exports/${op.id}, { request: POST /undo, form: { key: ${op.undo_key}, n: [1, $${x}] } } ]
"#;
    let config = parse(text);
    let definition = &config.tools[0].definition;
    assert_eq!(job(&config.tools[0]).status.request.target.source(), "${op.id}");
    assert_eq!(definition.mark.as_ref().unwrap().target.source(), "/exports/${op.id}/label");
    assert_eq!(definition.compensate.len(), 2);
    assert!(!config.warnings.iter().any(|warning| warning.problem().message.contains("key")));
    let wrong = text.replace("absent: running", "abzent: running");
    let errors = config::parse("c.yaml", &wrong, &|_| None).unwrap_err();
    let column = wrong.lines().nth(9).unwrap().find("abzent").unwrap();
    // One character of two bytes stands before it on its line.
    assert!(
        errors.to_string().starts_with(&format!("c.yaml:10:{column}: there is no field `abzent`")),
        "{errors}"
    );
}

#[test]
fn a_tool_without_an_input_takes_the_arguments_that_its_requests_name() {
    let text = "upstreams: { u: { http: \"http://127.0.0.1:1\" } }\ntools:\n  t:\n    upstream: u\n    http: { request: GET /x, query: { tag: \"${args.tag}\" } }\n";
    let config = countermand_cli::config::parse("c.yaml", text, &|_| None).expect("is fine");
    assert_eq!(config.tools[0].input, serde_json::json!({ "type": "object", "properties": { "tag": {} } }));
    assert!(config.warnings.iter().any(|warning| warning.to_string().contains("has no `input`")));
}

#[test]
fn an_identical_call_joins_what_runs_where_the_tool_or_the_defaults_say_so() {
    let reissue = |text: &str| parse(text).tools.iter().map(|tool| tool.on_reissue).collect::<Vec<_>>();
    assert_eq!(tool(JOB).tools[0].on_reissue, OnReissue::New);
    let attach = tool(&format!("{JOB}    on_reissue: attach\n"));
    assert_eq!(attach.tools[0].on_reissue, OnReissue::Attach);
    let plan = Plan::of(&attach);
    assert_eq!(plan.tools[0].on_reissue, "attach");
    let line = "  an identical call while it runs joins it; only the cancel of the last one stops it";
    assert!(plan.render(None).lines().any(|is| is == line), "{}", plan.render(None));
    assert!(!Plan::of(&tool(JOB)).render(None).contains("identical"));

    let rest = format!(
        "upstreams: {{ api: {{ http: 'http://h/v1/' }} }}\ntools:\n  read: {{ upstream: api, http: GET /x }}\n  own:\n    upstream: api\n    on_reissue: new\n{JOB}  t:\n    upstream: api\n{JOB}"
    );
    let defaults = format!("defaults: {{ on_reissue: attach }}\n{rest}");
    assert_eq!(reissue(&defaults), [OnReissue::New, OnReissue::New, OnReissue::Attach]);
    assert_eq!(reissue(&rest), [OnReissue::New; 3]);
    let secret = "    input: { type: object, properties: { pin: { type: string, writeOnly: true } } }\n";
    let never_kept = JOB.replace("query: { key:", "body: { pin: \"${args.pin}\" }, query: { key:");
    let with_secret = tool(&format!("{secret}{never_kept}    on_reissue: attach\n"));
    assert!(with_secret.tools[0].accepted.write_only && with_secret.tools[0].on_reissue == OnReissue::Attach);
}

#[test]
fn an_upstream_is_spared_as_it_says_and_by_default_all_the_same() {
    let health = |http: &str| {
        let config = parse(&format!("upstreams: {{ a: {{ http: {http} }} }}\n"));
        config.upstreams["a"].limits.health
    };
    let default = health("'http://h'");
    assert_eq!((default.failures, default.open, default.max), (5, 5 * SECOND, 60 * SECOND));
    assert_eq!((default.retry_percent, default.retries_per_second), (20, 10));
    let given = health(
        "{ base_url: 'http://h', breaker: { failures: 2, open: 2m }, retry_budget: { percent: 50, per_second: 1 } }",
    );
    assert_eq!((given.failures, given.open, given.max), (2, 120 * SECOND, 120 * SECOND));
    assert_eq!((given.retry_percent, given.retries_per_second), (50, 1));
}

#[test]
fn who_is_told_of_orphans_is_the_tools_word_then_that_of_the_defaults_then_the_files() {
    let command = |program: &str| Some(OnOrphan::Command(vec![program.to_owned()]));
    let text = |defaults: &str| {
        format!(
            "on_orphan: {{ command: [top] }}\n{defaults}upstreams: {{ api: {{ http: 'http://h' }} }}\ntools:\n  a:\n    upstream: api\n{JOB}  b:\n    upstream: api\n    on_orphan: {{ webhook: {{ env: HOOK }}, headers: {{ authorization: {{ env: TOKEN }} }} }}\n{JOB}"
        )
    };
    let config = parse(&text(""));
    assert_eq!(config.on_orphan, command("top"));
    assert_eq!(config.tools[0].on_orphan, command("top"));
    let Some(OnOrphan::Webhook { url: Value::Secret(url), headers }) = &config.tools[1].on_orphan else {
        panic!("{:?}", config.tools[1].on_orphan);
    };
    assert_eq!((url.to_string().as_str(), headers.len()), ("{ env: HOOK }", 1));
    let config = parse(&text("defaults: { on_orphan: { command: [all] } }\n"));
    assert_eq!(config.tools[0].on_orphan, command("all"));
    assert!(matches!(config.tools[1].on_orphan, Some(OnOrphan::Webhook { .. })));
    assert_eq!(tool(JOB).tools[0].on_orphan, None);
    // Nobody is somebody's word as well.
    let config = parse(&text("defaults: { on_orphan: nobody }\n"));
    assert_eq!((&config.on_orphan, &config.tools[0].on_orphan), (&command("top"), &None));
    assert!(config.tools[1].on_orphan.is_some());
    let config = parse(
        &text("").replace("{ webhook: { env: HOOK }, headers: { authorization: { env: TOKEN } } }", "nobody"),
    );
    assert_eq!((&config.tools[0].on_orphan, &config.tools[1].on_orphan), (&command("top"), &None));
}
