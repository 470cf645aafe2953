//! Bad configs: where it is, what it is, and what to write instead.

use countermand_cli::config::{self, ConfigErrors};

/// A config around one job, with a line replaced.
fn job(right: &str, wrong: &str) -> String {
    let text = r#"upstreams: { api: { http: "http://127.0.0.1:1" } }
tools:
  t:
    input: { properties: { tag: { type: string }, pin: { type: string, writeOnly: true } }, required: [tag, pin] }
    upstream: api
    job:
      create:
        request: POST /jobs
        headers: { X-Key: "${op.key}" }
        id: $.id
      status:
        request: GET /jobs/${op.id}
        state: $.status
        running: [queued, running]
        succeeded: [done]
        failed: [failed]
      cancel: DELETE /jobs/${op.id}
      key_window: 1h
    compensate: [ DELETE /rows ]
"#;
    assert!(text.contains(right), "the config has no `{right}`");
    text.replacen(right, wrong, 1)
}

fn errors(text: &str) -> ConfigErrors {
    match config::parse("c.yaml", text, &|_| Some("set".into())) {
        Ok(_) => panic!("this is no bad config:\n{text}"),
        Err(errors) => errors,
    }
}

/// The first error is at the position, and its text and help hold the words.
#[track_caller]
fn says(text: &str, at: &str, words: &[&str]) {
    let errors = errors(text);
    let shown = errors.to_string();
    assert!(shown.starts_with(&format!("c.yaml:{at}: ")), "{at} was expected:\n{shown}");
    for word in words {
        assert!(shown.contains(word), "`{word}` is missing:\n{shown}");
    }
}

#[test]
fn the_config_that_the_bad_ones_are_made_of_is_good() {
    config::parse("c.yaml", &job("DELETE /rows", "DELETE /rows"), &|_| None).unwrap();
}

#[test]
fn every_error_of_a_file_is_told_in_its_order() {
    let text = "servr: 1\nlimits: { total: 0 }\nretention: 3x\ntools: { 'a b': { http: GET /x } }\n";
    let errors = errors(text);
    let positions: Vec<_> = errors.errors().iter().map(|error| errors.position(error)).collect();
    assert_eq!(positions, [(1, 1), (2, 18), (3, 12), (4, 10), (4, 10)]);
}

#[test]
fn an_error_shows_its_line_a_mark_and_what_to_write() {
    let shown = errors("tools:\n  t:\n    htp: GET /x\n    upstream: a\n").to_string();
    assert!(
        shown.contains(
            "c.yaml:3:5: there is no field `htp` here\n3 |     htp: GET /x\n  |     ^^^\n  help: did you mean `http`?"
        ),
        "{shown}"
    );
}

#[test]
fn what_is_not_yaml_is_told_with_its_place() {
    says("tools:\n  t: [\n", "2:6", &["not valid YAML", "unclosed"]);
    says("a: 1\nb: 2\na: 3\n", "3:1", &["duplicate"]);
    says("- a\n", "1:1", &["a mapping is needed here, not a list"]);
}

#[test]
fn what_comes_later_is_refused_by_its_name() {
    let tool = |kind: &str| {
        format!("upstreams: {{ a: {{ http: 'http://h' }} }}\ntools:\n  t:\n    upstream: a\n    {kind}\n")
    };
    says(
        "upstreams:\n  db: { postgres: { url: x } }\n",
        "2:9",
        &["`postgres` is not supported by this version", "this version has `http` and `mcp`"],
    );
    says(&tool("sql: { query: x }"), "5:5", &["`sql` is not supported", "this version has `job` and `http`"]);
    says(&tool("steps: []"), "5:5", &["`steps` is not supported"]);
    says("ledger: postgres://u:secret@h/db\n", "1:9", &["not yet supported", "write `sqlite:PATH`"]);
}

#[test]
fn what_is_wrong_with_an_mcp_server_is_said_with_what_to_write_instead() {
    let server = |fields: &str| format!("upstreams:\n  m: {{ mcp: {{ {fields} }} }}\n");
    says(&server("commandd: [x]"), "2:15", &["no field `commandd`", "did you mean `command`?"]);
    says(
        &server("timeout: 1m"),
        "2:8",
        &["where is this server?", "write `command: [npx, -y, some-server]`"],
    );
    says(&server("command: npx -y x"), "2:24", &["no shell reads it", "write `command: [npx, -y, x]`"]);
    says(&server("command: [x], url: 'http://h'"), "2:29", &["a `command` or a `url`"]);
    says(&server("command: [x], headers: { a: b }"), "2:29", &["belongs to a server that has a `url`"]);
    says(&server("url: 'ftp://h'"), "2:20", &["`ftp://h` is no HTTP URL"]);
    says(
        &server("command: [x], unconfirmed: { then: kill_call }"),
        "2:50",
        &["other calls may use", "add `isolation: call`"],
    );
    says(
        &server("url: 'http://h', isolation: call, unconfirmed: { then: restart }"),
        "2:70",
        &["not ours to end", "write `then: leave`"],
    );
    says(
        &server("command: [x], tools: { prefix: 'a b' }"),
        "2:46",
        &["`a b` cannot begin the name of a tool"],
    );
    let named =
        "upstreams: { m: { mcp: { command: [x] } } }\ntools:\n  t:\n    upstream: m\n    http: GET /x\n";
    says(named, "4:15", &["`m` is an MCP server: its tools appear as they are"]);
}

#[test]
fn a_read_has_nothing_that_an_identical_call_could_join() {
    let read = "upstreams: { api: { http: 'http://h' } }\ntools: { t: { upstream: api, http: GET /x, on_reissue: attach } }\n";
    says(read, "2:56", &["no operation to join", "leave it out"]);
    says(
        &job("    compensate:", "    on_reissue: join\n    compensate:"),
        "19:17",
        &["`join` means nothing here", "attach"],
    );
}

#[test]
fn the_gateway_s_own_settings_are_checked() {
    says("server: { http: { listen: '8717' } }\n", "1:27", &["no address", "write `127.0.0.1:8717`"]);
    says("admin: { listen: '0.0.0.0:8718' }\n", "1:18", &["could cancel every operation", "token"]);
    says("limits: { message: 4 potatoes }\n", "1:20", &["no size", "4MiB"]);
    says("retention: 30\n", "1:12", &["it has no unit", "`30d`"]);
    says("retention: 0s\n", "1:12", &["more than zero"]);
    says("ledger: mysql:x\n", "1:9", &["this is no ledger"]);
}

#[test]
fn an_upstream_is_a_plain_base_for_paths() {
    let upstream = |http: &str| format!("upstreams:\n  a:\n    http: {http}\n");
    says(&upstream("'ftp://h'"), "3:11", &["no HTTP URL"]);
    says(&upstream("'http://u:p@h'"), "3:11", &["no credentials", "env: NAME"]);
    says(&upstream("'http://h/?a=1'"), "3:11", &["has no query"]);
    says(&upstream("'http://h/#a'"), "3:11", &["no fragment"]);
    says(&upstream("{ base_url: 'http://h', headrs: {} }"), "3:35", &["did you mean `headers`?"]);
    says(&upstream("{ base_url: 'http://h', headers: { 'a b': x } }"), "3:46", &["no header name"]);
    says(&upstream("{ base_url: 'http://h', headers: { a: \"x\\r\\ny: z\" } }"), "3:49", &["one line"]);
    says(&upstream("{ base_url: 'http://h', headers: { a: '${op.key}' } }"), "3:49", &["no placeholders"]);
    says(
        &upstream("{ base_url: 'http://h', headers: { a: { env: A, file: b } } }"),
        "3:46",
        &["exactly one place"],
    );
    says(
        &upstream("{ base_url: 'http://h', headers: { a: { exec: pass show x } } }"),
        "3:57",
        &["exec: [pass, show, x]"],
    );
    says(&upstream("{ headers: {} }"), "3:5", &["`base_url` is missing"]);
}

#[test]
fn a_tool_has_a_good_name_a_known_upstream_and_one_kind() {
    says(&job("  t:", "  'a b':"), "3:3", &["no name for a tool"]);
    says(&job("  t:", "  cancellation_status:"), "3:3", &["countermand adds itself"]);
    says(
        &job("upstream: api", "upstream: apy"),
        "5:15",
        &["there is no upstream `apy`", "did you mean `api`?"],
    );
    says(&job("    upstream: api\n", ""), "3:3", &["add `upstream: api`"]);
    says(&job("    compensate:", "    http: GET /x\n    compensate:"), "19:5", &["exactly one kind"]);
    says(
        "upstreams: { a: { http: 'http://h' } }\ntools:\n  t: { upstream: a }\n",
        "3:3",
        &["It has no kind"],
    );
}

#[test]
fn a_schema_is_valid_describes_an_object_and_fetches_nothing() {
    let input = |schema: &str| job("{ properties: { tag", &format!("{{ {schema} properties: {{ tag"));
    says(&input("type: array,"), "4:20", &["must describe an object", "`type: object`"]);
    says(&job("type: string }, pin", "type: strng }, pin"), "4:41", &["no valid JSON Schema"]);
    says(&input("$ref: 'http://h/s.json',"), "4:20", &["fetches nothing", "$defs"]);
    says(
        &job("    compensate", "    output: { type: string }\n    compensate"),
        "19:21",
        &["`output` must describe an object"],
    );
}

#[test]
fn a_placeholder_names_something_that_is_there() {
    says(
        &job("GET /jobs/${op.id}", "GET /jobs/${op.idd}"),
        "12:28",
        &["`${op.idd}`", "did you mean `op.id`?"],
    );
    says(
        &job("POST /jobs", "POST /jobs/${args.tga}"),
        "8:29",
        &["there is no argument `tga`", "did you mean `tag`?"],
    );
    says(
        &job("POST /jobs", "POST /jobs/${op.id}"),
        "8:29",
        &["`${op.id}` is not known in the create request"],
    );
    says(
        &job("GET /jobs/${op.id}", "GET ${op.saved.url}"),
        "12:22",
        &["nothing saves `url`", "save: { url: $.PATH }"],
    );
    says(
        &job(
            "        state: $.status",
            "        save: { url: $.next }\n        headers: { x: \"${op.saved.url}\" }\n        state: $.status",
        ),
        "14:24",
        &["saved by the status read itself"],
    );
    says(
        &job("DELETE /jobs/${op.id}", "DELETE /jobs/${op.undo_key}"),
        "17:28",
        &["belongs to `compensate` alone"],
    );
    says(&job("[ DELETE /rows ]", "[ 'DELETE /rows/${args.pin}' ]"), "19:33", &["`pin` is writeOnly"]);
    says(&job("GET /jobs/${op.id}", "GET ${args.tag}"), "12:22", &["cannot be the whole target"]);
    says(&job("GET /jobs/${op.id}", "GET /jobs/${op.id"), "12:28", &["never closed"]);
}

#[test]
fn a_request_is_a_method_and_a_path() {
    says(&job("request: POST /jobs", "request: /jobs"), "8:18", &["write `METHOD /path`", "POST /jobs"]);
    says(&job("request: POST /jobs", "request: post"), "8:18", &["write `POST /path`"]);
    says(&job("request: POST /jobs", "request: POST jobs"), "8:23", &["a path starts with `/`"]);
    says(&job("request: POST /jobs", "request: POST /a b"), "8:18", &["no spaces"]);
    says(
        &job("        id: $.id", "        body: {}\n        form: {}\n        id: $.id"),
        "11:9",
        &["not both"],
    );
    says(&job("X-Key: \"${op.key}\"", "X-Key: \"${op.key}\\n\""), "9:27", &["one line"]);
}

#[test]
fn a_job_says_how_it_is_found_read_and_cancelled() {
    says(&job("      cancel: DELETE /jobs/${op.id}\n", ""), "6:5", &["`cancel` is missing", "unsupported"]);
    says(&job("        id: $.id\n", ""), "7:7", &["where is the id", "id: $.id"]);
    says(&job("id: $.id", "id: job_id"), "10:13", &["no JSONPath", "$.job_id"]);
    says(&job("id: $.id", "id: $.jobs["), "10:19", &["no JSONPath"]);
    says(&job("id: $.id", "id: ${args.tag}"), "10:13", &["made of our key", "write `${op.key}`"]);
    says(&job("        state: $.status\n", ""), "11:7", &["`state` is missing"]);
    says(&job("        succeeded: [done]\n", ""), "11:7", &["no state means that it succeeded"]);
    says(&job("failed: [failed]", "failed: [done]"), "16:18", &["`done` is in `succeeded` already"]);
    says(
        &job("        failed", "        every: 20s\n        max: 5s\n        failed"),
        "17:14",
        &["shorter than `every`"],
    );
    says(&job("      key_window: 1h\n", ""), "7:7", &["nothing could tell", "key_window", "lost_id: accept"]);
    says(
        &job("        headers: { X-Key: \"${op.key}\" }\n", ""),
        "17:7",
        &["never sends the key", "Idempotency-Key"],
    );
    says(
        &job("cancel: DELETE /jobs/${op.id}", "cancel: { unsupported: no }"),
        "17:7",
        &["needs a bound", "lifetime: 15m"],
    );
    says(
        &job(
            "cancel: DELETE /jobs/${op.id}",
            "cancel: { unsupported: no, request: DELETE /x }\n      lifetime: 1m",
        ),
        "17:34",
        &["has no `request`"],
    );
    says(
        &job("      key_window: 1h", "      find: { request: GET /jobs, id: \"$[0].id\" }"),
        "18:7",
        &["somebody else's operation", "${op.key}"],
    );
    says(
        &job("      key_window: 1h", "      find: { request: \"GET /jobs?key=${op.key}\" }"),
        "18:7",
        &["must say where the id is"],
    );
    says(
        &job("    compensate: [ DELETE /rows ]", "    when_completed: compensate"),
        "19:21",
        &["nothing says how to undo it"],
    );
    says(
        &job("    compensate: [ DELETE /rows ]", "    compensate: DELETE /rows"),
        "19:5",
        &["a list of requests"],
    );
    says(&job("    compensate", "    on_disconnect: grace\n    compensate"), "19:20", &["{ grace: 30s }"]);
    says(&job("    compensate", "    timeout: 0s\n    compensate"), "19:14", &["more than zero"]);
}

#[test]
fn one_request_says_whether_it_changes_something() {
    let http = |http: &str| {
        format!("upstreams: {{ a: {{ http: 'http://h' }} }}\ntools:\n  t:\n    upstream: a\n    {http}\n")
    };
    says(&http("http: POST /x"), "5:11", &["does this POST change something", "effect: once"]);
    says(&http("http: { request: GET /x, find: { request: GET /y } }"), "5:30", &["`find` has no meaning"]);
    says(
        &http("http: { request: GET /x, headers: { a: '${op.key}' } }"),
        "5:45",
        &["has no operation", "effect: once"],
    );
    says(&http("http: GET /x\n    compensate: [ DELETE /y ]"), "6:5", &["`compensate` has no meaning"]);
    says(&http("http: { request: POST /x, effect: once }"), "5:5", &["nothing could tell"]);
    says(&http("http: { request: POST /x, effect: twice }"), "5:39", &["`twice` means nothing", "`once`"]);
    says(&http("http: { request: GET /x, value: rows }"), "5:37", &["$.rows"]);
}

#[test]
fn a_preset_exists_and_is_of_the_kind_that_uses_it() {
    let text = "upstreams: { a: { http: 'http://h' } }\npresets: { slow: { http: { request: GET /x } } }\ntools:\n  t:\n    upstream: a\n";
    says(
        &format!("{text}    http: {{ preset: slwo }}\n"),
        "6:21",
        &["there is no preset `slwo`", "did you mean `slow`?"],
    );
    says(&format!("{text}    job: {{ preset: slow }}\n"), "6:20", &["none of a `job`"]);
}

#[test]
fn how_an_upstream_is_spared_is_checked() {
    let upstream = |http: &str| {
        format!(
            "upstreams: {{ a: {{ http: {{ base_url: 'http://h', {http} }} }} }}\ntools: {{ t: {{ upstream: a, http: GET /x }} }}\n"
        )
    };
    says(&upstream("breaker: { max: 2s }"), "1:65", &["`max` is shorter than `open`"]);
    says(&upstream("breaker: { failures: 0 }"), "1:70", &["at least 1"]);
    says(&upstream("breaker: { opens: 2s }"), "1:60", &["no field `opens`", "did you mean `open`?"]);
    says(&upstream("retry_budget: { percent: few }"), "1:74", &["at least 1"]);
}

#[test]
fn who_is_told_of_orphans_is_one_program_or_one_address() {
    let top = |on_orphan: &str| {
        format!(
            "on_orphan: {on_orphan}\nupstreams: {{ a: {{ http: 'http://h' }} }}\ntools: {{ t: {{ upstream: a, http: GET /x }} }}\n"
        )
    };
    says(&top("{}"), "1:1", &["who is to be told?", "command", "webhook"]);
    for word in ["off", "false", "none", "[a]", "1"] {
        says(&top(word), "1:1", &["who is to be told?", "`on_orphan: nobody`"]);
    }
    says(&top("{ command: notify me }"), "1:23", &["no shell reads it", "[notify, me]"]);
    says(&top("{ command: [] }"), "1:14", &["the program is missing"]);
    says(&top("{ command: [a], webhook: 'http://h' }"), "1:28", &["one way"]);
    says(&top("{ command: [a], headers: { a: b } }"), "1:28", &["`headers` belong to a `webhook`"]);
    says(&top("{ webhook: 'ftp://h' }"), "1:23", &["no HTTP URL", "{ env: NAME }"]);
    says(&top("{ webhook: 'http://h/${args.x}' }"), "1:23", &["no HTTP URL"]);
    says(&top("{ webhook: 'http://h', headers: { a: '${op.id}' } }"), "1:49", &["headers of a webhook"]);
    let read = "upstreams: { a: { http: 'http://h' } }\ntools:\n  t:\n    upstream: a\n    http: GET /x\n    on_orphan: { command: [a] }\n";
    says(read, "6:5", &["`on_orphan` has no meaning"]);
}
