//! A request as messages show it: whose, method and path, without arguments, query or headers.

use crate::template::{Name, Rendered, RequestTemplate};
use std::fmt;

/// A request as it may be shown and stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown(String);

impl Shown {
    /// The rendered path; as configured where an argument stands in it, since messages are stored.
    pub(super) fn new(upstream: &str, template: &RequestTemplate, rendered: &Rendered) -> Self {
        if template.target.names().any(|name| matches!(name, Name::Arg(_))) {
            return Self::as_configured(upstream, template);
        }
        Self(format!("{upstream}: {} {}", rendered.method, rendered.url.path()))
    }

    /// The path as configured.
    pub(super) fn as_configured(upstream: &str, template: &RequestTemplate) -> Self {
        Self(format!("{upstream}: {} {}", template.method, template.target))
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Text of an upstream for a message: one line without control characters, cut at `most` bytes.
pub(super) fn one_line(text: &str, most: usize) -> String {
    let mut line = String::new();
    for word in text.split(|c: char| c.is_control() || c.is_whitespace()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > most {
            line.truncate(line.floor_char_boundary(most));
            line.push('…');
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_s_text_is_one_short_line_without_control_characters() {
        assert_eq!(one_line("a\r\n\u{1b}[31mb\0c   d", 200), "a [31mb c d");
        assert_eq!(one_line("aaaa ü", 6), "aaaa ü…".replace('ü', ""));
        assert_eq!(one_line("  ", 200), "");
    }
}
