//! What arrives at the upstream, and what bounds an exchange with it.

mod support;

use countermand::{
    core::{event::StatusAnswer, ports::Payload},
    definition::{SecretRef, SecretSource, Value as ConfigValue, Work},
    template::{BodyTemplate, HeaderTemplate, Scope, ValueTemplate},
    upstream::HttpFailure,
};
use serde_json::{Map, json};
use std::{pin::pin, time::Duration};
use support::*;

fn scope_of(args: serde_json::Value) -> Scope<'static> {
    let serde_json::Value::Object(args) = args else { panic!("arguments are an object") };
    let mut scope = Scope::of_call(&Map::new()).into_owned();
    scope.args = std::borrow::Cow::Owned(args);
    scope
}

fn secret(source: SecretSource) -> SecretRef {
    SecretRef { source, prefix: Some("Bearer ".into()) }
}

fn file_secret(text: &str) -> (tempfile::NamedTempFile, SecretRef) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    (file, secret(SecretSource::File(path)))
}

#[tokio::test]
async fn every_value_arrives_encoded_for_its_place() {
    let mut fake = Fake::new([json(200, "{}")]).await;
    let mut definition = read_at(&format!("{}/api/", fake.base), "POST /jobs/${args.v}");
    let Work::Http(http) = &mut definition.work else { unreachable!() };
    http.request.query = vec![("q&".into(), template("${args.v}")), ("l".into(), template("${args.l}"))];
    http.request.headers = vec![
        ("X-Tag".into(), HeaderTemplate::Text("v=${args.h}".parse().unwrap())),
        ("X-Gone".into(), HeaderTemplate::Text("${args.gone}".parse().unwrap())),
    ];
    http.request.body = BodyTemplate::Json(ValueTemplate::Object(vec![("v".into(), template("${args.v}"))]));
    let v = "a/b?c=d&e#f\r\nX: y\"}ü";
    upstreams().read(&definition, &scope_of(json!({"v": v, "l": [1, "x y"], "h": "h"}))).await.unwrap();
    let request = fake.request().await;
    let encoded = "a%2Fb%3Fc%3Dd%26e%23f%0D%0AX%3A%20y%22%7D%C3%BC";
    assert_eq!(request.line, format!("POST /api/jobs/{encoded}?q%26={encoded}&l=1&l=x%20y"));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&request.body).unwrap(), json!({"v": v}));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.header("x-tag"), Some("v=h"));
    assert_eq!((request.header("x-gone"), request.header("x")), (None, None));
}

#[tokio::test]
async fn a_form_arrives_as_a_form() {
    let mut fake = Fake::new([answer(200, "", "")]).await;
    let mut definition = read_at(&fake.base, "POST /jobs");
    let Work::Http(http) = &mut definition.work else { unreachable!() };
    http.request.body =
        BodyTemplate::Form(vec![("a".into(), template("${args.a}")), ("b".into(), template("${args.b}"))]);
    upstreams().read(&definition, &scope_of(json!({"a": "1+1=2&"}))).await.unwrap();
    let request = fake.request().await;
    assert_eq!(request.body, "a=1%2B1%3D2%26");
    assert_eq!(request.header("content-type"), Some("application/x-www-form-urlencoded"));
}

#[tokio::test]
async fn a_request_s_header_replaces_the_upstream_s() {
    let mut fake = Fake::new([answer(200, "", "")]).await;
    let (_file, secret) = file_secret("t0ken-value\n");
    let mut definition = read_at(&fake.base, "GET /x");
    http(&mut definition).headers = vec![
        ("Authorization".into(), ConfigValue::Secret(secret)),
        ("X-Both".into(), ConfigValue::Text("upstream".into())),
    ];
    let Work::Http(http) = &mut definition.work else { unreachable!() };
    http.request.headers = vec![("x-both".into(), HeaderTemplate::Text("request".parse().unwrap()))];
    upstreams().read(&definition, &scope_of(json!({}))).await.unwrap();
    let request = fake.request().await;
    assert_eq!(request.header("authorization"), Some("Bearer t0ken-value"));
    assert_eq!(request.headers.iter().filter(|(n, _)| n == "x-both").count(), 1);
    assert_eq!(request.header("x-both"), Some("request"));
}

#[tokio::test]
async fn a_redirect_is_followed_within_the_origin_and_not_beyond() {
    let mut elsewhere = Fake::new([answer(200, "", "")]).await;
    let mut fake = Fake::new([
        answer(302, "location: /b\r\n", ""),
        answer(200, "content-type: text/plain\r\n", "here"),
        answer(302, &format!("location: {}/steal?x=1\r\n", elsewhere.base), ""),
    ])
    .await;
    let definition = read_at(&fake.base, "GET /a");
    let upstreams = upstreams();
    let here = Payload::Text { media_type: "text/plain".into(), text: "here".into() };
    assert_eq!(upstreams.read(&definition, &scope_of(json!({}))).await.unwrap(), here);
    let lines: Vec<_> = fake.requests().into_iter().map(|r| r.line).collect();
    assert_eq!(lines, ["GET /a", "GET /b"]);
    let refused = upstreams.read(&definition, &scope_of(json!({}))).await.unwrap_err().to_string();
    assert!(
        refused.contains(&format!("it redirects to {}/steal, which is not followed", elsewhere.base)),
        "{refused}"
    );
    assert_eq!(elsewhere.requests(), []);
}

#[tokio::test]
async fn a_redirect_is_never_followed_for_what_may_change_something_and_at_most_five_times() {
    let mut fake = Fake::new((0..20).map(|_| answer(307, "location: /b\r\n", ""))).await;
    let upstreams = upstreams();
    upstreams.read(&read_at(&fake.base, "POST /a"), &scope_of(json!({}))).await.unwrap_err();
    assert_eq!(fake.requests().len(), 1);
    upstreams.read(&read_at(&fake.base, "GET /a"), &scope_of(json!({}))).await.unwrap_err();
    assert_eq!(fake.requests().len(), 6);
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_an_error_that_names_it() {
    let chunked =
        "HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n6\r\n123456\r\n6\r\n123456\r\n0\r\n\r\n";
    let fake = Fake::new([
        answer(200, "", "12345678901"),
        Answer::Bytes(chunked.into()),
        answer(200, "", "1234567890"),
    ])
    .await;
    let mut definition = read_at(&fake.base, "GET /big");
    http(&mut definition).limits.max_bytes = 10;
    let upstreams = upstreams();
    for _ in 0..2 {
        let error = upstreams.read(&definition, &scope_of(json!({}))).await.unwrap_err();
        assert!(matches!(error, HttpFailure::TooLarge(..)));
        assert_eq!(
            error.to_string(),
            "fake: GET /big: the answer (200 OK) is larger than 10 bytes: raise `max_bytes` or ask for less"
        );
    }
    assert_eq!(upstreams.read(&definition, &scope_of(json!({}))).await, Ok(Payload::Json(json!(1234567890))));
}

#[tokio::test]
async fn a_dropped_read_closes_its_connection() {
    for hold in ["", "HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\nhalf"] {
        let mut fake = Fake::new([Answer::Hold(hold.into())]).await;
        let (definition, upstreams, scope) =
            (read_at(&fake.base, "GET /slow"), upstreams(), scope_of(json!({})));
        {
            let mut read = pin!(upstreams.read(&definition, &scope));
            tokio::select! {
                _ = &mut read => panic!("it was answered"),
                request = fake.request() => assert_eq!(request.line, "GET /slow"),
            }
        }
        assert_eq!(fake.next().await, Seen::PeerClosed);
    }
}

#[tokio::test]
async fn a_silent_upstream_is_lost_and_the_limit_is_named() {
    let mut fake = Fake::new([Answer::Hold(String::new())]).await;
    let mut definition = read_at(&fake.base, "GET /slow");
    http(&mut definition).limits.read_timeout = Duration::from_millis(50);
    let error = upstreams().read(&definition, &scope_of(json!({}))).await.unwrap_err();
    assert!(matches!(&error, HttpFailure::Lost(t) if t.message.contains("`read_timeout`")), "{error}");
    fake.request().await;
    assert_eq!(fake.next().await, Seen::PeerClosed);
}

#[tokio::test]
async fn no_more_requests_are_in_flight_than_the_limit_and_a_cancel_does_not_wait() {
    let mut fake = Fake::new([Answer::Hold(String::new()), answer(202, "", "")]).await;
    let mut definition = job_at(&fake);
    http(&mut definition).limits.concurrency = 1;
    let upstreams = upstreams();
    let mut read = read_at(&fake.base, "GET /slow");
    read.upstream = definition.upstream.clone();
    let scope = scope_of(json!({}));
    let mut first = Box::pin(upstreams.read(&read, &scope));
    tokio::select! {
        _ = &mut first => panic!("it was answered"),
        _ = fake.request() => {}
    }
    let performer = upstreams.for_definition(&definition).unwrap();
    let mut waiting = performer.admit();
    let waits =
        std::future::poll_fn(|cx| std::task::Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await;
    assert!(waits);
    performer.cancel(&plain_row(&definition), false).await;
    assert_eq!(fake.request().await.line, "DELETE /jobs/j%2F1");
    drop(first);
    waiting.await;
}

#[tokio::test]
async fn a_refused_secret_is_read_anew_once_and_the_request_repeated() {
    let counter = tempfile::NamedTempFile::new().unwrap();
    let counter = counter.path().to_str().unwrap();
    let script = format!("echo x >> {counter}; printf token-%d $(wc -l < {counter})");
    let argv = ["sh", "-c", &script].map(str::to_owned).to_vec();
    let mut fake = Fake::new([
        answer(401, "", ""),
        json(200, r#"{"state": "done"}"#),
        answer(401, "", ""),
        answer(401, "", ""),
    ])
    .await;
    let mut definition = job_at(&fake);
    let exec = secret(SecretSource::Exec { argv, ttl: Duration::from_secs(300) });
    http(&mut definition).headers = vec![("Authorization".into(), ConfigValue::Secret(exec))];
    let performer = performer(&definition);
    let read = performer.status(&plain_row(&definition)).await;
    assert!(matches!(read.answer, StatusAnswer::Ended { .. }));
    let tokens = |requests: Vec<Request>| -> Vec<String> {
        requests.iter().map(|r| r.header("authorization").unwrap().to_owned()).collect()
    };
    assert_eq!(tokens(fake.requests()), ["Bearer token-1", "Bearer token-2"]);
    let StatusAnswer::Failed(trouble) = performer.status(&plain_row(&definition)).await.answer else {
        panic!("it did not fail")
    };
    assert!(trouble.unauthorised);
    assert_eq!(tokens(fake.requests()), ["Bearer token-2", "Bearer token-3"]);
}

#[tokio::test]
async fn no_error_shows_a_secret_a_query_or_an_argument() {
    let (_file, secret) = file_secret("s3cr3t-token");
    let echo = "you sent Bearer s3cr3t-token";
    let fake =
        Fake::new([answer(403, "", echo), answer(500, "", echo), json(200, r#"{"v": "s3cr3t-token"#)]).await;
    let mut definition = read_at(&fake.base, "GET /search/${args.v}");
    http(&mut definition).headers = vec![("Authorization".into(), ConfigValue::Secret(secret.clone()))];
    let Work::Http(http) = &mut definition.work else { unreachable!() };
    http.request.query = vec![("q".into(), template("${args.v}"))];
    let upstreams = upstreams();
    for _ in 0..4 {
        let error = upstreams.read(&definition, &scope_of(json!({"v": "private"}))).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(!text.contains("s3cr3t") && !text.contains("private"), "{text}");
        assert!(text.contains("GET /search/${args.v}"), "{text}");
        if let HttpFailure::Status(_, trouble) = &error
            && trouble.unauthorised
        {
            assert!(
                text.contains(&format!("you sent Bearer [secret]; check what it accepts against {secret}")),
                "{text}"
            );
        }
    }
}

#[tokio::test]
async fn a_secret_that_is_not_there_is_named_and_nothing_is_sent() {
    let mut fake = Fake::new([]).await;
    let mut definition = read_at(&fake.base, "GET /x");
    let missing = secret(SecretSource::Env("COUNTERMAND_NO_SUCH".into()));
    http(&mut definition).headers = vec![("Authorization".into(), ConfigValue::Secret(missing))];
    let error = upstreams().read(&definition, &scope_of(json!({}))).await.unwrap_err();
    assert!(matches!(error, HttpFailure::NotSent(_)));
    assert!(error.to_string().contains("{ env: COUNTERMAND_NO_SUCH }"), "{error}");
    assert_eq!(fake.requests(), []);
}

#[tokio::test]
async fn a_definition_that_cannot_work_is_refused_with_the_upstream_s_name() {
    for (base, why) in [
        ("ftp://h", "starts with `http://`"),
        ("http://u:p@h", "holds credentials"),
        ("http://h/?a=b", "no query"),
        ("nonsense", "is no URL"),
    ] {
        let error = upstreams().for_definition(&read_at(base, "GET /x")).err().unwrap().to_string();
        assert!(error.contains("`fake`") && error.contains(why), "{error}");
    }
}
