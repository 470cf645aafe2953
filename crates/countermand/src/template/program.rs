//! A program with placeholders: each fills in an element of the argument vector, or a part of one, and never more than that.

use super::{HeaderTemplate, Name, Part, Place, RenderError, Scope, Template, ValueTemplate, render::text};
use crate::definition::SecretRef;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ffi::OsStr;

/// A program with placeholders.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProgramTemplate {
    /// The program and its arguments. The program has no placeholder.
    pub run: Vec<Template>,
    /// Its working directory; else ours.
    pub cwd: Option<String>,
    /// Variables that it gets.
    pub env: Vec<(String, HeaderTemplate)>,
    /// Which of our variables it gets.
    pub inherit: InheritTemplate,
    /// What it reads.
    pub stdin: Option<ValueTemplate>,
}

/// Which of our variables a program gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InheritTemplate {
    /// All.
    All,
    /// These, as far as they are set.
    Only(Vec<String>),
}

/// A program that can be run, but for its secrets.
#[derive(Debug, Clone, PartialEq)]
pub struct RenderedProgram {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Variables that it gets.
    pub env: Vec<(String, RenderedVariable)>,
    /// What it reads; `None` for nothing.
    pub stdin: Option<Vec<u8>>,
}

/// The value of an environment variable.
#[derive(Debug, Clone, PartialEq)]
pub enum RenderedVariable {
    /// Known.
    Value(String),
    /// Resolved when the program is started.
    Secret(SecretRef),
}

impl ProgramTemplate {
    /// Every template of the program, with its place.
    pub fn templates(&self) -> Vec<(Place, &Template)> {
        let mut all: Vec<(Place, &Template)> =
            self.run.iter().enumerate().map(|(n, template)| (Place::Argument(n), template)).collect();
        for (name, value) in &self.env {
            if let HeaderTemplate::Text(template) = value {
                all.push((Place::Variable(name.clone()), template));
            }
        }
        if let Some(stdin) = &self.stdin {
            stdin.walk(&mut Vec::new(), &mut |_, template| all.push((Place::Stdin, template)));
        }
        all
    }

    /// The names that the program uses, in order, repeated where they are.
    pub fn names(&self) -> Vec<&Name> {
        self.templates().into_iter().flat_map(|(_, template)| template.names()).collect()
    }

    /// Fills the program in.
    ///
    /// # Errors
    /// [`RenderError`] where a value cannot stand where it would have to: nothing is run then.
    pub fn render(&self, scope: &Scope<'_>) -> Result<RenderedProgram, RenderError> {
        let mut argv = Vec::with_capacity(self.run.len());
        for (n, template) in self.run.iter().enumerate() {
            let place = Place::Argument(n);
            let from = argv.len();
            element(template, &place, scope, &mut argv)?;
            for filled in &argv[from..] {
                whole(filled, &place)?;
                if self.may_be_an_option(n) && filled.starts_with('-') && !is_number(filled) {
                    let problem = "it begins with `-`, and the program could take it for an option: put `--` before it \
                                   in `run`, where the program knows that, or write `--name=${…}`";
                    return Err(RenderError {
                        placeholder: first_name(template),
                        ..RenderError::at(&place, problem)
                    });
                }
            }
        }
        let mut env = Vec::with_capacity(self.env.len());
        for (name, value) in &self.env {
            let place = Place::Variable(name.clone());
            let value = match value {
                HeaderTemplate::Secret(secret) => RenderedVariable::Secret(secret.clone()),
                HeaderTemplate::Text(template) => {
                    let Some(value) = text(template, &place, scope)? else { continue };
                    whole(&value, &place)?;
                    RenderedVariable::Value(value)
                }
            };
            env.push((name.clone(), value));
        }
        let stdin = match &self.stdin {
            None => None,
            Some(stdin) => super::render::value(stdin, scope)?.and_then(|value| match value {
                Value::Null => None,
                Value::String(text) => Some(text.into_bytes()),
                other => Some(other.to_string().into_bytes()),
            }),
        };
        Ok(RenderedProgram { argv, env, stdin })
    }

    /// Whether what fills in that element stands at its beginning, where a `-` makes an option of it. What follows a `--` is
    /// none, nor what follows the code of `sh -c`: that gets it as it is.
    pub fn may_be_an_option(&self, element: usize) -> bool {
        let begins = |template: &Template| matches!(template.parts().first(), Some(Part::Placeholder(_)));
        let before = &self.run[..element.min(self.run.len())];
        let ended = before.iter().any(|one| one.source() == "--") || has_code(before);
        element > 0 && !ended && self.run.get(element).is_some_and(begins)
    }
}

/// Whether a shell (or Python, which does the same) has got its code by then: what follows is the code's.
fn has_code(run: &[Template]) -> bool {
    run.iter().enumerate().any(|(at, program)| {
        let name = program.source().rsplit('/').next().unwrap_or_default();
        let known = ["sh", "bash", "dash", "ash", "zsh", "ksh"].contains(&name) || name.starts_with("python");
        let mut options = run[at + 1..].iter().map(Template::source).take_while(|word| word.starts_with('-'));
        let flag = options.position(|word| word.ends_with('c') && !word.starts_with("--"));
        known && flag.is_some_and(|flag| run.len() > at + 2 + flag)
    })
}

/// Fills in one element: a whole placeholder may stand for a list of elements, and an absent argument for none.
fn element(
    template: &Template,
    place: &Place,
    scope: &Scope<'_>,
    argv: &mut Vec<String>,
) -> Result<(), RenderError> {
    if let Some(placeholder) = template.whole() {
        match scope.value(place, placeholder)?.as_deref() {
            Some(Value::Array(items)) => {
                for item in items {
                    argv.extend(plain(item));
                }
            }
            Some(value) => argv.extend(plain(value)),
            None => {}
        }
        return Ok(());
    }
    argv.extend(text(template, place, scope)?);
    Ok(())
}

/// A value as an element; an object and a list in a list as JSON, null as nothing.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// What a program gets ends at the first NUL: a value with one would arrive cut.
fn whole(value: &str, place: &Place) -> Result<(), RenderError> {
    if OsStr::new(value).as_encoded_bytes().contains(&0) {
        return Err(RenderError::at(place, "it would hold a NUL, which no argument and no variable can"));
    }
    Ok(())
}

fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(f64::is_finite)
}

fn first_name(template: &Template) -> Option<String> {
    template.names().next().map(ToString::to_string)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    fn program(run: &[&str]) -> ProgramTemplate {
        ProgramTemplate {
            run: run.iter().map(|element| element.parse().unwrap()).collect(),
            cwd: None,
            env: Vec::new(),
            inherit: InheritTemplate::Only(Vec::new()),
            stdin: None,
        }
    }

    fn args(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(args) => args,
            _ => Map::new(),
        }
    }

    fn argv(run: &[&str], given: Value) -> Result<Vec<String>, String> {
        let args = args(given);
        program(run).render(&Scope::of_call(&args)).map(|p| p.argv).map_err(|error| error.to_string())
    }

    #[test]
    fn an_argument_fills_in_one_element_and_never_more() {
        let hostile = "a b'; rm -rf / #\n$(x) `y` *";
        let given = json!({ "x": hostile, "n": 7, "yes": true, "list": ["p q", 2, null], "o": { "k": [1] } });
        let filled = argv(
            &["run", "${args.x}", "-n${args.n}", "--x=${args.x}", "${args.yes}", "${args.list}", "${args.o}"],
            given,
        );
        let expected = ["run", hostile, "-n7", &format!("--x={hostile}"), "true", "p q", "2", r#"{"k":[1]}"#]
            .map(str::to_owned);
        assert_eq!(filled.unwrap(), expected);
    }

    #[test]
    fn an_absent_argument_drops_its_element() {
        let run = ["run", "${args.x}", "--x=${args.x}", "${args.list}", "end"];
        assert_eq!(argv(&run, json!({ "list": [] })).unwrap(), ["run", "end"]);
        assert_eq!(argv(&run, json!({ "x": null, "list": null })).unwrap(), ["run", "end"]);
    }

    #[test]
    fn what_could_be_taken_for_an_option_is_refused_unless_nothing_can_be_one_any_more() {
        let refused = argv(&["ls", "${args.x}"], json!({ "x": "-rf" })).unwrap_err();
        assert!(
            refused.contains("`${args.x}` in argument 1") && refused.contains("put `--` before it"),
            "{refused}"
        );
        assert!(argv(&["ls", "${args.list}"], json!({ "list": ["a", "--help"] })).is_err());
        assert!(argv(&["ls", "${args.x}.txt"], json!({ "x": "-" })).is_err());
        for fine in [&["ls", "--", "${args.x}"][..], &["ls", "--dir=${args.x}"], &["ls", "./${args.x}"]] {
            assert!(argv(fine, json!({ "x": "-rf" })).is_ok(), "{fine:?}");
        }
        let code = ["env", "/bin/bash", "-ec", "echo \"$1\"", "bash", "${args.x}"];
        assert_eq!(argv(&code, json!({ "x": "-rf" })).unwrap()[5], "-rf");
        assert!(argv(&["sh", "-c", "${args.x}"], json!({ "x": "-rf" })).is_err());
        assert_eq!(argv(&["seq", "${args.n}"], json!({ "n": -5 })).unwrap(), ["seq", "-5"]);
    }

    #[test]
    fn a_nul_is_refused_and_a_secret_is_not_read_yet() {
        let refused = argv(&["ls", "${args.x}"], json!({ "x": "a\u{0}b" })).unwrap_err();
        assert!(refused.contains("NUL"), "{refused}");
        let mut program = program(&["env"]);
        let secret = SecretRef { source: crate::definition::SecretSource::Env("TOKEN".into()), prefix: None };
        program.env = vec![
            ("TOKEN".into(), HeaderTemplate::Secret(secret.clone())),
            ("NAME".into(), HeaderTemplate::Text("x ${args.x}".parse().unwrap())),
            ("NONE".into(), HeaderTemplate::Text("${args.none}".parse().unwrap())),
        ];
        program.stdin = Some(ValueTemplate::Text("${args.x}".parse().unwrap()));
        let given = args(json!({ "x": "a\nb" }));
        let rendered = program.render(&Scope::of_call(&given)).unwrap();
        assert_eq!(
            rendered.env,
            [
                ("TOKEN".to_owned(), RenderedVariable::Secret(secret)),
                ("NAME".to_owned(), RenderedVariable::Value("x a\nb".into()))
            ]
        );
        assert_eq!(rendered.stdin, Some(b"a\nb".to_vec()));
        assert_eq!(program.names().len(), 3);
    }

    #[test]
    fn what_it_reads_is_a_text_as_it_is_or_json() {
        let stdin = |template: ValueTemplate, given: Value| {
            let given = args(given);
            let program = ProgramTemplate { stdin: Some(template), ..program(&["cat"]) };
            program
                .render(&Scope::of_call(&given))
                .unwrap()
                .stdin
                .map(|bytes| String::from_utf8(bytes).unwrap())
        };
        let whole = || ValueTemplate::Text("${args.x}".parse().unwrap());
        assert_eq!(stdin(whole(), json!({ "x": "a \"b\"" })).as_deref(), Some("a \"b\""));
        assert_eq!(stdin(whole(), json!({ "x": [1, "2"] })).as_deref(), Some(r#"[1,"2"]"#));
        assert_eq!(stdin(whole(), json!({})), None);
        let object = ValueTemplate::Object(vec![("k".into(), whole())]);
        assert_eq!(stdin(object, json!({ "x": 1.5 })).as_deref(), Some(r#"{"k":1.5}"#));
    }
}
