//! Arguments are data: whatever a value is, it stays in the place that its placeholder stands in.

mod template_common;

use countermand::template::{BodyTemplate, HeaderTemplate, RenderedBody, RenderedHeader, ValueTemplate};
use proptest::prelude::*;
use serde_json::{Value, json};
use template_common::{render, request, text, with_id};
use url::Url;

fn segments(url: &Url) -> Vec<String> {
    let decode = |s: &str| percent_encoding::percent_decode_str(s).decode_utf8().unwrap().into_owned();
    url.path_segments().unwrap().map(decode).collect()
}

/// Text that tries to get out: separators, dots, escapes, line breaks, quotes, and anything else.
fn nasty() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "/",
            "..",
            ".",
            "%2e",
            "%2F",
            "%",
            "?",
            "#",
            "&",
            "=",
            "+",
            ";",
            "\\",
            "\r\n",
            "\0",
            "\"",
            "'",
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "//",
            "@",
            " ",
            "\t",
            "ü",
            "日本",
            "${op.key}",
            "$${",
            "a",
            "0",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        nasty().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(nasty(), inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_value_leaves_its_path_segment(value in nasty()) {
        let Ok(rendered) = render(&request("/jobs/${args.v}/result"), &json!({"v": value})) else { return Ok(()) };
        prop_assert_eq!(segments(&rendered.url), ["api", "jobs", &value, "result"]);
        prop_assert_eq!((rendered.url.query(), rendered.url.fragment()), (None, None));
    }

    #[test]
    fn a_part_of_a_segment_stays_a_part_of_it(value in nasty()) {
        let Ok(rendered) = render(&request("/a.${args.v}.b"), &json!({"v": value})) else { return Ok(()) };
        prop_assert_eq!(segments(&rendered.url), ["api".to_owned(), format!("a.{value}.b")]);
    }

    #[test]
    fn a_path_value_keeps_its_slashes_and_never_climbs(value in nasty()) {
        let Ok(rendered) = with_id(&request("/v1/${op.id:path}:cancel"), &value) else { return Ok(()) };
        let mut expected = vec!["api".to_owned(), "v1".to_owned()];
        expected.extend(format!("{value}:cancel").split('/').map(str::to_owned));
        prop_assert_eq!(segments(&rendered.url), expected);
        prop_assert!(value.split('/').all(|s| !matches!(s, "" | "." | "..")));
    }

    #[test]
    fn a_whole_target_never_leaves_the_origin(value in nasty(), start in prop::sample::select(vec!["", "/", "//", "http://", "http://127.0.0.1:9100", "http:"])) {
        let Ok(rendered) = with_id(&request("${op.id}"), &format!("{start}{value}")) else { return Ok(()) };
        prop_assert_eq!(rendered.url.origin().ascii_serialization(), "http://127.0.0.1:9100");
        prop_assert_eq!(rendered.url.username(), "");
    }

    #[test]
    fn no_value_adds_a_query_parameter(whole in nasty(), mixed in nasty(), listed in prop::collection::vec(nasty(), 0..4)) {
        let mut request = request("/jobs");
        request.query = vec![
            ("whole".into(), text("${args.whole}")),
            ("mi xed&".into(), text("<${args.mixed}>")),
            ("list".into(), text("${args.list}")),
        ];
        let rendered = render(&request, &json!({"whole": whole, "mixed": mixed, "list": listed})).unwrap();
        let mut expected = vec![("whole".to_owned(), whole), ("mi xed&".to_owned(), format!("<{mixed}>"))];
        expected.extend(listed.into_iter().map(|v| ("list".to_owned(), v)));
        let pairs: Vec<_> = rendered.url.query_pairs().into_owned().collect();
        prop_assert_eq!(pairs, expected);
        prop_assert_eq!(rendered.url.path(), "/api/jobs");
    }

    #[test]
    fn no_value_adds_a_form_field(value in nasty()) {
        let mut request = request("/jobs");
        request.body = BodyTemplate::Form(vec![("a".into(), text("${args.v}")), ("b".into(), text("x"))]);
        let RenderedBody::Form(form) = render(&request, &json!({"v": value})).unwrap().body else { panic!("no form") };
        let pairs: Vec<_> = url::form_urlencoded::parse(form.as_bytes()).into_owned().collect();
        prop_assert_eq!(pairs, [("a".to_owned(), value), ("b".to_owned(), "x".to_owned())]);
    }

    #[test]
    fn no_value_adds_a_header(value in nasty()) {
        let mut request = request("/jobs");
        request.headers = vec![("X-Tag".into(), HeaderTemplate::Text("t=${args.v}".parse().unwrap()))];
        match render(&request, &json!({"v": value})) {
            Ok(rendered) => {
                let [(name, RenderedHeader::Value(header))] = rendered.headers.as_slice() else { panic!("not one header") };
                prop_assert_eq!(name.as_str(), "x-tag");
                prop_assert_eq!(header.to_str().unwrap(), format!("t={value}"));
                prop_assert!(!value.contains(['\r', '\n', '\0']));
            }
            Err(_) => prop_assert!(value.chars().any(|c| !c.is_ascii() || c.is_ascii_control())),
        }
    }

    #[test]
    fn no_value_changes_the_structure_of_json(value in any_json(), piece in nasty()) {
        let mut request = request("/jobs");
        request.body = BodyTemplate::Json(ValueTemplate::Object(vec![
            ("whole".into(), text("${args.v}")),
            ("mixed".into(), text("<${args.p}>")),
            ("list".into(), ValueTemplate::Array(vec![text("${args.v}"), text("${args.gone}"), ValueTemplate::Plain(json!(1))])),
            ("gone".into(), text("${args.gone}")),
        ]));
        let body = render(&request, &json!({"v": value, "p": piece})).unwrap().body;
        let expected = json!({"whole": value, "mixed": format!("<{piece}>"), "list": [value, 1]});
        prop_assert_eq!(body, RenderedBody::Json(expected));
    }

    #[test]
    fn no_error_shows_a_value(tail in "[a-z]{12}") {
        let value = format!("\r\n{tail}/../{tail}");
        let mut request = request("/x/${args.v:path}");
        request.headers = vec![("X-Tag".into(), HeaderTemplate::Text("${args.v}".parse().unwrap()))];
        let error = render(&request, &json!({"v": value})).unwrap_err();
        prop_assert!(!error.to_string().contains(&tail));
    }
}
