//! The request target: a path under the base URL, or a whole URL that an upstream gave us.

use super::{DATA, scalar};
use crate::template::{Name, Part, Place, Placeholder, RenderError, Scope, Template};
use percent_encoding::{percent_decode_str, utf8_percent_encode};
use url::Url;

const PLACE: Place = Place::Target;

pub(super) fn render(target: &Template, base: &Url, scope: &Scope<'_>) -> Result<Url, RenderError> {
    let url = match target.whole() {
        Some(placeholder) => whole(placeholder, base, scope)?,
        None => {
            let path = path(target, scope)?;
            let url = format!("{}{path}", base.as_str().trim_end_matches('/'));
            Url::parse(&url)
                .map_err(|error| RenderError::at(&PLACE, format!("no URL comes of it: {error}")))?
        }
    };
    if url.origin() != base.origin() || !url.username().is_empty() || url.password().is_some() {
        return Err(RenderError::at(
            &PLACE,
            format!("it leaves the upstream's origin, {}", base.origin().ascii_serialization()),
        ));
    }
    Ok(url)
}

/// A whole URL, or an absolute path of the base URL's origin, as an upstream gave it.
fn whole(placeholder: &Placeholder, base: &Url, scope: &Scope<'_>) -> Result<Url, RenderError> {
    let wrong = |problem: String| RenderError::of(&PLACE, placeholder, problem);
    if matches!(placeholder.name, Name::Arg(_)) {
        return Err(wrong("an argument cannot be a whole target".into()));
    }
    let value = scope.value(&PLACE, placeholder)?;
    let text = match value.as_deref().map(scalar) {
        Some(Ok(Some(text))) => text,
        _ => return Err(wrong("it is no text".into())),
    };
    let mut url = match Url::parse(&text) {
        Ok(url) => url,
        Err(_) if text.starts_with('/') => {
            base.join(&text).map_err(|error| wrong(format!("no URL comes of it: {error}")))?
        }
        Err(_) => {
            return Err(wrong("it is neither a URL nor a path that starts with `/`".into()));
        }
    };
    url.set_fragment(None);
    Ok(url)
}

/// A segment of the path as it is written, and whether a placeholder has a part in it.
#[derive(Default)]
struct Segment {
    text: String,
    filled: Option<Placeholder>,
}

/// The path. What a placeholder stands for is one part of one segment, or with `:path` some whole segments.
fn path(target: &Template, scope: &Scope<'_>) -> Result<String, RenderError> {
    let mut segments = vec![Segment::default()];
    let mut query: Option<String> = None;
    for part in target.parts() {
        match (part, &mut query) {
            (Part::Text(literal), Some(query)) => query.push_str(literal),
            (Part::Text(literal), None) => {
                let (path, rest) = literal.split_once('?').map_or((&**literal, None), |(p, q)| (p, Some(q)));
                push(&mut segments, path, None);
                query = rest.map(str::to_owned);
            }
            (Part::Placeholder(placeholder), Some(query)) => query.push_str(&data(placeholder, scope)?),
            (Part::Placeholder(placeholder), None) => {
                push(&mut segments, &data(placeholder, scope)?, Some(placeholder));
            }
        }
    }
    if !segments.first().is_some_and(|first| first.text.is_empty() && first.filled.is_none()) {
        return Err(RenderError::at(&PLACE, "a path starts with `/`"));
    }
    for Segment { text, filled } in &segments {
        if let Some(placeholder) = filled
            && is_dots_or_empty(text)
        {
            let shown = if text.is_empty() { "be empty" } else { "be `.` or `..`" };
            return Err(RenderError::of(&PLACE, placeholder, format!("a segment of a path cannot {shown}")));
        }
    }
    let path = segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join("/");
    Ok(query.map_or(path.clone(), |query| format!("{path}?{query}")))
}

/// Appends a text, whose `/` separate segments.
fn push(segments: &mut Vec<Segment>, text: &str, from: Option<&Placeholder>) {
    for (index, piece) in text.split('/').enumerate() {
        if index > 0 {
            segments.push(Segment::default());
        }
        if let Some(segment) = segments.last_mut() {
            segment.text.push_str(piece);
            segment.filled = segment.filled.take().or_else(|| from.cloned());
        }
    }
}

/// What the placeholder stands for, encoded.
fn data(placeholder: &Placeholder, scope: &Scope<'_>) -> Result<String, RenderError> {
    let wrong = |problem: String| RenderError::of(&PLACE, placeholder, problem);
    let value = scope.value(&PLACE, placeholder)?;
    let text = match value.as_deref().map(scalar) {
        Some(Ok(Some(text))) => text,
        None | Some(Ok(None)) => return Err(wrong("it is not given, and the path needs it".into())),
        Some(Err(kind)) => return Err(wrong(format!("{kind} cannot stand in a path"))),
    };
    if !placeholder.keep_slashes {
        return Ok(utf8_percent_encode(&text, DATA).to_string());
    }
    // An upstream, or what stands before it, may decode more than once.
    if decoded(&text).split('/').any(is_dots_or_empty) {
        return Err(wrong("a segment of it is empty, `.` or `..`".into()));
    }
    Ok(text.split('/').map(|s| utf8_percent_encode(s, DATA).to_string()).collect::<Vec<_>>().join("/"))
}

fn is_dots_or_empty(segment: &str) -> bool {
    matches!(decoded(segment).as_str(), "" | "." | "..")
}

/// Percent-decoded as often as a chain of servers may do it; bounded, since a value can be long.
fn decoded(text: &str) -> String {
    const ROUNDS: usize = 3;
    (0..ROUNDS).fold(text.to_owned(), |text, _| percent_decode_str(&text).decode_utf8_lossy().into_owned())
}
