//! Programs in the config: what is not said, and what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use countermand::{
    core::{Kind, Lookup, WhenCompleted},
    definition::{CommandDefinition, OutputFormat, UpstreamDefinition, Work},
    process::{Stop, StopSignal},
    template::InheritTemplate,
};
use countermand_cli::config::{self, Config, Tool};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn env(name: &str) -> Option<String> {
    Some(if name == "PATH" { "/usr/bin:/bin".into() } else { "set".into() })
}

fn tool(fields: &str) -> String {
    format!(
        "tools:\n  t:\n    input: {{ properties: {{ x: {{ type: string }}, n: {{ type: number }} }} }}\n    {fields}\n"
    )
}

fn good(fields: &str) -> Config {
    config::parse("c.yaml", &tool(fields), &env).unwrap_or_else(|errors| panic!("{errors}"))
}

fn bad(fields: &str) -> String {
    match config::parse("c.yaml", &tool(fields), &env) {
        Ok(_) => panic!("this is no bad config:\n{fields}"),
        Err(errors) => errors.to_string(),
    }
}

fn warnings(fields: &str) -> String {
    good(fields).warnings.iter().map(|warning| format!("{warning}\n")).collect()
}

fn command(tool: &Tool) -> &CommandDefinition {
    match &tool.definition.work {
        Work::Command(command) => command,
        other => panic!("a command was expected: {other:?}"),
    }
}

#[test]
fn what_is_not_said_has_its_default() {
    let config = good("command: [ls, -l]");
    let tool = &config.tools[0];
    let (command, policy) = (command(tool), &tool.definition.policy);
    assert!(matches!(tool.definition.upstream, UpstreamDefinition::Local(_)));
    assert_eq!((tool.definition.upstream.name(), policy.kind), ("", Kind::Command));
    assert_eq!(command.stop, Stop { signal: StopSignal::Term, grace: 5 * SECOND });
    assert_eq!((&command.exit.ok, command.max_bytes), (&vec![0], 10 << 20));
    assert_eq!(command.result, OutputFormat::Text);
    let InheritTemplate::Only(names) = &command.program.inherit else { panic!("all is inherited") };
    assert!(names.contains(&"PATH".to_owned()) && !names.iter().any(|name| name.contains("TOKEN")));
    assert_eq!((tool.timeout, policy.lifetime), (3600 * SECOND, 3600 * SECOND));
    assert_eq!((policy.can_cancel, policy.find, policy.key_window), (true, Some(Lookup::Consistent), None));
    assert_eq!((policy.force_after, policy.confirm_within), (Some(6 * SECOND), 15 * SECOND));
    assert!(config.warnings.is_empty());
}

#[test]
fn what_is_said_counts() {
    let config = good(
        "output: { type: object }\n    command: { run: [/bin/cat, '--x=${args.x}', '${args.n}'], cwd: /, env: { A: 'x ${args.x}', B: { env: SECRET } }, \
         inherit_env: '*', stdin: '${args.x}', stop: { signal: SIGINT, grace: 2s }, lifetime: 1m, exit: { ok: [0, 1], failed: { 2: no such thing } }, \
         max_bytes: 1KiB }\n    compensate: [ { run: [rm, -f, out] } ]\n    when_completed: keep",
    );
    let tool = &config.tools[0];
    let command = command(tool);
    assert_eq!(command.stop, Stop { signal: StopSignal::Int, grace: 2 * SECOND });
    assert_eq!((&command.exit.ok, command.exit.failed[&2].as_str()), (&vec![0, 1], "no such thing"));
    assert_eq!(command.result, OutputFormat::Json("$".into()));
    assert_eq!((command.max_bytes, command.program.cwd.as_deref()), (1024, Some("/")));
    assert_eq!(command.program.inherit, InheritTemplate::All);
    assert_eq!(command.program.env.len(), 2);
    let policy = &tool.definition.policy;
    assert_eq!((policy.undo_steps, policy.when_completed), (1, WhenCompleted::Keep));
    assert_eq!(policy.force_after, Some(4 * SECOND));
    assert!(config.warnings.is_empty());
    let stored = tool.definition.stored();
    let read = countermand::definition::ToolDefinition::from_stored(&stored).unwrap();
    assert_eq!(read, tool.definition);
    assert!(!stored.body.to_string().contains("\"set\""), "a secret is stored");
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_to_write() {
    for (fields, words) in [
        ("command: ls -l", &["no shell reads it", "write `run: [ls, -l]`"][..]),
        ("command: { run: ls -l }", &["c.yaml:4:16", "no shell reads it"]),
        ("command: { run: [] }", &["the program is missing"]),
        ("command: { cwd: / }", &["`run` is missing"]),
        ("command: { run: ['${args.x}'] }", &["which program is run must be written here"]),
        ("command: { run: [ls], runn: 1 }", &["there is no field `runn` here", "did you mean `run`?"]),
        (
            "command: { run: [ls], stop: { signal: ITN } }",
            &["`ITN` means nothing here", "did you mean `INT`?"],
        ),
        ("command: { run: [ls], stop: { grce: 1s } }", &["did you mean `grace`?"]),
        ("command: { run: [ls], cwd: '${args.x}' }", &["a working directory has no placeholders"]),
        ("command: { run: [ls], env: { COUNTERMAND_OPERATION: x } }", &["this variable is ours"]),
        ("command: { run: [ls], env: { 'A=B': x } }", &["no name of a variable"]),
        ("command: { run: [ls], exit: { ok: [256] } }", &["`256` is no exit code", "0 to 255"]),
        ("command: { run: [ls], exit: { failed: { 0: x } } }", &["the exit code 0 is one of `ok`"]),
        ("command: { run: [ls, '${args.y}'] }", &["there is no argument `y`"]),
        ("command: { run: [ls, '${op.id}'] }", &["is not known in the command request"]),
        ("command: [ls]\n    upstream: x", &["a command has no upstream", "leave `upstream` out"]),
        ("command: [ls]\n    http: GET /x", &["exactly one kind", "`http` and `command`"]),
        ("command: [ls]\n    mark: PUT /x", &["`mark` has no meaning for a command"]),
        (
            "command: [ls]\n    compensate: [ DELETE /x ]",
            &["no upstream to send a request to", "run: [PROGRAM"],
        ),
        ("command: [ls]\n    compensate: [ { request: DELETE /x } ]", &["no upstream to send a request to"]),
        ("command: [ls]\n    compensate: [ { run: [rm], rnu: 1 } ]", &["did you mean `run`?"]),
    ] {
        let said = bad(fields);
        for word in words {
            assert!(said.contains(word), "`{word}` is missing for {fields}:\n{said}");
        }
    }
}

#[test]
fn an_argument_is_never_a_part_of_code() {
    for run in [
        "[sh, -c, 'echo ${args.x}']",
        "[/bin/bash, -lc, 'echo ${args.x}']",
        "[env, A=1, dash, -e, -c, '${args.x}']",
        "[python3.13, -c, 'print(${args.n})']",
        "[perl, -ne, 'print if /${args.x}/']",
        "[node, --eval, '${args.x}']",
        "[ruby, -e, '${args.x}', a]",
    ] {
        let said = bad(&format!("command: {{ run: {run} }}"));
        assert!(said.contains("an argument must not be a part of code"), "{run}:\n{said}");
    }
    for run in [
        "[sh, -c, 'echo \"$1\"', sh, '${args.x}']",
        "[sh, script.sh, --, '${args.x}']",
        "[grep, -c, --, '${args.x}']",
    ] {
        good(&format!("command: {{ run: {run} }}"));
    }
}

#[test]
fn what_works_and_may_surprise_is_warned_of() {
    let begins = "could take it for an option";
    assert!(warnings("command: [ls, '${args.x}']").contains(begins));
    assert!(warnings("command: [ls, '${args.x}.txt']").contains(begins));
    for fine in
        ["[ls, --, '${args.x}']", "[ls, '--x=${args.x}']", "[ls, './${args.x}']", "[seq, '${args.n}']"]
    {
        assert_eq!(warnings(&format!("command: {fine}")), "", "{fine}");
    }
    assert!(warnings("command: [no-such-program-anywhere]").contains("no such program on the PATH"));
    assert!(warnings("command: [./no/such]").contains("no such program there"));
    assert!(
        warnings("command: { run: [ls], cwd: /no/such }").contains("there is no directory `/no/such` now")
    );
    assert!(warnings("command: [ls]\n    on_disconnect: detach").contains("does not outlive the gateway"));
}

#[test]
fn without_an_input_the_arguments_are_those_that_the_program_names() {
    let text = "tools:\n  t:\n    command: { run: [ls, --, '${args.a}'], stdin: '${args.b}', env: { E: '${args.c}' } }\n    compensate: [ { run: [rm, --, '${args.d}'] } ]\n";
    let config = config::parse("c.yaml", text, &env).unwrap();
    let names: Vec<&String> = config.tools[0].input["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
}
