//! Which placeholders have a meaning where.

use super::{
    fields::{Reader, suggest},
    input::Arguments,
    node::Node,
    report::Span,
};
use countermand::template::{Name, Placeholder, Template};
use std::collections::BTreeSet;

/// What a place knows when its placeholders are filled in.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The tool's arguments.
    pub args: &'a Arguments,
    /// What request it is, as messages call it.
    pub of: &'static str,
    /// Whether there is an operation: without one there is no key.
    pub operation: bool,
    /// Whether the upstream's id is known by then, or why it is not.
    pub id: Result<(), &'static str>,
    /// Whether it undoes something.
    pub undo: bool,
    /// Whether it is the create: the only place for arguments that must not be kept.
    pub create: bool,
    /// What has certainly been saved by then.
    pub saved: &'a BTreeSet<String>,
    /// What may have been saved by then.
    pub maybe_saved: &'a BTreeSet<String>,
}

/// Reads a template that stands in the text of a node from `offset` on.
pub fn read_template(
    reader: &Reader<'_>,
    node: &Node,
    text: &str,
    offset: usize,
    scope: &Scope<'_>,
) -> Option<Template> {
    let template: Template = match text.parse() {
        Ok(template) => template,
        Err(error) => {
            let error: countermand::template::TemplateError = error;
            let at = node.piece(reader.source.text(), offset + error.offset, length(text, error.offset));
            reader.sink.error(super::report::Problem::new(at, error.message));
            return None;
        }
    };
    let mut fine = true;
    for placeholder in template.placeholders() {
        let start = offset + placeholder.offset;
        let at = node.piece(reader.source.text(), start, length(text, placeholder.offset));
        fine &= allowed(reader, at, placeholder, scope);
    }
    fine.then_some(template)
}

/// The length of the placeholder that begins there.
fn length(text: &str, offset: usize) -> usize {
    let rest = text.get(offset..).unwrap_or_default();
    rest.find('}').map_or(rest.len(), |end| end + 1)
}

fn allowed(reader: &Reader<'_>, at: Span, placeholder: &Placeholder, scope: &Scope<'_>) -> bool {
    let of = scope.of;
    let refused = match &placeholder.name {
        Name::Arg(path) => match scope.args.missing(path) {
            Some(refused) => Some(refused),
            None if !scope.create
                && path.first().is_some_and(|name| scope.args.write_only.contains(name)) =>
            {
                Some((
                    format!("`{}` is writeOnly: it is sent with the create and never kept", path.join(".")),
                    format!("leave it out of the {of} request, or drop `writeOnly` in `input`"),
                ))
            }
            None => None,
        },
        Name::Id => scope
            .id
            .err()
            .map(|help| (format!("`${{op.id}}` is not known in the {of} request"), help.to_owned())),
        Name::UndoKey => (!scope.undo).then(|| {
            (
                "`${op.undo_key}` belongs to `compensate` alone".to_owned(),
                "write `${op.key}` for the operation's own key".to_owned(),
            )
        }),
        Name::Key | Name::OwnName | Name::LifetimeSecs => (!scope.operation).then(|| {
            (
                format!(
                    "`${{{}}}` has no meaning here: a request without an effect has no operation",
                    placeholder.name
                ),
                "say `effect: once` if it changes something upstream".to_owned(),
            )
        }),
        Name::Saved(name) if scope.saved.contains(name) => None,
        Name::Saved(name) if scope.maybe_saved.contains(name) => {
            if of == "status" {
                Some((
                    format!("`{name}` is saved by the status read itself: the first one has no value for it"),
                    format!("save `{name}` in `create` as well"),
                ))
            } else {
                reader.warn(
                    at,
                    format!("the {of} request may be due before a status read has saved `{name}`"),
                    format!("save `{name}` in `create` as well"),
                );
                None
            }
        }
        Name::Saved(name) => {
            let known = scope.saved.iter().chain(scope.maybe_saved).map(String::as_str);
            let help = suggest(name, known);
            let help = if help == "there are none" {
                format!("save it: `create: {{ save: {{ {name}: $.PATH }} }}`")
            } else {
                help
            };
            Some((format!("nothing saves `{name}` before the {of} request"), help))
        }
    };
    match refused {
        Some((message, help)) => {
            reader.error(at, message, help);
            false
        }
        None => true,
    }
}

/// Whether a template names our key.
pub fn names_key(template: &Template) -> bool {
    template.names().any(is_key)
}

/// Whether this is our key, or the name made of it.
pub fn is_key(name: &Name) -> bool {
    matches!(name, Name::Key | Name::OwnName)
}
