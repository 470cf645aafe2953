//! What a program reads, writes and exits with.

use super::{Caller, Door, Pending, Programs, settled, text};
use crate::over_all;
use serde_json::{Value, json};

const TOOLS: &str = r#"
  cat:
    input: { type: object, properties: { text: {} } }
    command: { run: [cat], stdin: "${args.text}" }
  object:
    output: { type: object, properties: { n: { type: number } }, required: [n] }
    command: { run: SH 'echo "{\"n\": 7}"'] }
  member:
    command: { run: SH 'echo "{\"a\": {\"b\": [1, 2]}}"'], value: $.a }
  no_json:
    output: { type: object }
    command: { run: [echo, oops] }
  bytes:
    command: { run: SH 'printf "\377\376"'] }
  fails:
    input: { type: object, properties: { code: { type: integer } } }
    command:
      run: SH 'echo out; echo "why it failed: $TOKEN" >&2; exit "$1"', sh, "${args.code}"]
      env: { TOKEN: { file: TOKEN_FILE } }
      exit: { ok: [0, 4], failed: { 3: "no such report" } }
  dies:
    command: { run: SH 'kill -SEGV $$'] }
  much:
    command: { run: SH 'head -c 3000000 /dev/zero | tr "\0" x; echo end >&2'], max_bytes: 1MiB }
  echoes:
    input: { type: object, properties: { word: { type: string }, words: { type: array }, flag: { type: boolean } } }
    command: { run: [printf, "%s|", "${args.word}", "--word=${args.word}", --, "${args.words}", "${args.flag}"] }
  counts:
    command: { run: SH 'echo one; echo two >&2; echo "$TOKEN"; i=0; while [ $i -lt 500 ]; do i=$((i+1)); echo "line $i"; done'], env: { TOKEN: { file: TOKEN_FILE } } }
  quiet:
    command: { run: SH 'exec >&- 2>&-; WITNESS'] }
  nowhere:
    command: [no-such-program-anywhere, s3cr3t-argument]
"#;

async fn stage() -> Programs {
    let place = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(place.path(), "s3cr3t-t0ken\n").unwrap();
    let (_, path) = place.keep().unwrap();
    Programs::with(&TOOLS.replace("TOKEN_FILE", &path.display().to_string())).await
}

async fn call(caller: &mut Caller, id: u64, tool: &str, arguments: Value) -> Value {
    let mut call: Pending = caller.call(id, tool, arguments).await;
    caller.answer(&mut call).await
}

over_all! {
    async fn its_output_is_the_result_as_the_tool_says(door) {
        let programs = stage().await;
        let mut caller = Caller::at(door, &programs.stage).await;
        let result = call(&mut caller, 1, "cat", json!({ "text": "as \"it\" is\n$(x)" })).await;
        assert_eq!(text(&result), "as \"it\" is\n$(x)");
        assert_eq!(text(&call(&mut caller, 2, "cat", json!({ "text": { "a": [1] } })).await), r#"{"a":[1]}"#);
        assert_eq!(text(&call(&mut caller, 3, "cat", json!({})).await), "");
        assert_eq!(call(&mut caller, 4, "object", json!({})).await["structuredContent"], json!({ "n": 7 }));
        assert_eq!(call(&mut caller, 5, "member", json!({})).await["structuredContent"], json!({ "b": [1, 2] }));
        let wrong = call(&mut caller, 6, "no_json", json!({})).await;
        assert!(wrong["isError"] == true && text(&wrong).contains("is no JSON"), "{wrong}");
        let bytes = call(&mut caller, 7, "bytes", json!({})).await;
        assert_eq!(bytes["content"][0]["resource"]["blob"], "//4=", "{bytes}");
        let hostile = "a b'; rm -rf / #$(x)`y`";
        let given = json!({ "word": hostile, "words": ["-x", hostile, 7], "flag": false });
        let said = call(&mut caller, 8, "echoes", given).await;
        assert_eq!(text(&said), format!("{hostile}|--word={hostile}|--|-x|{hostile}|7|false|"));
        let refused = call(&mut caller, 9, "echoes", json!({ "word": "-rf" })).await;
        assert!(text(&refused).contains("could take it for an option"), "{refused}");
        programs.stage.finish(caller, &[]).await;
    }
}

over_all! {
    async fn a_failure_says_how_it_exited_and_what_it_said_last_and_no_secret(door) {
        let programs = stage().await;
        let mut caller = Caller::at(door, &programs.stage).await;
        let failed = call(&mut caller, 1, "fails", json!({ "code": 3 })).await;
        let said = text(&failed);
        assert!(said.contains("no such report (exit code 3)") && said.contains("why it failed: [secret]"), "{said}");
        assert!(failed["isError"] == true && !failed.to_string().contains("s3cr3t-t0ken"), "{failed}");
        assert!(text(&call(&mut caller, 2, "fails", json!({ "code": 9 })).await).contains("exit code 9"));
        assert_eq!(text(&call(&mut caller, 3, "fails", json!({ "code": 4 })).await), "out\n");
        assert!(text(&call(&mut caller, 4, "dies", json!({})).await).contains("killed by SIGSEGV"));
        let nowhere = call(&mut caller, 5, "nowhere", json!({})).await;
        assert!(text(&nowhere).contains("`no-such-program-anywhere`: there is no such program on the PATH"), "{nowhere}");
        assert!(!nowhere.to_string().contains("s3cr3t-argument"), "{nowhere}");
        let rows = programs.stage.settled(5).await;
        let phases: Vec<_> = rows.iter().map(|row| row["phase"].as_str().unwrap()).collect();
        assert_eq!(phases, ["failed", "failed", "completed", "failed", "failed"]);
        assert!(!programs.stage.run(&["ops", "list"]).await.0.contains("s3cr3t-t0ken"));
        assert!(!caller.logs().contains("s3cr3t-t0ken"), "{}", caller.logs());
        programs.stage.finish(caller, &[]).await;
    }
}

over_all! {
    async fn what_is_more_than_the_limit_is_an_error_and_never_cut(door) {
        let programs = stage().await;
        let mut caller = Caller::at(door, &programs.stage).await;
        let result = call(&mut caller, 1, "much", json!({})).await;
        let row = settled(&programs.stage).await;
        let said = text(&result);
        assert!(said.contains("3000000 bytes") && said.contains("`max_bytes`"), "{said}");
        assert!(said.contains(row["id"].as_str().unwrap()), "{said}");
        assert_eq!((&result["isError"], &row["phase"]), (&json!(true), &json!("completed")));
        let big = "0123456789abcdef".repeat(128 << 10);
        let back = call(&mut caller, 2, "cat", json!({ "text": big })).await;
        assert!(text(&back) == big, "two MiB through pipes of 64 KiB");
        programs.stage.finish(caller, &[]).await;
    }
}

over_all! {
    async fn one_that_has_closed_its_outputs_still_runs(door) {
        let programs = stage().await;
        let mut caller = Caller::at(door, &programs.stage).await;
        let pending = caller.call(1, "quiet", json!({})).await;
        programs.arrived(1).await;
        caller.works().await;
        let row = programs.stage.phase("running").await;
        assert_eq!(row["settled"], false);
        assert_eq!(programs.alive(), 1);
        caller.cancel(pending).await;
        programs.gone().await;
        assert_eq!(settled(&programs.stage).await["phase"], "cancelled");
        programs.stage.finish(caller, &[1]).await;
    }
}

over_all! {
    async fn its_lines_are_shown_while_it_runs_counted_and_without_secrets(door) {
        let programs = stage().await;
        let mut caller = Caller::at(door, &programs.stage).await;
        let mut pending = caller.send(countermand_testkit::client::message::call_with_progress(1, "counts", json!({}), 1)).await;
        let messages = caller.messages(&mut pending).await;
        let (answer, told) = messages.split_last().unwrap();
        assert!(text(&answer["result"]).ends_with("line 500\n"));
        let told: Vec<(f64, &str)> = told
            .iter()
            .filter(|message| message["method"] == "notifications/progress")
            .map(|message| (message["params"]["progress"].as_f64().unwrap(), message["params"]["message"].as_str().unwrap()))
            .collect();
        assert!(told[0].1.starts_with("started operation"), "{told:?}");
        assert!(told.windows(2).all(|pair| pair[0].0 < pair[1].0), "progress grows: {told:?}");
        assert_eq!(told.last().unwrap().0, 503.0, "the last line is shown: {told:?}");
        assert!(told.iter().any(|(_, line)| *line == "line 500"), "{told:?}");
        assert!(told.len() < 200, "not every line of a flood is shown: {}", told.len());
        assert!(!told.iter().any(|(_, line)| line.contains("s3cr3t")), "{told:?}");
        programs.stage.finish(caller, &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_is_shown_when_it_is_written_not_at_the_end() {
    let programs = Programs::with("  says:\n    command: { run: SH 'echo first; WITNESS & wait'] }\n").await;
    let mut client = programs.stage.stdio().await;
    client.send(&countermand_testkit::client::message::call_with_progress(1, "says", json!({}), 1)).await;
    let mut seen = Vec::new();
    while !seen.iter().any(|line| line == "first") {
        seen.push(client.progress().await["params"]["message"].as_str().unwrap_or_default().to_owned());
    }
    programs.arrived(1).await;
    assert_eq!(programs.alive(), 1, "it still runs");
    client.send(&countermand_testkit::client::message::cancelled(1, None)).await;
    programs.gone().await;
    programs.stage.finish(Caller::Stdio(Box::new(client)), &[1]).await;
}
