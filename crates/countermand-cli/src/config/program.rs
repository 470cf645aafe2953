//! Programs: an argument vector, and what is around it.

use super::{
    fields::{Fields, Reader},
    input::Arguments,
    node::{Data, Node},
    report::Problem,
    scope::{Scope, read_template},
    secret, shapes,
};
use countermand::{
    process::locate,
    template::{HeaderTemplate, InheritTemplate, Name, ProgramTemplate, Template, ValueTemplate},
};
use serde_json::Value as Json;
use std::path::Path;

/// What every program gets of our environment.
pub const ALWAYS_INHERITED: [&str; 9] =
    ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"];

/// Programs that read one of their arguments as code, and the options before it.
const INTERPRETERS: [(&[&str], &[&str]); 5] = [
    (&["sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "busybox"], &["c"]),
    (&["python", "python3", "python2"], &["c"]),
    (&["perl", "ruby", "lua"], &["e", "E"]),
    (&["node", "deno", "bun"], &["e", "p", "-eval", "-print", "eval"]),
    (&["php"], &["r"]),
];

/// Reads a program: a list of itself and its arguments, or a mapping with `run`.
pub fn read_program<'a>(
    reader: &Reader<'a>,
    node: &'a Node,
    fields: Option<Fields<'a>>,
    scope: &Scope<'_>,
) -> Option<ProgramTemplate> {
    let get = |name: &str| fields.and_then(|fields| fields.get(name));
    let run = if fields.is_none() { Some(node) } else { get("run") };
    let Some(run) = run else {
        let help = "write `run: [PROGRAM, ARGUMENT]`";
        reader.missing(node, "run", "`run` is missing: which program?", help);
        return None;
    };
    let cwd = get("cwd").and_then(|node| read_cwd(reader, node));
    let env = get("env").map(|node| read_env(reader, node, scope)).unwrap_or_default();
    let inherit = read_inherit(reader, get("inherit_env"));
    let stdin = match get("stdin") {
        None => None,
        Some(node) => Some(read_stdin(reader, node, scope)?),
    };
    let run = read_run(reader, run, scope, cwd.as_deref())?;
    Some(ProgramTemplate { run, cwd, env, inherit, stdin })
}

fn read_run(reader: &Reader<'_>, node: &Node, scope: &Scope<'_>, cwd: Option<&str>) -> Option<Vec<Template>> {
    let Data::List(items) = &node.data else {
        let written = node.scalar().unwrap_or_default();
        let words = written.split_whitespace().collect::<Vec<_>>().join(", ");
        let help = if words.is_empty() {
            "write `run: [PROGRAM, ARGUMENT]`".to_owned()
        } else {
            format!("write `run: [{words}]`")
        };
        reader.error(node.head(), "a program is a list of itself and its arguments; no shell reads it", help);
        return None;
    };
    let texts: Vec<(&Node, String)> =
        items.iter().filter_map(|item| Some((item, reader.text(item)?))).collect();
    let Some((first, program)) = texts.first() else {
        reader.error(node.head(), "the program is missing", "write `run: [PROGRAM, ARGUMENT]`");
        return None;
    };
    let templates: Vec<Option<Template>> =
        texts.iter().map(|(item, text)| read_template(reader, item, text, 0, scope)).collect();
    let run: Vec<Template> = templates.into_iter().collect::<Option<_>>()?;
    if texts.len() != items.len() {
        return None;
    }
    if program.trim().is_empty() || run.first().is_some_and(|program| program.placeholders().next().is_some())
    {
        let help = "write its name or path; a choice of programs is a tool for each";
        reader.error(first.at, "which program is run must be written here: it is no argument", help);
        return None;
    }
    let mut fine = true;
    for script in scripts(&texts) {
        if run[script].placeholders().next().is_some() {
            let help = "give it as an argument of its own: `[sh, -c, 'grep -- \"$1\" log', sh, \"${args.NAME}\"]`; \
                        for other interpreters after the code, or in `env`";
            let message = format!(
                "an argument must not be a part of code, and `{}` reads this as code",
                texts[script - 2].1
            );
            reader.error(texts[script].0.at, message, help);
            fine = false;
        }
    }
    let template =
        ProgramTemplate { run, cwd: None, env: Vec::new(), inherit: InheritTemplate::All, stdin: None };
    for (number, (item, _)) in texts.iter().enumerate() {
        fine &= check_element(reader, item, number, &template, scope.args);
    }
    warn_of_missing(reader, first, program, cwd);
    fine.then_some(template.run)
}

/// The numbers of the elements that an interpreter reads as code. One may stand behind another program, such as `env`.
fn scripts(run: &[(&Node, String)]) -> Vec<usize> {
    let mut found = Vec::new();
    for (at, (_, program)) in run.iter().enumerate() {
        let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let known = INTERPRETERS.iter().find(|(names, _)| {
            names.contains(&name) || names.iter().any(|n| name.strip_prefix(n).is_some_and(is_version))
        });
        let Some((_, options)) = known else { continue };
        let code = run.iter().enumerate().skip(at + 1).find(|(_, (_, word))| {
            let short = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            options.iter().any(|option| {
                word.strip_prefix('-') == Some(option)
                    || (option.len() == 1 && short.is_some_and(|flags| flags.ends_with(option)))
                    || (*option == "eval" && word == option)
            })
        });
        if let Some((option, _)) = code
            && option + 1 < run.len()
            && !found.contains(&(option + 1))
        {
            found.push(option + 1);
        }
    }
    found
}

fn is_version(rest: &str) -> bool {
    !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// An element whose beginning is an argument: what could be taken for an option is refused at the call.
fn check_element(
    reader: &Reader<'_>,
    item: &Node,
    number: usize,
    program: &ProgramTemplate,
    args: &Arguments,
) -> bool {
    let template = &program.run[number];
    for placeholder in template.placeholders() {
        if placeholder.keep_slashes {
            reader.sink.error(Problem::new(item.at, "`:path` has a meaning only in a request's path"));
            return false;
        }
    }
    if !program.may_be_an_option(number) {
        return true;
    }
    if let Some(Name::Arg(path)) = template.names().next()
        && !is_bounded(&args.schema, path)
    {
        let name = path.join(".");
        let help = format!(
            "write `--` before it, if the program takes what follows as no option, or `--option=${{args.{name}}}`, or `./${{args.{name}}}`"
        );
        reader.warn(
            item.at,
            format!(
                "a call whose `{name}` begins with `-` is refused: the program could take it for an option"
            ),
            help,
        );
    }
    true
}

/// Whether the schema says enough of an argument that it is none of those that surprise.
fn is_bounded(schema: &Json, path: &[String]) -> bool {
    let property = path.iter().try_fold(schema, |schema, name| schema.get("properties")?.get(name));
    property.is_some_and(|property| {
        let number = matches!(property["type"].as_str(), Some("number" | "integer" | "boolean"));
        number || ["enum", "const", "pattern", "format"].iter().any(|word| property.get(word).is_some())
    })
}

fn warn_of_missing(reader: &Reader<'_>, node: &Node, program: &str, cwd: Option<&str>) {
    let path = (reader.env)("PATH");
    if let Err(error) = locate(program.as_ref(), cwd.map(Path::new), path.as_deref().map(AsRef::as_ref)) {
        let problem = error.to_string();
        let problem = problem.split_once(": ").map_or(problem.as_str(), |(_, problem)| problem);
        let (problem, help) =
            problem.split_once("; ").unwrap_or((problem, "calls will fail until it can be run"));
        reader.warn(
            node.at,
            format!("`{program}` cannot be started now: {problem}"),
            format!("{help}; calls fail until then"),
        );
    }
}

fn read_cwd(reader: &Reader<'_>, node: &Node) -> Option<String> {
    let cwd = reader.name(node)?;
    if cwd.contains("${") {
        let help = "write the directory; an argument may be in `run`, `env` or `stdin`";
        reader.error(node.at, "a working directory has no placeholders", help);
        return None;
    }
    if !Path::new(&cwd).is_dir() {
        let help = "it is relative to the gateway's own; calls fail until it is there";
        reader.warn(node.at, format!("there is no directory `{cwd}` now"), help);
    }
    Some(cwd)
}

fn read_env<'a>(reader: &Reader<'a>, node: &'a Node, scope: &Scope<'_>) -> Vec<(String, HeaderTemplate)> {
    let mut env = Vec::new();
    for entry in reader.optional_entries(Some(node)) {
        if entry.name.is_empty() || entry.name.contains(['=', '\0']) {
            reader.error(
                entry.at,
                format!("`{}` is no name of a variable", entry.name),
                "write a name without `=`",
            );
            continue;
        }
        if entry.name == countermand::process::OPERATION {
            reader.error(entry.at, "this variable is ours: its processes are found by it", "leave it out");
            continue;
        }
        let value = if secret::is_secret(&entry.value) {
            secret::secret(reader, &entry.value).map(HeaderTemplate::Secret)
        } else {
            let text = reader.text(&entry.value);
            text.and_then(|text| read_template(reader, &entry.value, &text, 0, scope))
                .map(HeaderTemplate::Text)
        };
        env.extend(value.map(|value| (entry.name.clone(), value)));
    }
    env
}

fn read_inherit(reader: &Reader<'_>, node: Option<&Node>) -> InheritTemplate {
    let given: Vec<String> =
        node.map(|node| reader.texts(node).into_iter().map(|(_, name)| name).collect()).unwrap_or_default();
    if given.iter().any(|name| name == "*") {
        return InheritTemplate::All;
    }
    let mut names: Vec<String> = ALWAYS_INHERITED.map(str::to_owned).to_vec();
    names.extend(given.into_iter().filter(|name| !ALWAYS_INHERITED.contains(&name.as_str())));
    InheritTemplate::Only(names)
}

fn read_stdin(reader: &Reader<'_>, node: &Node, scope: &Scope<'_>) -> Option<ValueTemplate> {
    super::request::value(reader, node, scope)
}

/// Reads a program that undoes something.
pub fn read_undo<'a>(reader: &Reader<'a>, node: &'a Node, scope: &Scope<'_>) -> Option<ProgramTemplate> {
    let fields = reader.open(node, &shapes::PROGRAM)?;
    read_program(reader, node, Some(fields), scope)
}
