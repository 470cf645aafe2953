//! What a status read, and the read of a result, say.

mod support;

use countermand::{
    core::{
        event::{End, StatusAnswer},
        ports::{Payload, Read},
    },
    definition::{JobDefinition, ResultDefinition, StateClass, StateSource, States, Work},
};
use serde_json::{Map, json};
use std::time::Duration;
use support::*;

async fn read(script: Answer, job: JobDefinition) -> Read {
    let fake = Fake::new([script]).await;
    let definition = definition(upstream(&fake.base), Work::Job(Box::new(job)));
    performer(&definition).status(&plain_row(&definition)).await
}

fn word(answer: &StatusAnswer) -> String {
    match answer {
        StatusAnswer::Running { state, listed, .. } => format!("running {state} {listed}"),
        StatusAnswer::Ended { end, .. } => format!("ended {}", end.outcome()),
        StatusAnswer::Missing => "missing".into(),
        StatusAnswer::Failed(trouble) if trouble.unauthorised => "failed, unauthorised".into(),
        StatusAnswer::Failed(_) => "failed".into(),
    }
}

async fn word_of(script: Answer, job: JobDefinition) -> String {
    word(&read(script, job).await.answer)
}

#[tokio::test]
async fn every_state_has_the_meaning_that_is_configured() {
    for (body, expected) in [
        (r#"{"state": "running"}"#, "running running true"),
        (r#"{"state": 1}"#, "running 1 true"),
        (r#"{"state": null, "status": "done"}"#, "ended completed"),
        (r#"{"status": "failed"}"#, "ended failed"),
        (r#"{"state": "cancelled"}"#, "ended cancelled"),
        (r#"{"state": true}"#, "ended cancelled"),
        (r#"{"state": "Done"}"#, "running Done false"),
        (r#"{"state": "pausing\nnow"}"#, "running pausing now false"),
        (r#"{}"#, "running no state false"),
        (r#"[]"#, "running no state false"),
        (r#"<html>"#, "failed"),
        ("", "failed"),
    ] {
        assert_eq!(word_of(json(200, body), job()).await, expected, "{body}");
    }
}

#[tokio::test]
async fn a_status_that_is_no_2xx_says_nothing_of_the_job_but_that_it_is_missing() {
    for (code, expected) in [
        (404, "missing"),
        (410, "missing"),
        (401, "failed, unauthorised"),
        (403, "failed, unauthorised"),
        (400, "failed"),
        (429, "failed"),
        (500, "failed"),
        (302, "failed"),
    ] {
        assert_eq!(word_of(json(code, r#"{"state": "done"}"#), job()).await, expected, "{code}");
    }
}

#[tokio::test]
async fn a_catch_all_takes_what_is_not_listed_and_absent_says_what_no_value_means() {
    let mut job = job();
    job.status.states.failed = vec!["*".into()];
    assert_eq!(word_of(json(200, r#"{"state": "odd"}"#), job.clone()).await, "ended failed");
    assert_eq!(word_of(json(200, r#"{"state": "running"}"#), job.clone()).await, "running running true");
    // No value is no value of the catch-all: nothing has ended because a field was missing.
    assert_eq!(word_of(json(200, r#"{}"#), job.clone()).await, "running no state false");
    job.status.absent = Some(StateClass::Running);
    assert_eq!(word_of(json(200, r#"{}"#), job).await, "running no state true");
}

#[tokio::test]
async fn the_http_status_can_be_the_state() {
    let by_status = || {
        let mut job = job();
        job.status.state = StateSource::HttpStatus;
        job.status.states = States {
            running: vec!["202".into()],
            succeeded: vec!["200".into(), "303".into()],
            failed: vec!["422".into()],
            cancelled: vec!["410".into()],
        };
        job
    };
    assert_eq!(word_of(answer(202, "", ""), by_status()).await, "running 202 true");
    assert_eq!(word_of(answer(200, "", "not json"), by_status()).await, "ended completed");
    assert_eq!(
        word_of(answer(303, "location: /jobs/1/result\r\n", ""), by_status()).await,
        "ended completed"
    );
    assert_eq!(word_of(answer(410, "", ""), by_status()).await, "ended cancelled");
    assert_eq!(word_of(answer(404, "", ""), by_status()).await, "missing");
    assert_eq!(word_of(answer(503, "", ""), by_status()).await, "failed");
    assert_eq!(word_of(answer(204, "", ""), by_status()).await, "running 204 false");
    let failed = read(json(422, r#"{"message": "bad sql"}"#), by_status()).await;
    assert_eq!(
        failed.answer,
        StatusAnswer::Ended {
            end: End::Failed,
            error: Some("bad sql".into()),
            saved: serde_json::Map::new()
        }
    );
    let mut catch_all = by_status();
    catch_all.status.states.failed = vec!["*".into()];
    assert_eq!(word_of(answer(503, "", ""), catch_all).await, "failed");
}

#[tokio::test]
async fn what_a_read_carries_comes_with_it() {
    let body = r#"{"state": "running", "percent": "42.5", "next": "/jobs/1?page=2"}"#;
    let running = read(answer(200, "retry-after: 7\r\n", body), job()).await;
    let saved = [("next".to_owned(), json!("/jobs/1?page=2"))].into_iter().collect::<Map<_, _>>();
    assert_eq!(
        running,
        Read {
            answer: StatusAnswer::Running {
                state: "running".into(),
                listed: true,
                retry_after: Some(Duration::from_secs(7)),
                saved
            },
            progress: Some(42.5),
            payload: None,
        }
    );
    let done = read(json(200, r#"{"state": "done", "rows": [1]}"#), job()).await;
    assert_eq!(done.payload, Some(Payload::Json(json!({"state": "done", "rows": [1]}))));
    let failed = read(json(200, r#"{"state": "failed", "message": {"code": 3}}"#), job()).await;
    assert_eq!(
        failed.answer,
        StatusAnswer::Ended {
            end: End::Failed,
            error: Some(r#"{"code":3}"#.into()),
            saved: serde_json::Map::new()
        }
    );
}

async fn result(script: Answer, value: Option<&str>) -> Result<Payload, String> {
    let fake = Fake::new([script]).await;
    let mut job = job();
    job.result = value
        .map(|value| ResultDefinition { request: request("GET /jobs/${op.id}/result"), value: value.into() });
    let definition = definition(upstream(&fake.base), Work::Job(Box::new(job)));
    performer(&definition).result(&plain_row(&definition)).await.map_err(|trouble| trouble.message)
}

#[tokio::test]
async fn a_result_is_json_text_or_bytes() {
    let typed = |kind: &str, body: &str| answer(200, &format!("content-type: {kind}\r\n"), body);
    let json_of = |value| Ok(Payload::Json(value));
    assert_eq!(result(json(200, r#"{"rows": [1]}"#), Some("$.rows")).await, json_of(json!([1])));
    assert_eq!(
        result(typed("application/problem+json; charset=utf-8", "1"), Some("$")).await,
        json_of(json!(1))
    );
    assert_eq!(result(answer(200, "", "{}"), Some("$")).await, json_of(json!({})));
    assert_eq!(result(json(200, r#"{"state": "done"}"#), None).await, json_of(json!({"state": "done"})));
    assert_eq!(
        result(typed("text/csv; charset=utf-8", "a,b"), Some("$")).await,
        Ok(Payload::Text { media_type: "text/csv".into(), text: "a,b".into() })
    );
    assert_eq!(
        result(typed("image/png", "png"), Some("$")).await,
        Ok(Payload::Bytes { media_type: "image/png".into(), bytes: b"png".to_vec() })
    );
}

#[tokio::test]
async fn a_result_that_is_not_there_says_so() {
    let missing = result(json(200, "{}"), Some("$.rows")).await.unwrap_err();
    assert_eq!(missing, "fake: GET /jobs/j%2F1/result: the answer has nothing at `value: $.rows`");
    let html =
        result(answer(200, "content-type: text/html\r\n", "<p>\nhi"), Some("$.rows")).await.unwrap_err();
    assert!(html.contains("is not JSON") && html.contains("it starts with `<p> hi`"), "{html}");
    let gone =
        result(json(500, r#"{"error": {"message": "over\u001b[0m load"}}"#), Some("$")).await.unwrap_err();
    assert_eq!(gone, "fake: GET /jobs/j%2F1/result: it answered 500 Internal Server Error: over [0m load");
}
