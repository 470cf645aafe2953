//! The names that placeholders can have: reading one, writing it, and what was probably meant.

use super::Name;
use std::fmt;

/// The fixed names under `op.`.
const OP: [(&str, Name); 5] = [
    ("op.id", Name::Id),
    ("op.key", Name::Key),
    ("op.name", Name::OwnName),
    ("op.undo_key", Name::UndoKey),
    ("op.lifetime_secs", Name::LifetimeSecs),
];

const ALL: &str =
    "`args.NAME`, `op.id`, `op.key`, `op.name`, `op.undo_key`, `op.lifetime_secs` and `op.saved.NAME`";

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arg(members) => write!(f, "args.{}", members.join(".")),
            Self::Saved(name) => write!(f, "op.saved.{name}"),
            fixed => {
                let known = OP.iter().find(|(_, name)| name == fixed);
                f.write_str(known.map_or("op", |(text, _)| text))
            }
        }
    }
}

impl Name {
    /// Reads a name as it stands between `${` and `}`; the error says what to write instead.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        if let Some(members) = text.strip_prefix("args.") {
            return argument(members);
        }
        if let Some(name) = text.strip_prefix("op.saved.") {
            return match name {
                "" => Err("`${op.saved.}` lacks the name under `save`: write `${op.saved.NAME}`".into()),
                name if name.contains('.') => Err(format!(
                    "`${{{text}}}` goes deeper than `save` does: save the inner value under a name of its own"
                )),
                name => Ok(Self::Saved(name.to_owned())),
            };
        }
        match OP.iter().find(|(known, _)| *known == text) {
            Some((_, name)) => Ok(name.clone()),
            None => Err(unknown(text)),
        }
    }
}

fn argument(members: &str) -> Result<Name, String> {
    let members: Vec<String> = members.split('.').map(str::to_owned).collect();
    if members.iter().any(String::is_empty) {
        return Err(format!(
            "`${{args.{}}}` has an empty part: write `${{args.NAME}}`, or `${{args.NAME.MEMBER}}` for a member",
            members.join(".")
        ));
    }
    Ok(Name::Arg(members))
}

fn unknown(text: &str) -> String {
    match text {
        "" => return format!("`${{}}` names nothing: there are {ALL}; write `$${{` for a literal `${{`"),
        "args" => return "`${args}` lacks the argument's name: write `${args.NAME}`".into(),
        "op" | "op." => return format!("`${{{text}}}` names nothing: there are {ALL}"),
        "op.saved" => return "`${op.saved}` lacks the name under `save`: write `${op.saved.NAME}`".into(),
        _ => {}
    }
    if text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_') {
        return format!(
            "`${{{text}}}` looks like an environment variable, which a placeholder cannot read: as a header's \
             whole value write `{{ env: {text} }}`"
        );
    }
    match meant(text) {
        Some(meant) => format!("`${{{text}}}` names nothing: did you mean `{meant}`?"),
        None => format!("`${{{text}}}` names nothing: there are {ALL}"),
    }
}

/// The likeliest name, where one is likely.
fn meant(text: &str) -> Option<String> {
    let trimmed = text.trim();
    if trimmed != text {
        return Name::read(trimmed).ok().map(|name| name.to_string());
    }
    let (first, rest) = match text.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        // A bare word is the name of something under `op`, or of an argument.
        None => return Some(near_op(&format!("op.{text}")).unwrap_or_else(|| format!("args.{text}"))),
    };
    let rest = rest.filter(|rest| !rest.is_empty())?;
    if near(first, "args", 0.8) || matches!(first, "input" | "inputs" | "arguments" | "params") {
        return Some(format!("args.{rest}"));
    }
    if first != "op" && matches!(rest, "id" | "key" | "name") {
        return Some(format!("op.{rest}"));
    }
    if let Some((saved, name)) = rest.split_once('.') {
        return (near(first, "op", 0.6) && near(saved, "saved", 0.8)).then(|| format!("op.saved.{name}"));
    }
    near_op(text)
}

fn near_op(text: &str) -> Option<String> {
    OP.iter()
        .map(|(known, _)| (strsim::normalized_damerau_levenshtein(text, known), *known))
        .filter(|(likeness, _)| *likeness >= 0.6)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, known)| known.to_owned())
}

fn near(text: &str, known: &str, least: f64) -> bool {
    strsim::jaro_winkler(text, known) >= least
}
