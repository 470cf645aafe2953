//! Reads a template's text.

use super::{Name, Part, Placeholder, Template, TemplateError};
use std::str::FromStr;

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(source: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut at = 0;
        while let Some(found) = source[at..].find('$') {
            let dollar = at + found;
            text.push_str(&source[at..dollar]);
            let rest = &source[dollar..];
            if rest.starts_with("$${") {
                text.push_str("${");
                at = dollar + 3;
            } else if rest.starts_with("${") {
                let (placeholder, length) = placeholder(rest, dollar)?;
                if !text.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut text)));
                }
                parts.push(Part::Placeholder(placeholder));
                at = dollar + length;
            } else {
                text.push('$');
                at = dollar + 1;
            }
        }
        text.push_str(&source[at..]);
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        Ok(Self { source: source.to_owned(), parts })
    }
}

/// Reads the placeholder that `rest` starts with; how long it is, too.
fn placeholder(rest: &str, offset: usize) -> Result<(Placeholder, usize), TemplateError> {
    let wrong = |message: String| TemplateError { message, offset };
    let inner = &rest[2..];
    let Some(end) = inner.find('}') else {
        return Err(wrong(
            "`${` is never closed: write `}` after the name, or `$${` for a literal `${`".into(),
        ));
    };
    let inner = &inner[..end];
    if inner.contains("${") {
        return Err(wrong(
            "a `${` stands inside another, and placeholders do not nest: close the first with `}`".into(),
        ));
    }
    let (name, keep_slashes) = match inner.rsplit_once(':') {
        None => (inner, false),
        Some((name, "path")) => (name, true),
        Some((name, other)) => {
            return Err(wrong(format!(
                "`:{other}` is no way to fill in `{name}`: there is only `${{{name}:path}}`, which keeps `/`"
            )));
        }
    };
    let name = Name::read(name).map_err(wrong)?;
    if keep_slashes && !matches!(name, Name::Arg(_) | Name::Id | Name::Saved(_)) {
        return Err(wrong(format!("`{name}` has no `/` to keep: write `${{{name}}}`")));
    }
    Ok((Placeholder { name, keep_slashes, offset }, end + 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(source: &str) -> Vec<Part> {
        source.parse::<Template>().unwrap().parts().to_vec()
    }

    fn one(name: Name, keep_slashes: bool, offset: usize) -> Part {
        Part::Placeholder(Placeholder { name, keep_slashes, offset })
    }

    fn error(source: &str) -> TemplateError {
        source.parse::<Template>().unwrap_err()
    }

    #[test]
    fn every_name_is_read_and_written_back() {
        for (source, name) in [
            ("${args.a.b}", Name::Arg(vec!["a".into(), "b".into()])),
            ("${op.id}", Name::Id),
            ("${op.key}", Name::Key),
            ("${op.name}", Name::OwnName),
            ("${op.undo_key}", Name::UndoKey),
            ("${op.lifetime_secs}", Name::LifetimeSecs),
            ("${op.saved.url}", Name::Saved("url".into())),
        ] {
            assert_eq!(format!("${{{name}}}"), source);
            assert_eq!(parts(source), [one(name, false, 0)]);
        }
    }

    #[test]
    fn text_and_placeholders_alternate_with_their_offsets() {
        assert_eq!(
            parts("/jöbs/${op.id:path}x${args.t}"),
            [
                Part::Text("/jöbs/".into()),
                one(Name::Id, true, 7),
                Part::Text("x".into()),
                one(Name::Arg(vec!["t".into()]), false, 21),
            ]
        );
    }

    #[test]
    fn a_doubled_dollar_is_a_literal_and_a_lone_one_is_text() {
        assert_eq!(parts("$${op.id}"), [Part::Text("${op.id}".into())]);
        assert_eq!(parts("$.id costs $5 or $$"), [Part::Text("$.id costs $5 or $$".into())]);
        assert_eq!(parts("a$$${op.key}"), [Part::Text("a$${op.key}".into())]);
        assert_eq!(parts(""), []);
    }

    #[test]
    fn an_unknown_name_is_answered_with_what_was_meant_and_where() {
        for (source, meant) in [
            ("${op.nme}", "`op.name`"),
            ("${op.idd}", "`op.id`"),
            ("${op.lifetime}", "`op.lifetime_secs`"),
            ("${op.undokey}", "`op.undo_key`"),
            ("${arg.tag}", "`args.tag`"),
            ("${input.tag}", "`args.tag`"),
            ("${tag}", "`args.tag`"),
            ("${key}", "`op.key`"),
            ("${job.id}", "`op.id`"),
            ("${op.save.url}", "`op.saved.url`"),
            ("${ op.id }", "`op.id`"),
        ] {
            let error = error(&format!("ab{source}"));
            assert_eq!(error.offset, 2);
            assert!(error.message.contains(&format!("did you mean {meant}?")), "{source}: {error}");
        }
        assert!(error("${REPORTS_TOKEN}").message.contains("{ env: REPORTS_TOKEN }"));
        assert!(error("${zebra.crossing}").message.contains("there are `args.NAME`"));
    }

    #[test]
    fn what_is_cut_short_says_how_to_end_it() {
        assert!(error("x${op.id").message.contains("never closed"));
        assert_eq!(error("x${op.id").offset, 1);
        assert!(error("${args.${op.id}}").message.contains("do not nest"));
        assert!(error("${args}").message.contains("${args.NAME}"));
        assert!(error("${args..b}").message.contains("empty part"));
        assert!(error("${op.saved}").message.contains("${op.saved.NAME}"));
        assert!(error("${op.id:raw}").message.contains("${op.id:path}"));
        assert!(error("${op.key:path}").message.contains("no `/` to keep"));
        assert!(error("${}").message.contains("names nothing"));
    }

    #[test]
    fn a_stored_template_is_its_text() {
        let template: Template = "/a/${op.id}".parse().unwrap();
        let stored = serde_json::to_value(&template).unwrap();
        assert_eq!(stored, "/a/${op.id}");
        assert_eq!(serde_json::from_value::<Template>(stored).unwrap(), template);
        assert!(serde_json::from_str::<Template>("\"${nope\"").is_err());
    }
}
