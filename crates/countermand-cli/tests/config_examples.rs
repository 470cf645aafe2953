//! The example configs: they load, their plans are what is written down, and editors accept them.

use countermand_cli::{
    config::{self, Config, node::Node, report::Source},
    plan::Plan,
    schema,
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Set to write the expected plans anew.
const UPDATE: &str = "UPDATE_EXPECT";

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut found: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    found.sort();
    assert!(found.len() >= 3);
    found
}

fn load(path: &Path) -> Config {
    config::load(path, &|_| Some("set".into())).unwrap_or_else(|errors| panic!("{errors}"))
}

fn as_expected(name: &str, is: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config_plans").join(name);
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, is).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(is == expected, "{name} is not as written down; with {UPDATE}=1 it is written anew:\n{is}");
}

#[test]
fn every_example_loads_and_its_plan_is_the_one_that_is_written_down() {
    for path in examples() {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let plan = Plan::of(&load(&path));
        as_expected(&format!("{name}.txt"), &plan.render(Some(100)));
        as_expected(&format!("{name}.json"), &format!("{:#}\n", serde_json::to_value(&plan).unwrap()));
    }
}

#[test]
fn without_a_terminal_each_moment_is_one_line() {
    let reports = examples().into_iter().find(|path| path.ends_with("reports.yaml")).unwrap();
    let plan = Plan::of(&load(&reports));
    let text = plan.render(None);
    let running = text.lines().find(|line| line.trim_start().starts_with("running")).unwrap();
    assert!(running.contains("DELETE /jobs/${op.id} is sent"), "{running}");
    assert!(running.ends_with("Undo: DELETE /rows?tag=${args.tag}"), "{running}");
}

#[test]
fn the_plan_names_secrets_by_where_they_are() {
    let text = r#"
upstreams: { a: { http: "http://127.0.0.1:1" } }
tools:
  t:
    upstream: a
    http: { request: GET /x, headers: { authorization: { env: TOKEN, prefix: "Bearer " } } }
"#;
    let config = config::parse("c.yaml", text, &|_| Some("s3cret".into())).unwrap();
    let plan = Plan::of(&config);
    assert_eq!(plan.tools[0].requests[0].headers["authorization"], "Bearer <secret: env TOKEN>");
    assert!(!format!("{plan:?}{config:?}").contains("s3cret"));
}

#[test]
fn editors_accept_every_example_and_refuse_a_typo() {
    let schema = schema::schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for path in examples() {
        let text = fs::read_to_string(&path).unwrap();
        let json = as_json(&text);
        let errors: Vec<_> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:#?}", path.display());
    }
    let reports =
        fs::read_to_string(examples().into_iter().find(|path| path.ends_with("reports.yaml")).unwrap())
            .unwrap();
    for (right, wrong) in [
        ("  name: reports", "  nmae: reports"),
        ("cancelled: [cancelled]", "canceled: [cancelled]"),
        ("effect: once", "effect: twice"),
        ("      base_url: ", "      baseurl: "),
        ("timeout: 10m", "timeout: 10"),
        ("state: $.status", "state: status"),
        ("    upstream: reports\n    http:", "    upstream: reports\n    htpt:"),
    ] {
        assert!(reports.contains(right), "{right}");
        let typo = as_json(&reports.replacen(right, wrong, 1));
        assert!(!validator.is_valid(&typo), "the schema accepts `{wrong}`");
    }
}

fn as_json(text: &str) -> Value {
    Node::parse(&Source::new("example", text)).unwrap_or_else(|problem| panic!("{problem:?}")).to_json()
}
