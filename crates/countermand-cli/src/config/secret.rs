//! Values that may be secret, and the names and values of headers.

use super::{
    checked::Needed,
    fields::Reader,
    node::{Data, Node},
    report::Span,
    shapes,
};
use countermand::definition::{SecretRef, SecretSource, Value};
use std::time::Duration;

/// How long the answer of a program is used, where the config does not say.
pub const DEFAULT_TTL: Duration = Duration::from_secs(300);

/// Headers that the HTTP client makes itself.
const OURS: [&str; 6] = ["connection", "content-length", "te", "trailer", "transfer-encoding", "upgrade"];
/// Headers that hold secrets, as a rule.
const SECRET: [&str; 7] =
    ["authorization", "api-key", "apikey", "cookie", "proxy-authorization", "x-api-key", "x-auth-token"];

/// Whether a value is a reference to a secret.
pub fn is_secret(node: &Node) -> bool {
    matches!(node.data, Data::Map(_))
}

/// Reads a reference to a secret.
pub fn secret(reader: &Reader<'_>, node: &Node) -> Option<SecretRef> {
    let fields = reader.open(node, &shapes::SECRET)?;
    let places: Vec<_> = ["env", "file", "exec"].iter().filter_map(|name| fields.get(name)).collect();
    if places.len() != 1 {
        reader.error(
            fields.head(),
            "a secret comes from exactly one place",
            "write one of `env: NAME`, `file: PATH`, `exec: [PROGRAM, ARGUMENT]`",
        );
        return None;
    }
    let ttl = fields.get("ttl");
    let source = if let Some(name) = fields.get("env") {
        SecretSource::Env(reader.name(name)?)
    } else if let Some(path) = fields.get("file") {
        SecretSource::File(reader.name(path)?)
    } else {
        let exec = fields.get("exec")?;
        let Data::List(_) = exec.data else {
            let written = exec.scalar().unwrap_or_default();
            let words = written.split_whitespace().collect::<Vec<_>>().join(", ");
            reader.error(
                exec.at,
                "a program is a list of itself and its arguments; no shell reads it",
                format!("write `exec: [{words}]`"),
            );
            return None;
        };
        let argv: Vec<_> = reader.texts(exec).into_iter().map(|(_, text)| text).collect();
        if argv.is_empty() {
            reader.error(exec.head(), "the program is missing", "write `exec: [PROGRAM, ARGUMENT]`");
            return None;
        }
        SecretSource::Exec { argv, ttl: ttl.and_then(|n| reader.duration(n)).unwrap_or(DEFAULT_TTL) }
    };
    if let (Some(ttl), false) = (ttl, matches!(source, SecretSource::Exec { .. })) {
        reader.error(ttl.head(), "`ttl` belongs to `exec` alone", "leave it out: it is read at each use");
    }
    let at = places.first().map_or(fields.head(), |place| place.at);
    let needed = Needed { at, source: source.clone() };
    if let Some(missing) = needed.missing(reader.env) {
        reader.sink.warn(missing);
    }
    let mut secrets = reader.secrets.borrow_mut();
    if !secrets.contains(&needed) {
        secrets.push(needed);
    }
    drop(secrets);
    let prefix = fields.get("prefix").and_then(|n| reader.text(n));
    if let (Some(prefix), Some(node)) = (&prefix, fields.get("prefix")) {
        check_value(reader, node, prefix);
    }
    Some(SecretRef { source, prefix })
}

/// Whether a header may have this name.
pub fn check_header(reader: &Reader<'_>, at: Span, name: &str) -> bool {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        reader.error(at, format!("`{name}` is no header name"), "write a name such as `Idempotency-Key`");
        return false;
    }
    if OURS.contains(&name.to_ascii_lowercase().as_str()) {
        reader.error(at, format!("the header `{name}` is made by the HTTP client"), "leave it out");
        return false;
    }
    true
}

/// Whether a header may have this value.
pub fn check_value(reader: &Reader<'_>, node: &Node, value: &str) -> bool {
    let control = value.chars().any(|c| c.is_control() && c != '\t');
    if control {
        reader.error(
            node.at,
            "a header's value is one line, without control characters",
            "quote it on one line: a block (`|`) ends with a line break",
        );
    }
    !control
}

/// Warns of a secret that stands in the config.
pub fn warn_of_plain_secret(reader: &Reader<'_>, node: &Node, name: &str, literal: bool) {
    let name = name.to_ascii_lowercase();
    let secret = SECRET.contains(&name.as_str()) || name.ends_with("-token") || name.ends_with("-secret");
    if secret && literal {
        let help = if name == "authorization" {
            format!("write `{name}: {{ env: NAME, prefix: \"Bearer \" }}`")
        } else {
            format!("write `{name}: {{ env: NAME }}`")
        };
        reader.warn(node.at, format!("the header `{name}` holds a secret in plain text"), help);
    }
}

/// Reads headers that are the same in every request of `whose`.
pub fn headers(reader: &Reader<'_>, node: Option<&Node>, whose: &str) -> Vec<(String, Value)> {
    let mut headers = Vec::new();
    for entry in reader.optional_entries(node) {
        if !check_header(reader, entry.at, &entry.name) {
            continue;
        }
        if is_secret(&entry.value) {
            headers.extend(secret(reader, &entry.value).map(|s| (entry.name.clone(), Value::Secret(s))));
            continue;
        }
        let Some(text) = reader.text(&entry.value) else { continue };
        if text.contains("${") {
            reader.error(
                entry.value.at,
                format!("the headers of {whose} are the same in every request: no placeholders"),
                "move it to the `headers:` of a request; for a secret write `{ env: NAME }`",
            );
            continue;
        }
        if check_value(reader, &entry.value, &text) {
            warn_of_plain_secret(reader, &entry.value, &entry.name, true);
            headers.push((entry.name.clone(), Value::Text(text)));
        }
    }
    headers
}
