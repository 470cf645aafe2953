//! What is wrong with a config file, where, and what to write instead.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::{cell::RefCell, fmt, ops::Range, sync::Arc};

/// A place in the config file, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// Where it begins.
    pub start: usize,
    /// Where it ends; not before it begins.
    pub end: usize,
}

impl Span {
    /// From one byte offset up to another.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end: end.max(start) }
    }
}

/// The file that was read.
#[derive(Debug, Clone)]
pub struct Source {
    name: Arc<str>,
    text: Arc<str>,
}

impl Source {
    /// A file, as it is named to people, and its text.
    pub fn new(name: &str, text: &str) -> Self {
        Self { name: name.into(), text: text.into() }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Line and column of a byte offset; both count from 1, columns in characters.
    fn position(&self, offset: usize) -> (usize, usize) {
        let before = &self.text[..self.floor(offset)];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// The byte offset of a line and a column; both count from 1, columns in characters.
    pub fn offset(&self, line: u64, column: u64) -> usize {
        let index = |n: u64| usize::try_from(n.saturating_sub(1)).unwrap_or(usize::MAX);
        let mut lines = self.text.split_inclusive('\n');
        let before: usize = lines.by_ref().take(index(line)).map(str::len).sum();
        let within: usize =
            lines.next().unwrap_or_default().chars().take(index(column)).map(char::len_utf8).sum();
        before + within
    }

    /// The part of the span on its first line: what is pointed at.
    fn first_line(&self, span: Span) -> Range<usize> {
        let start = self.floor(span.start);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |at| start + at);
        start..self.floor(span.end.min(line_end)).max(start)
    }

    fn floor(&self, offset: usize) -> usize {
        self.text.floor_char_boundary(offset)
    }
}

/// One thing that is wrong, or that somebody should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub at: Span,
    /// What.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl Problem {
    /// A problem without advice.
    pub fn new(at: Span, message: impl Into<String>) -> Self {
        Self { at, message: message.into(), help: None }
    }

    /// The same, with what to write instead.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Collects what is found while a file is checked, so that all of it is reported together.
#[derive(Debug, Default)]
pub struct Sink {
    errors: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Problem>>,
}

impl Sink {
    /// Notes an error. A preset that two tools use reports once.
    pub fn error(&self, problem: Problem) {
        note(&self.errors, problem);
    }

    /// Notes a warning.
    pub fn warn(&self, problem: Problem) {
        note(&self.warnings, problem);
    }

    /// The warnings, or all errors, each in the order of the file.
    ///
    /// # Errors
    /// Where there is an error.
    pub fn finish(self, source: &Source) -> Result<Vec<Warning>, ConfigErrors> {
        let errors = in_order(self.errors.into_inner());
        if !errors.is_empty() {
            return Err(ConfigErrors::of(source, errors));
        }
        let warnings = in_order(self.warnings.into_inner());
        Ok(warnings.into_iter().map(|problem| Warning { source: source.clone(), problem }).collect())
    }
}

fn note(list: &RefCell<Vec<Problem>>, problem: Problem) {
    let mut list = list.borrow_mut();
    if !list.contains(&problem) {
        list.push(problem);
    }
}

fn in_order(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| problem.at);
    problems
}

/// Why a config file cannot be used: every error that was found, in the order of the file.
///
/// Its `Display` is meant for people: `FILE:LINE:COL: message`, the line in question, and what to
/// write instead, per error.
#[derive(Debug, Clone)]
pub struct ConfigErrors {
    source: Source,
    errors: Vec<Problem>,
    unreadable: Option<String>,
}

impl ConfigErrors {
    /// Errors of a file that could be read.
    pub fn of(source: &Source, errors: Vec<Problem>) -> Self {
        Self { source: source.clone(), errors, unreadable: None }
    }

    /// A file that could not be read.
    pub fn unreadable(name: &str, why: &std::io::Error) -> Self {
        let why = format!("cannot be read: {why}");
        Self { source: Source::new(name, ""), errors: Vec::new(), unreadable: Some(why) }
    }

    /// The errors.
    pub fn errors(&self) -> &[Problem] {
        &self.errors
    }

    /// Line and column of an error; both count from 1.
    pub fn position(&self, problem: &Problem) -> (usize, usize) {
        self.source.position(problem.at.start)
    }
}

impl std::error::Error for ConfigErrors {}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.unreadable {
            return write!(f, "{}: {why}", self.source.name);
        }
        for (n, problem) in self.errors.iter().enumerate() {
            if n > 0 {
                writeln!(f, "\n")?;
            }
            f.write_str(&render(&self.source, problem, ""))?;
        }
        Ok(())
    }
}

/// Something that works, and that somebody should know. Its `Display` is like that of
/// [`ConfigErrors`].
#[derive(Debug, Clone)]
pub struct Warning {
    source: Source,
    problem: Problem,
}

impl Warning {
    /// What it is about.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Its line and column; both count from 1.
    pub fn position(&self) -> (usize, usize) {
        self.source.position(self.problem.at.start)
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&render(&self.source, &self.problem, "warning: "))
    }
}

/// `FILE:LINE:COL: message`, then the line with a mark under it, then the advice.
fn render(source: &Source, problem: &Problem, kind: &str) -> String {
    let (line, column) = source.position(problem.at.start);
    let mut text = format!("{}:{line}:{column}: {kind}{}", source.name, problem.message);
    let mark = source.first_line(problem.at);
    let snippet = Snippet::<'_, annotate_snippets::Annotation<'_>>::source(source.text.as_ref())
        .annotation(AnnotationKind::Primary.span(mark));
    let drawn = Renderer::plain().render(&[Level::ERROR.no_name().primary_title("").element(snippet)]);
    // The renderer's own title, arrow and margins say again what our first line says.
    for drawn_line in drawn.lines().filter(|l| l.contains(" | ")) {
        text.push('\n');
        text.push_str(drawn_line.trim_end());
    }
    if let Some(help) = &problem.help {
        text.push_str("\n  help: ");
        text.push_str(help);
    }
    text
}
