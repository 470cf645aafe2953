//! Lets placeholders stand unquoted where YAML would take their braces for a mapping's.
//!
//! `{ request: GET /jobs/${op.id} }` is not YAML: within braces or brackets a plain text ends at a
//! brace. Nothing else could be meant by it, though, and a config is full of it. So the braces of
//! placeholders are hidden from the parser, one character for one, and put back in what it reads.

use super::report::Span;

/// Stand for `{` and `}`: private to us, and as good as letters to YAML.
const OPEN: char = '\u{e000}';
const CLOSE: char = '\u{e001}';

/// A text whose placeholders have no braces.
#[derive(Debug)]
pub struct Masked {
    /// The text.
    pub text: String,
    /// Where in it there are characters of ours, in bytes.
    at: Vec<usize>,
}

impl Masked {
    /// Hides the braces of every `${…}`. A text that has our characters already is left alone.
    pub fn new(text: &str) -> Self {
        let mut masked = Self { text: String::with_capacity(text.len() + 64), at: Vec::new() };
        let mut rest = text;
        let ours = text.contains([OPEN, CLOSE]);
        while let Some((before, inner)) = rest.split_once("${").filter(|_| !ours) {
            masked.text.push_str(before);
            masked.text.push('$');
            let end = inner.find(|c: char| !(c.is_alphanumeric() || "._:-".contains(c)));
            match end.filter(|end| inner[*end..].starts_with('}')) {
                Some(end) => {
                    masked.put(OPEN);
                    masked.text.push_str(&inner[..end]);
                    masked.put(CLOSE);
                    rest = &inner[end + 1..];
                }
                None => {
                    masked.text.push('{');
                    rest = inner;
                }
            }
        }
        masked.text.push_str(rest);
        masked
    }

    fn put(&mut self, c: char) {
        self.at.push(self.text.len());
        self.text.push(c);
    }

    /// Puts the braces back.
    pub fn unmask(&self, text: &mut String) {
        if !self.at.is_empty() && text.contains([OPEN, CLOSE]) {
            *text = text.replace(OPEN, "{").replace(CLOSE, "}");
        }
    }

    /// The place in the file of a place in the masked text.
    pub fn place(&self, span: Span) -> Span {
        Span::new(self.offset(span.start), self.offset(span.end))
    }

    fn offset(&self, masked: usize) -> usize {
        let before = self.at.partition_point(|at| *at < masked);
        masked - before * (OPEN.len_utf8() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_of_placeholders_are_hidden_and_places_stay_what_they_were() {
        let text = "{ a: x/${op.id}/é, b: ${ c }, d: $${e} }";
        let masked = Masked::new(text);
        assert_eq!(masked.text.chars().count(), text.chars().count());
        assert!(masked.text.contains("${ c }"));
        for word in ["/é", "b:", "d:", " }"] {
            let (there, here) = (masked.text.rfind(word).unwrap(), text.rfind(word).unwrap());
            assert_eq!(masked.place(Span::new(there, there)), Span::new(here, here), "{word}");
        }
        let mut back = masked.text.clone();
        masked.unmask(&mut back);
        assert_eq!(back, text);
    }
}
