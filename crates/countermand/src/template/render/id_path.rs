//! The JSONPath of a look-up, which may name our key inside a string literal of a filter.

use crate::template::{Name, Part, Place, RenderError, Scope, Template, TemplateError};

/// Fills in the JSONPath of `find.id`.
///
/// # Errors
/// [`RenderError`] where a placeholder stands elsewhere than in a string literal of a filter.
pub fn render_id_path(template: &Template, scope: &Scope<'_>) -> Result<String, RenderError> {
    let key = scope.key.ok_or_else(|| RenderError::at(&Place::Text, "this request has no key"))?;
    id_path_of(template, |name| match name {
        Name::OwnName => key.name(),
        _ => key.to_string(),
    })
    .map_err(|error| RenderError::at(&Place::Text, error.message))
}

/// Fills in what `value` says, where a placeholder may stand at all.
pub(in crate::template) fn id_path_of(
    template: &Template,
    value: impl Fn(&Name) -> String,
) -> Result<String, TemplateError> {
    let mut path = String::new();
    let mut reader = Reader::default();
    for part in template.parts() {
        match part {
            Part::Text(text) => {
                reader.read(text);
                path.push_str(text);
            }
            Part::Placeholder(placeholder) => {
                let wrong = |message: &str| TemplateError {
                    message: format!("`${{{}}}`: {message}", placeholder.name),
                    offset: placeholder.offset,
                };
                if !matches!(placeholder.name, Name::Key | Name::OwnName) {
                    return Err(wrong("a JSONPath can name only `op.key` and `op.name`"));
                }
                if !reader.in_filter_literal() {
                    return Err(wrong(
                        "a JSONPath can name it only inside a string of a filter, such as \
                         `$.jobs[?@.key=='${op.key}'].id`",
                    ));
                }
                escape(&value(&placeholder.name), &mut path);
            }
        }
    }
    Ok(path)
}

/// Where in a JSONPath we are: the open brackets, whether each is a filter, and the open quote.
#[derive(Default)]
struct Reader {
    brackets: Vec<bool>,
    quote: Option<char>,
    escaped: bool,
}

impl Reader {
    fn read(&mut self, text: &str) {
        for c in text.chars() {
            match (self.quote, c) {
                (Some(_), _) if self.escaped => self.escaped = false,
                (Some(_), '\\') => self.escaped = true,
                (Some(quote), c) if c == quote => self.quote = None,
                (Some(_), _) => {}
                (None, '\'' | '"') => self.quote = Some(c),
                (None, '[') => self.brackets.push(false),
                (None, ']') => {
                    self.brackets.pop();
                }
                (None, '?') => {
                    if let Some(filter) = self.brackets.last_mut() {
                        *filter = true;
                    }
                }
                (None, _) => {}
            }
        }
    }

    fn in_filter_literal(&self) -> bool {
        self.quote.is_some() && !self.escaped && self.brackets.contains(&true)
    }
}

/// Escapes for a string literal of RFC 9535, whichever its quote.
fn escape(value: &str, into: &mut String) {
    for c in value.chars() {
        match c {
            '\'' | '"' | '\\' => {
                // `\'` is legal only between single quotes and `\"` only between double ones; this is in both.
                into.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c if c.is_control() => into.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => into.push(c),
        }
    }
}
