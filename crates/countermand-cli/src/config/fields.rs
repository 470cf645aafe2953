//! Reads mappings and scalars, and reports what does not fit.

use super::{
    checked::Needed,
    node::{Data, Entry, LIKE, Node, likeness},
    report::{Problem, Sink, Source, Span},
    shapes::{Holds, Shape},
};
use std::{cell::RefCell, time::Duration};

/// How times are written.
pub const TIMES: &str = "`500ms`, `30s`, `10m`, `2h 30m`, `24h`, `30d` or `PT30S`";

/// Looks up an environment variable.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What every reader needs: the file, the environment, and where to report.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    /// The file.
    pub source: &'a Source,
    /// Where problems go.
    pub sink: &'a Sink,
    /// The environment.
    pub env: Env<'a>,
    /// The secrets that have been found so far.
    pub secrets: &'a RefCell<Vec<Needed>>,
}

/// A mapping whose fields are known.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a> {
    /// The mapping.
    pub node: &'a Node,
}

impl<'a> Fields<'a> {
    /// A field; none where it is missing or null.
    pub fn get(&self, name: &str) -> Option<&'a Node> {
        self.node.get(name)
    }

    /// Where to point when something is missing.
    pub fn head(&self) -> Span {
        self.node.head()
    }
}

impl<'a> Reader<'a> {
    /// Notes an error with what to write instead.
    pub fn error(&self, at: Span, message: impl Into<String>, help: impl Into<String>) {
        self.sink.error(Problem::new(at, message).help(help));
    }

    /// Notes a warning with what to write instead.
    pub fn warn(&self, at: Span, message: impl Into<String>, help: impl Into<String>) {
        self.sink.warn(Problem::new(at, message).help(help));
    }

    /// Reports a field that is missing, unless a misspelt one has been reported.
    pub fn missing(&self, node: &Node, name: &str, message: impl Into<String>, help: impl Into<String>) {
        if !node.has_like(name) {
            self.error(node.head(), message, help);
        }
    }

    /// Opens a mapping: reports fields that do not exist, or not yet.
    pub fn open(&self, node: &'a Node, shape: &Shape) -> Option<Fields<'a>> {
        for entry in self.entries(node)? {
            match shape.all().find(|field| field.name == entry.name) {
                Some(field) if matches!(field.holds, Holds::Later) => {
                    let now: Vec<_> = shape
                        .all()
                        .filter(|f| {
                            matches!(shape.name, "Upstream" | "Tool")
                                && matches!(f.holds, Holds::Shape(_) | Holds::Either([Holds::Shape(_), ..]))
                                && !matches!(f.name, "mark" | "compensate")
                        })
                        .map(|f| format!("`{}`", f.name))
                        .collect();
                    let help = match now.as_slice() {
                        [] => "leave it out".to_owned(),
                        now => format!("this version has {}", now.join(" and ")),
                    };
                    self.error(entry.at, format!("`{}` is not supported by this version", entry.name), help);
                }
                Some(_) => {}
                None => {
                    let known = shape.all().filter(|f| !matches!(f.holds, Holds::Later)).map(|f| f.name);
                    let help = suggest(&entry.name, known);
                    self.error(entry.at, format!("there is no field `{}` here", entry.name), help);
                }
            }
        }
        Some(Fields { node })
    }

    /// The entries of a mapping.
    pub fn entries(&self, node: &'a Node) -> Option<&'a [Entry]> {
        match &node.data {
            Data::Map(entries) => Some(entries),
            _ => self.expected(node, "a mapping"),
        }
    }

    /// The entries of an optional mapping; nothing where there is none.
    pub fn optional_entries(&self, node: Option<&'a Node>) -> &'a [Entry] {
        node.and_then(|node| self.entries(node)).unwrap_or_default()
    }

    /// Reports something of the wrong kind.
    pub fn expected<T>(&self, node: &Node, wanted: &str) -> Option<T> {
        let at = if matches!(node.data, Data::List(_) | Data::Map(_)) { node.head() } else { node.at };
        self.sink.error(Problem::new(at, format!("{wanted} is needed here, not {}", node.what())));
        None
    }

    /// A text; numbers and booleans are taken as they are written.
    pub fn text(&self, node: &Node) -> Option<String> {
        node.scalar().or_else(|| self.expected(node, "a text"))
    }

    /// A text that is not empty.
    pub fn name(&self, node: &Node) -> Option<String> {
        let text = self.text(node)?;
        if text.trim().is_empty() {
            self.sink.error(Problem::new(node.at, "this must not be empty"));
            return None;
        }
        Some(text)
    }

    /// `true` or `false`.
    pub fn truth(&self, node: &Node) -> Option<bool> {
        match node.data {
            Data::Bool(truth) => Some(truth),
            _ => self.expected(node, "`true` or `false`"),
        }
    }

    /// A whole number, at least 1.
    pub fn count(&self, node: &Node) -> Option<usize> {
        let count = match &node.data {
            Data::Number(number, _) => number.as_u64().filter(|n| *n > 0),
            _ => None,
        };
        let count = count.and_then(|n| usize::try_from(n).ok());
        count.or_else(|| {
            self.sink.error(Problem::new(node.at, "a whole number of at least 1 is needed here"));
            None
        })
    }

    /// Bytes: a whole number, or one with `KiB`, `MiB` or `GiB`.
    pub fn size(&self, node: &Node) -> Option<u64> {
        let written = node.scalar().unwrap_or_default();
        let digits = written.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
        let unit = match written[digits.len()..].trim() {
            "" | "B" => Some(1),
            "KiB" => Some(1 << 10),
            "MiB" => Some(1 << 20),
            "GiB" => Some(1_u64 << 30),
            _ => None,
        };
        let bytes = unit.zip(digits.parse::<u64>().ok()).and_then(|(unit, n)| n.checked_mul(unit));
        bytes.filter(|n| *n > 0).or_else(|| {
            self.error(node.at, "this is no size", "write bytes as a number, or such as `4MiB`");
            None
        })
    }

    /// A time that is not zero.
    pub fn duration(&self, node: &Node) -> Option<Duration> {
        let help = format!("write a time such as {TIMES}");
        let Some(written) = node.scalar() else { return self.expected(node, "a time") };
        if let Data::Number(..) = node.data {
            self.error(node.at, format!("`{written}` is no time: it has no unit"), help);
            return None;
        }
        match parse_duration(&written) {
            Some(time) if time > Duration::ZERO => Some(time),
            Some(_) => {
                self.error(node.at, "this time must be more than zero", help);
                None
            }
            None => {
                self.error(node.at, format!("`{written}` is no time"), help);
                None
            }
        }
    }

    /// One of some words.
    pub fn word<T: Copy>(&self, node: &Node, words: &[(&str, T)]) -> Option<T> {
        let written = self.text(node)?;
        let found = words.iter().find(|(word, _)| *word == written).map(|(_, meaning)| *meaning);
        found.or_else(|| {
            let help = suggest(&written, words.iter().map(|(word, _)| *word));
            self.error(node.at, format!("`{written}` means nothing here"), help);
            None
        })
    }

    /// A list of texts; one text is a list of one.
    pub fn texts(&self, node: &'a Node) -> Vec<(&'a Node, String)> {
        match &node.data {
            Data::List(items) => items.iter().filter_map(|n| Some((n, self.text(n)?))).collect(),
            Data::Map(_) => self.expected(node, "a list of texts").unwrap_or_default(),
            _ => self.text(node).map(|text| (node, text)).into_iter().collect(),
        }
    }
}

/// Days are 24 hours; months and years are no fixed time.
pub fn parse_duration(written: &str) -> Option<Duration> {
    let span: jiff::Span = written.parse().ok()?;
    let signed = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).ok()?;
    Duration::try_from(signed).ok()
}

/// What to write instead of a word that is none of the known ones.
pub fn suggest<'s>(word: &str, known: impl IntoIterator<Item = &'s str>) -> String {
    let known: Vec<_> = known.into_iter().collect();
    let nearest = known
        .iter()
        .map(|candidate| (likeness(word, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((_, candidate)) => format!("did you mean `{candidate}`?"),
        None if known.is_empty() => "there are none".to_owned(),
        None => {
            format!("known are {}", known.iter().map(|k| format!("`{k}`")).collect::<Vec<_>>().join(", "))
        }
    }
}
