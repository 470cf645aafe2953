//! What can be said of a template before any value is known: what stands where nothing may.

use super::{
    HeaderTemplate, Name, Part, Place, RequestTemplate, Template, TemplateError, ValueTemplate,
    render::{check_name, id_path_of},
};
use http::Method;
use serde_json_path::JsonPath;

/// A fault of a request, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {error}")]
pub struct Misplaced {
    /// Where.
    pub place: Place,
    /// What is wrong, and what to write instead; the offset is one into the template of that place.
    pub error: TemplateError,
}

impl RequestTemplate {
    /// Everything that is wrong with the request whatever the values are.
    pub fn check(&self) -> Vec<Misplaced> {
        let mut faults = Vec::new();
        let mut fault = |place: Place, offset: usize, message: String| {
            faults.push(Misplaced { place, error: TemplateError { message, offset } });
        };
        if Method::from_bytes(self.method.as_bytes()).is_err()
            || self.method.chars().any(|c| c.is_lowercase())
        {
            fault(Place::Target, 0, format!("`{}` is no HTTP method: write one in upper case", self.method));
        }
        if let Err(error) = check_target(&self.target) {
            fault(Place::Target, error.offset, error.message);
        }
        for (name, value) in &self.query {
            if let Some(message) = no_parameter(value) {
                fault(Place::Query(name.clone()), 0, message.into());
            }
        }
        if let super::BodyTemplate::Form(fields) = &self.body {
            for (name, value) in fields {
                if let Some(message) = no_parameter(value) {
                    fault(Place::Form(name.clone()), 0, message.into());
                }
            }
        }
        for (name, value) in &self.headers {
            let place = || Place::Header(name.clone());
            if let Err(message) = check_name(name) {
                fault(place(), 0, message);
            }
            if let HeaderTemplate::Text(template) = value
                && template.parts().iter().any(|p| matches!(p, Part::Text(t) if !is_header_text(t)))
            {
                fault(place(), 0, "a header holds printable ASCII in one line".into());
            }
        }
        for (place, placeholder) in self.placeholders() {
            if placeholder.keep_slashes && place != Place::Target {
                let message =
                    format!("`:path` has a meaning only in a path: write `${{{}}}`", placeholder.name);
                fault(place, placeholder.offset, message);
            }
        }
        faults
    }
}

fn is_header_text(text: &str) -> bool {
    text.bytes().all(|b| b == b'\t' || (b' '..=b'~').contains(&b))
}

/// Why a value can never be a query parameter or a form field.
fn no_parameter(value: &ValueTemplate) -> Option<&'static str> {
    match value {
        ValueTemplate::Object(_) => Some("an object cannot be a parameter: name its members one by one"),
        ValueTemplate::Array(items)
            if items.iter().any(|i| matches!(i, ValueTemplate::Array(_) | ValueTemplate::Object(_))) =>
        {
            Some("an array of a parameter holds only text, numbers and booleans: it repeats the name")
        }
        _ => None,
    }
}

fn check_target(target: &Template) -> Result<(), TemplateError> {
    let wrong = |offset: usize, message: &str| Err(TemplateError { message: message.to_owned(), offset });
    if let Some(placeholder) = target.whole() {
        return match placeholder.name {
            Name::Id | Name::Saved(_) => Ok(()),
            Name::Arg(_) => {
                wrong(0, "an argument cannot be the whole target: write a path, such as `/jobs/${args.NAME}`")
            }
            _ => wrong(0, "only `${op.id}` and `${op.saved.NAME}` can be the whole target: write a path"),
        };
    }
    match target.parts().first() {
        Some(Part::Text(text)) if text.starts_with('/') => {}
        Some(Part::Text(text)) if text.contains("://") => {
            return wrong(0, "write the path alone: it is appended to the upstream's `base_url`");
        }
        Some(Part::Placeholder(_)) => {
            return wrong(0, "a placeholder is the whole target or stands after a `/`: write `/…`");
        }
        _ => return wrong(0, "a path starts with `/`"),
    }
    match target.source().find('#') {
        Some(at) => wrong(at, "a request has no fragment: leave out what starts with `#`, or write `%23`"),
        None => Ok(()),
    }
}

/// Whether a JSONPath (RFC 9535) can be read.
///
/// # Errors
/// Why not, with the byte offset.
pub fn check_json_path(path: &str) -> Result<(), TemplateError> {
    match JsonPath::parse(path) {
        Ok(_) => Ok(()),
        Err(_) if !path.starts_with('$') => Err(TemplateError {
            message: format!("`{path}` is no JSONPath: it starts with `$`, such as `$.{path}`"),
            offset: 0,
        }),
        Err(error) => {
            let offset = error.position();
            Err(TemplateError { message: format!("`{path}` is no JSONPath: {}", error.message()), offset })
        }
    }
}

/// Whether a JSONPath that may name our key (`find.id`) can be read.
///
/// # Errors
/// Why not, with the byte offset.
pub fn check_id_path(template: &Template) -> Result<(), TemplateError> {
    let path = id_path_of(template, |_| "cm-00000000-0000-4000-8000-000000000000".to_owned())?;
    check_json_path(&path)
        .map_err(|error| TemplateError { offset: error.offset.min(template.source().len()), ..error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::BodyTemplate;

    fn request(target: &str) -> RequestTemplate {
        RequestTemplate {
            method: "GET".into(),
            target: target.parse().unwrap(),
            query: Vec::new(),
            headers: Vec::new(),
            body: BodyTemplate::None,
        }
    }

    fn faults(request: &RequestTemplate) -> String {
        request.check().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_target_is_a_path_or_what_an_upstream_gave_us() {
        for good in
            ["/", "/jobs/${op.id}", "/v1/${op.id:path}:cancel", "/a?b=c", "${op.id}", "${op.saved.url}"]
        {
            assert_eq!(request(good).check(), [], "{good}");
        }
        for (bad, why) in [
            ("jobs", "starts with `/`"),
            ("", "starts with `/`"),
            ("http://h/x", "`base_url`"),
            ("${op.saved.url}/cancel", "the whole target or stands after a `/`"),
            ("${args.url}", "an argument cannot be the whole target"),
            ("${op.key}", "write a path"),
            ("/a#b", "no fragment"),
        ] {
            assert!(faults(&request(bad)).contains(why), "{bad}: {}", faults(&request(bad)));
        }
    }

    #[test]
    fn what_can_never_stand_in_its_place_is_found_before_a_call_is() {
        let mut bad = request("/x");
        bad.method = "get".into();
        bad.query = vec![("q".into(), ValueTemplate::Object(Vec::new()))];
        bad.headers = vec![
            ("Content-Length".into(), HeaderTemplate::Text("1".parse().unwrap())),
            ("X-Line".into(), HeaderTemplate::Text("a\r\nb".parse().unwrap())),
            ("X-Path".into(), HeaderTemplate::Text("id=${op.id:path}".parse().unwrap())),
        ];
        bad.body = BodyTemplate::Form(vec![(
            "f".into(),
            ValueTemplate::Array(vec![ValueTemplate::Array(Vec::new())]),
        )]);
        let faults = bad.check();
        let places: Vec<String> = faults.iter().map(|fault| fault.place.to_string()).collect();
        assert_eq!(
            places,
            [
                "the path",
                "the query parameter `q`",
                "the form field `f`",
                "the header `Content-Length`",
                "the header `X-Line`",
                "the header `X-Path`"
            ]
        );
        assert_eq!(faults.last().map(|fault| fault.error.offset), Some(3));
    }

    #[test]
    fn a_json_path_is_checked_with_the_place_of_its_fault() {
        assert_eq!(check_json_path("$.a[0]"), Ok(()));
        assert!(check_json_path("status").unwrap_err().message.contains("such as `$.status`"));
        assert!(check_json_path("$.a[").is_err());
        assert_eq!(check_id_path(&"$.jobs[?@.key=='${op.key}'].id".parse().unwrap()), Ok(()));
        assert_eq!(check_id_path(&"$.jobs.${op.key}".parse().unwrap()).unwrap_err().offset, 7);
        assert!(check_id_path(&"$.jobs[?@.key=='${op.key}'".parse().unwrap()).is_err());
    }
}
