//! Placeholders: `${args.NAME}`, `${op.id}` and their like, parsed once, rendered per place.
//!
//! Arguments are data. What a placeholder stands for is encoded for the place it stands in, and
//! can never leave it. What is wrong with a template is said where it is parsed or checked; what
//! is wrong with a value, where it is rendered.

mod check;
mod inputs;
mod name;
mod parse;
mod place;
mod program;
mod render;
mod scope;

pub use check::{Misplaced, check_id_path, check_json_path};
pub use inputs::inputs_of;
pub use place::Place;
pub use program::{InheritTemplate, ProgramTemplate, RenderedProgram, RenderedVariable};
pub use render::{Rendered, RenderedBody, RenderedHeader, render_id_path, render_text};
pub use scope::{RenderError, Scope};

pub(crate) use render::check_name as check_header;

use serde::{Deserialize, Serialize};
use std::fmt;

/// A text with placeholders; parsed, and written back as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Template {
    source: String,
    parts: Vec<Part>,
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// As it stands.
    Text(String),
    /// To be filled in.
    Placeholder(Placeholder),
}

/// What a placeholder names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placeholder {
    /// What it stands for.
    pub name: Name,
    /// Whether it is `${…:path}`: keeps `/`, refuses `.` and `..` segments.
    pub keep_slashes: bool,
    /// The byte offset of its `$` in the template.
    pub offset: usize,
}

/// The names that exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    /// `args.NAME`, and deeper members.
    Arg(Vec<String>),
    /// `op.id`: the upstream's id.
    Id,
    /// `op.key`: our idempotency key.
    Key,
    /// `op.name`: `cm-<key>`, the name we give to things.
    OwnName,
    /// `op.undo_key`: the idempotency key of the undo request.
    UndoKey,
    /// `op.lifetime_secs`: our bound in seconds.
    LifetimeSecs,
    /// `op.saved.NAME`: what `save` kept.
    Saved(String),
}

/// A request with placeholders.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestTemplate {
    /// The method, in upper case.
    pub method: String,
    /// The path, or a whole URL that is one placeholder (`${op.saved.url}`).
    pub target: Template,
    /// Query parameters, in order.
    pub query: Vec<(String, ValueTemplate)>,
    /// Headers beside the upstream's.
    pub headers: Vec<(String, HeaderTemplate)>,
    /// The body.
    pub body: BodyTemplate,
}

/// A header's value: text with placeholders, or a secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeaderTemplate {
    /// Text with placeholders.
    Text(Template),
    /// A secret.
    Secret(crate::definition::SecretRef),
}

/// A JSON value whose strings may hold placeholders. A string that is one placeholder keeps the
/// JSON type of what it stands for; an absent optional argument drops the field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueTemplate {
    /// A string.
    Text(Template),
    /// null, a boolean or a number.
    Plain(serde_json::Value),
    /// An array.
    Array(Vec<ValueTemplate>),
    /// An object, in order.
    Object(Vec<(String, ValueTemplate)>),
}

/// A request's body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyTemplate {
    /// None.
    None,
    /// JSON.
    Json(ValueTemplate),
    /// `application/x-www-form-urlencoded`.
    Form(Vec<(String, ValueTemplate)>),
}

/// Why a template could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TemplateError {
    /// What is wrong, and what to write instead.
    pub message: String,
    /// Where, as a byte offset into the template.
    pub offset: usize,
}

impl Template {
    /// The parts.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Whether it is one placeholder and nothing else, and which.
    pub fn whole(&self) -> Option<&Placeholder> {
        match self.parts.as_slice() {
            [Part::Placeholder(placeholder)] => Some(placeholder),
            _ => None,
        }
    }

    /// The text as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

impl TryFrom<String> for Template {
    type Error = TemplateError;

    fn try_from(source: String) -> Result<Self, TemplateError> {
        source.parse()
    }
}

impl From<Template> for String {
    fn from(template: Template) -> Self {
        template.source
    }
}
