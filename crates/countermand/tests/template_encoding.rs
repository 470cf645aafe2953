//! How values are written into a request, and which are refused.

mod template_common;

use countermand::template::{
    BodyTemplate, HeaderTemplate, RenderedBody, Scope, ValueTemplate, render_id_path,
};
use countermand_core::Key;
use serde_json::{Map, Value, json};
use template_common::{render, request, text, with_id};

#[test]
fn what_a_path_cannot_hold_is_refused_with_its_name_and_place() {
    for (target, args, why) in [
        ("/jobs/${args.v}", json!({"v": ".."}), "cannot be `.` or `..`"),
        ("/jobs/${args.v}", json!({"v": "%2e%2E"}), "cannot be `.` or `..`"),
        ("/jobs/.${args.v}/x", json!({"v": "."}), "cannot be `.` or `..`"),
        ("/jobs/${args.v}", json!({"v": ""}), "cannot be empty"),
        ("/jobs/${args.v}", json!({"v": [1]}), "an array cannot stand in a path"),
        ("/jobs/${args.v}", json!({"v": {}}), "an object cannot stand in a path"),
        ("/jobs/${args.v}", json!({"v": null}), "not given"),
        ("/jobs/${args.v}", json!({}), "not given"),
        ("/jobs/${args.v:path}", json!({"v": "a/../b"}), "empty, `.` or `..`"),
        ("/jobs/${args.v:path}", json!({"v": "a/%2e%2e/b"}), "empty, `.` or `..`"),
        ("/jobs/${args.v:path}", json!({"v": "a%2F..%2Fb"}), "empty, `.` or `..`"),
        ("/jobs/${args.v:path}", json!({"v": "a//b"}), "empty, `.` or `..`"),
        ("${args.v}", json!({"v": "/x"}), "an argument cannot be a whole target"),
    ] {
        let error = render(&request(target), &args).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("`${args.v}` in the path"), "{target} {args}: {error}");
    }
}

#[test]
fn numbers_and_booleans_are_text_and_the_rest_is_percent_encoded() {
    let url = |v: Value| render(&request("/j/${args.v}"), &json!({"v": v})).unwrap().url.path().to_owned();
    assert_eq!(url(json!(7)), "/api/j/7");
    assert_eq!(url(json!(true)), "/api/j/true");
    assert_eq!(url(json!("a/b%c")), "/api/j/a%2Fb%25c");
    assert_eq!(url(json!("ü ?")), "/api/j/%C3%BC%20%3F");
    assert_eq!(
        render(&request("/a%20b/c:run?x=1"), &json!({})).unwrap().url.as_str(),
        "http://127.0.0.1:9100/api/a%20b/c:run?x=1"
    );
}

#[test]
fn a_whole_target_is_a_url_or_an_absolute_path_of_the_same_origin() {
    let url = |id: &str| with_id(&request("${op.id}"), id).map(|r| r.url.to_string());
    assert_eq!(
        url("http://127.0.0.1:9100/v1/next?token=a%20b").unwrap(),
        "http://127.0.0.1:9100/v1/next?token=a%20b"
    );
    assert_eq!(url("/v1/jobs/7").unwrap(), "http://127.0.0.1:9100/v1/jobs/7");
    for elsewhere in [
        "http://127.0.0.1:9101/",
        "https://127.0.0.1:9100/",
        "http://evil/",
        "//evil/x",
        "/\\evil/x",
        "http://u:p@127.0.0.1:9100/",
    ] {
        assert!(
            url(elsewhere).unwrap_err().to_string().contains("leaves the upstream's origin"),
            "{elsewhere}"
        );
    }
    for no_target in ["jobs/7", "", "javascript"] {
        assert!(url(no_target).unwrap_err().to_string().contains("neither a URL nor a path"), "{no_target}");
    }
    let mut next = request("${op.id}");
    next.query = vec![("more".into(), text("1"))];
    assert_eq!(with_id(&next, "/v1?a=b").unwrap().url.query(), Some("a=b&more=1"));
}

#[test]
fn an_absent_or_null_argument_drops_its_parameter_and_its_header() {
    let mut request = request("/jobs");
    request.query = vec![
        ("a".into(), text("${args.a}")),
        ("b".into(), text("x-${args.a}")),
        ("n".into(), text("${args.n}")),
        (
            "l".into(),
            ValueTemplate::Array(vec![text("${args.a}"), text("${args.t}"), ValueTemplate::Plain(json!(2))]),
        ),
        ("t".into(), text("${args.t}")),
    ];
    request.headers = vec![("X-A".into(), HeaderTemplate::Text("${args.a}".parse().unwrap()))];
    let rendered = render(&request, &json!({"t": false, "n": null})).unwrap();
    assert_eq!(rendered.url.query(), Some("l=false&l=2&t=false"));
    assert_eq!(rendered.headers, []);
}

#[test]
fn objects_and_nested_arrays_are_no_parameters() {
    let mut request = request("/jobs");
    request.query = vec![("q".into(), text("${args.q}"))];
    for value in [json!({"a": 1}), json!([[1]]), json!([{"a": 1}])] {
        let error = render(&request, &json!({"q": value})).unwrap_err().to_string();
        assert!(error.contains("`${args.q}` in the query parameter `q`"), "{error}");
    }
}

#[test]
fn json_keeps_types_and_embedded_values_become_text() {
    let mut request = request("/jobs");
    request.body = BodyTemplate::Json(ValueTemplate::Object(vec![
        ("n".into(), text("${args.n}")),
        ("null".into(), text("${args.null}")),
        ("s".into(), text("n=${args.n} o=${args.o}")),
        ("deep".into(), text("${args.o.b.c}")),
    ]));
    let body = render(&request, &json!({"n": 1.5, "null": null, "o": {"b": {"c": [1]}}})).unwrap().body;
    assert_eq!(
        body,
        RenderedBody::Json(json!({"n": 1.5, "null": null, "s": "n=1.5 o={\"b\":{\"c\":[1]}}", "deep": [1]}))
    );
}

#[test]
fn what_an_operation_does_not_know_is_an_error_and_not_dropped() {
    let mut request = request("/jobs");
    request.query = vec![("id".into(), text("${op.id}"))];
    assert!(render(&request, &json!({})).unwrap_err().to_string().contains("the upstream's id is not known"));
}

#[test]
fn a_json_path_names_the_key_only_inside_a_string_of_a_filter() {
    let args = Map::new();
    let mut scope = Scope::of_call(&args);
    scope.key = Some(Key::from_random([7; 16]));
    let path = |template: &str| render_id_path(&template.parse().unwrap(), &scope);
    let key = Key::from_random([7; 16]);
    assert_eq!(path("$.jobs[?@.key=='${op.key}'].id").unwrap(), format!("$.jobs[?@.key=='{key}'].id"));
    assert_eq!(
        path("$.jobs[?(@.name==\"${op.name}\")].id").unwrap(),
        format!("$.jobs[?(@.name==\"cm-{key}\")].id")
    );
    assert_eq!(path("$.jobs[0].id").unwrap(), "$.jobs[0].id");
    for elsewhere in [
        "$.${op.key}",
        "$['${op.key}']",
        "$[?@.a==${op.key}]",
        "$[?@.a=='x'].${op.key}",
        "$[?@.a=='${args.x}']",
        "$[?@.a=='${op.id}']",
    ] {
        assert!(path(elsewhere).is_err(), "{elsewhere}");
    }
}
