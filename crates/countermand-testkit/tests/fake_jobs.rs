//! Jobs, rows and orders, and the books that the fake keeps of them.

mod fake_support;

use std::time::Duration;

use countermand_testkit::fake::{Books, FakeUpstream, JobState};
use fake_support::Raw;
use serde_json::json;

#[tokio::test]
async fn a_job_is_created_read_cancelled_and_undone() {
    let fake = FakeUpstream::start().await;
    let mut client = Raw::to(fake.addr()).await;
    let created = client.ask("POST", "/jobs?tag=t", &["Idempotency-Key: k"], "{}").await;
    assert_eq!(created.status, 201);
    assert!(created.head.contains("location: /jobs/job-1\r\n"), "{}", created.head);
    let body = created.json();
    assert_eq!((&body["id"], &body["status"]), (&json!("job-1"), &json!("running")));
    assert_eq!((&body["key"], &body["tag"], &body["percent"]), (&json!("k"), &json!("t"), &json!(0)));
    assert_eq!(fake.rows("t"), 1, "the first row is there from the start");

    assert_eq!(client.ask("GET", "/jobs/job-1", &[], "").await.json()["status"], "running");
    assert_eq!(client.ask("GET", "/jobs/job-1/result", &[], "").await.status, 409);
    assert_eq!(fake.live_jobs().len(), 1);
    assert_eq!(client.ask("DELETE", "/jobs/job-1", &[], "").await.status, 202);
    assert_eq!(client.ask("GET", "/jobs/job-1", &[], "").await.json()["status"], "cancelled");
    assert_eq!(client.ask("DELETE", "/jobs/job-1", &[], "").await.status, 409);
    assert_eq!(client.ask("DELETE", "/jobs/job-9", &[], "").await.status, 404);
    assert_eq!(client.ask("GET", "/jobs/job-0", &[], "").await.status, 404);
    assert_eq!(client.ask("DELETE", "/rows?tag=t", &[], "").await.status, 204);
    assert_eq!(fake.rows("t"), 0);
    assert_eq!(client.ask("PUT", "/jobs/job-1/label", &[], "orphaned").await.status, 204);
    assert!(fake.events().iter().any(|event| event.is("marked") && event.tagged("t")));
}

#[tokio::test]
async fn a_key_creates_one_job_and_one_order() {
    let fake = FakeUpstream::start().await;
    let mut client = Raw::to(fake.addr()).await;
    let key = ["idempotency-key: k"];
    for status in [201, 200, 200] {
        let reply = client.ask("POST", "/jobs?tag=t", &key, "").await;
        assert_eq!((reply.status, reply.json()["id"].as_str()), (status, Some("job-1")));
        let reply = client.ask("POST", "/orders", &key, "").await;
        assert_eq!((reply.status, reply.json()["order"].as_u64()), (status, Some(1)));
    }
    assert_eq!(client.ask("POST", "/jobs", &["idempotency-key: l"], "").await.json()["id"], "job-2");
    assert_eq!(client.ask("POST", "/orders", &[], "").await.json()["order"], 2);
    assert_eq!(fake.books().created, 2);
    let found = client.ask("GET", "/jobs?key=k", &[], "").await.json();
    assert_eq!(found["jobs"].as_array().map(Vec::len), Some(1));
    assert_eq!(found["jobs"][0]["id"], "job-1");
    assert_eq!(client.ask("GET", "/jobs?tag=u", &[], "").await.json(), json!({ "jobs": [] }));
}

#[tokio::test]
async fn the_books_balance() {
    let fake = FakeUpstream::start().await;
    let mut client = Raw::to(fake.addr()).await;
    for body in ["{}", "{}", "{}", "{}", r#"{"secs":0.01}"#, r#"{"secs":0.01,"fail":true}"#] {
        client.ask("POST", "/jobs?tag=t", &[], body).await;
    }
    client.ask("DELETE", "/jobs/job-1", &[], "").await;
    client.ask("POST", "/jobs/job-2/force", &[], "").await;
    assert!(fake.finish("job-3"));
    assert!(!fake.fail("job-3"));
    fake.wait_for("job_done", 2).await;
    fake.wait_for("job_failed", 1).await;
    assert_eq!(fake.books(), Books { created: 6, completed: 2, failed: 1, cancelled: 2, live: 1 });
    let states: Vec<JobState> = fake.jobs().into_iter().map(|job| job.state).collect();
    use JobState::{Cancelled, Done, Failed, Running};
    assert_eq!(states, [Cancelled, Cancelled, Done, Running, Done, Failed]);
    let result = client.ask("GET", "/jobs/job-5/result", &[], "").await.json();
    assert_eq!(result, json!({ "rows": 10, "tag": "t" }), "a job writes its rows as it goes");
}

#[tokio::test]
async fn a_delayed_cancel_shows_cancelling_and_a_forced_one_does_not_wait() {
    let fake = FakeUpstream::start().await;
    fake.set_cancel_delay(Duration::from_secs(3_600));
    let mut client = Raw::to(fake.addr()).await;
    client.ask("POST", "/jobs", &[], "").await;
    assert_eq!(client.ask("DELETE", "/jobs/job-1", &[], "").await.status, 202);
    assert_eq!(client.ask("GET", "/jobs/job-1", &[], "").await.json()["status"], "cancelling");
    assert_eq!(client.ask("DELETE", "/jobs/job-1", &[], "").await.status, 202);
    assert_eq!(fake.books().live, 1);
    assert_eq!(client.ask("POST", "/jobs/job-1/force", &[], "").await.status, 202);
    assert_eq!(fake.books().cancelled, 1);

    fake.set_cancel_delay(Duration::from_millis(1));
    client.ask("POST", "/jobs", &[], "").await;
    client.ask("DELETE", "/jobs/job-2", &[], "").await;
    fake.wait_for("job_cancelled", 2).await;
}

#[tokio::test]
async fn a_queued_job_says_so_until_it_starts() {
    let fake = FakeUpstream::start().await;
    let mut client = Raw::to(fake.addr()).await;
    let body = r#"{"queued_secs":3600,"secs":1}"#;
    assert_eq!(client.ask("POST", "/jobs", &[], body).await.json()["status"], "queued");
    client.ask("DELETE", "/jobs/job-1", &[], "").await;
    assert_eq!(fake.books().cancelled, 1);
}

#[tokio::test]
async fn an_echo_tells_what_was_on_the_wire_and_chunks_are_put_together() {
    let fake = FakeUpstream::start().await;
    let mut client = Raw::to(fake.addr()).await;
    client
        .write(b"PATCH /echo/a%2Fb?q=%20 HTTP/1.1\r\nX-A: 1\r\ntransfer-encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n")
        .await;
    client.write(b"2\r\nde\r\n0\r\nTrailer: t\r\n\r\nGET /quick HTTP/1.1\r\n\r\n").await;
    let echo = client.reply().await.unwrap().json();
    assert_eq!((&echo["method"], &echo["target"]), (&json!("PATCH"), &json!("/echo/a%2Fb?q=%20")));
    assert_eq!(echo["headers"][0], json!(["X-A", "1"]));
    assert_eq!(echo["body"], "abcde");
    assert_eq!(client.reply().await.unwrap().json()["quick"], true, "a pipelined request is answered too");
}

#[tokio::test]
async fn what_is_not_http_is_refused() {
    let fake = FakeUpstream::start().await;
    let mut client = Raw::to(fake.addr()).await;
    client.write(b"hello\r\n\r\n").await;
    assert_eq!(client.reply().await.unwrap().status, 400);
    fake.wait_for("hung_up", 1).await;
}

#[tokio::test]
async fn an_expected_marker_becomes_the_tag_of_what_carries_it() {
    let fake = FakeUpstream::start().await;
    fake.expect("m-17");
    let mut client = Raw::to(fake.addr()).await;
    let created = client.ask("POST", "/jobs", &[], r#"{"note":"from m-17"}"#).await.json();
    assert_eq!(created["tag"], "m-17");
    assert_eq!(fake.rows("m-17"), 1);
}
