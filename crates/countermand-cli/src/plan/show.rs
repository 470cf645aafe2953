//! Requests and times as people read them; secrets as references.

use countermand::{
    definition::{SecretRef, SecretSource, UndoDefinition},
    template::{BodyTemplate, HeaderTemplate, ProgramTemplate, RequestTemplate, ValueTemplate},
};
use serde_json::Value as Json;
use std::time::Duration;

/// `METHOD path?query`, as configured.
pub(crate) fn line(request: &RequestTemplate) -> String {
    let mut line = format!("{} {}", request.method, request.target);
    let mut separator = if request.target.source().contains('?') { '&' } else { '?' };
    for (name, value) in &request.query {
        line.push(separator);
        line.push_str(&format!("{name}={}", plain(value)));
        separator = '&';
    }
    line
}

/// A step of an undo, as configured.
pub(crate) fn undo(step: &UndoDefinition) -> String {
    match step {
        UndoDefinition::Request(request) => line(request),
        UndoDefinition::Program(step) => program(step),
    }
}

/// A program and its arguments, as configured: quoted where a shell would read them otherwise.
pub(super) fn program(program: &ProgramTemplate) -> String {
    program.run.iter().map(|template| word(template.source())).collect::<Vec<_>>().join(" ")
}

/// A word of a command line.
pub(super) fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c);
    let bare = text.replace("${", "").replace('}', "");
    match !text.is_empty() && bare.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''").replace('\n', "\\n")),
    }
}

/// The variables that a program gets, as configured.
pub(super) fn variables(program: &ProgramTemplate) -> Vec<(String, String)> {
    program.env.iter().map(|(name, value)| (name.clone(), header(value))).collect()
}

/// What a program reads, as configured.
pub(super) fn stdin(program: &ProgramTemplate) -> Option<Json> {
    program.stdin.as_ref().map(json)
}

/// The headers, as configured.
pub(super) fn headers(request: &RequestTemplate) -> Vec<(String, String)> {
    request.headers.iter().map(|(name, value)| (name.clone(), header(value))).collect()
}

/// The body, as configured.
pub(super) fn body(request: &RequestTemplate) -> Option<Json> {
    match &request.body {
        BodyTemplate::None => None,
        BodyTemplate::Json(value) => Some(json(value)),
        BodyTemplate::Form(fields) => {
            Some(Json::Object(fields.iter().map(|(name, value)| (name.clone(), json(value))).collect()))
        }
    }
}

/// A secret, by where it is.
pub(super) fn secret(secret: &SecretRef) -> String {
    let place = match &secret.source {
        SecretSource::Env(name) => format!("env {name}"),
        SecretSource::File(path) => format!("file {path}"),
        SecretSource::Exec { argv, .. } => format!("exec {}", argv.first().map_or("", String::as_str)),
    };
    format!("{}<secret: {place}>", secret.prefix.as_deref().unwrap_or_default())
}

/// A time: `2h`, `1m 30s`, `500ms`.
pub(super) fn time(time: Duration) -> String {
    match jiff::SignedDuration::try_from(time) {
        Ok(signed) => format!("{signed:#}"),
        Err(_) => format!("{}s", time.as_secs()),
    }
}

fn header(value: &HeaderTemplate) -> String {
    match value {
        HeaderTemplate::Text(template) => template.source().to_owned(),
        HeaderTemplate::Secret(reference) => secret(reference),
    }
}

fn plain(value: &ValueTemplate) -> String {
    match value {
        ValueTemplate::Text(template) => template.source().to_owned(),
        other => json(other).to_string(),
    }
}

fn json(value: &ValueTemplate) -> Json {
    match value {
        ValueTemplate::Text(template) => Json::String(template.source().to_owned()),
        ValueTemplate::Plain(plain) => plain.clone(),
        ValueTemplate::Array(items) => items.iter().map(json).collect(),
        ValueTemplate::Object(fields) => {
            Json::Object(fields.iter().map(|(name, value)| (name.clone(), json(value))).collect())
        }
    }
}
