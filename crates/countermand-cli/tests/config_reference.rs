//! The tables of docs/configuration.md are what the config is read by.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use countermand_cli::config::shapes::{self, Holds, Shape};
use std::{collections::BTreeSet, fmt::Write as _, path::Path};

const BEGIN: &str = "<!-- fields: made by tests/config_reference.rs -->\n";

#[test]
fn the_fields_in_docs_are_those_that_the_reader_knows() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, written) = text.split_once(BEGIN).expect("the docs have the mark");
    let expected = tables();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&file, format!("{before}{BEGIN}{expected}")).unwrap();
    } else {
        assert!(written == expected, "docs/configuration.md is not up to date: run with UPDATE_EXPECT=1");
    }
}

fn tables() -> String {
    let mut out = String::new();
    let mut seen = BTreeSet::new();
    let mut next = vec![&shapes::ROOT];
    while !next.is_empty() {
        let mut found = Vec::new();
        for shape in next {
            if seen.insert(shape.name) {
                table(shape, &mut out, &mut found);
            }
        }
        next = found;
    }
    out
}

fn table(shape: &'static Shape, out: &mut String, found: &mut Vec<&'static Shape>) {
    writeln!(out, "\n### {}\n\n{}\n\n| field | holds | |\n|---|---|---|", shape.name, shape.doc).unwrap();
    for field in shape.all().filter(|field| !matches!(field.holds, Holds::Later)) {
        let holds = holds(&field.holds, found).replace('|', "\\|");
        writeln!(out, "| `{}` | {holds} | {} |", field.name, field.doc.replace('|', "\\|")).unwrap();
    }
}

fn holds(value: &'static Holds, found: &mut Vec<&'static Shape>) -> String {
    match value {
        Holds::Text => "text".into(),
        Holds::Word(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or "),
        Holds::Bool => "true or false".into(),
        Holds::Count => "number".into(),
        Holds::Size => "bytes, such as `4MiB`".into(),
        Holds::Duration => "time".into(),
        Holds::Path => "JSONPath".into(),
        Holds::Any => "any value".into(),
        Holds::Schema => "JSON Schema".into(),
        Holds::Object => "object".into(),
        Holds::Shape(shape) => {
            found.push(shape);
            format!("[{}](#{})", shape.name, shape.name.to_lowercase())
        }
        Holds::Map(inner) => format!("names, each with: {}", holds(inner, found)),
        Holds::List(inner) => format!("list of: {}", holds(inner, found)),
        Holds::Either(all) => all.iter().map(|one| holds(one, found)).collect::<Vec<_>>().join(", or "),
        Holds::Later => String::new(),
    }
}
