//! Each fault does what it says, as often as it was asked to, and the record tells the truth about it.

mod fake_support;

use countermand_testkit::fake::{FakeUpstream, Fault, Filter, Gate, Route};
use fake_support::Raw;
use serde_json::json;

async fn status(client: &mut Raw, job: &str) -> String {
    let body = client.ask("GET", &format!("/jobs/{job}"), &[], "").await.json();
    body["status"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn faults_count_down_and_come_in_order() {
    let fake = FakeUpstream::start().await;
    fake.fault(Route::Quick, Fault::Status(503, Some(7)), Some(2));
    fake.fault(Route::Quick, Fault::Status(429, None), Some(1));
    let mut client = Raw::to(fake.addr()).await;
    let first = client.ask("GET", "/quick", &[], "").await;
    assert!(first.status == 503 && first.head.contains("retry-after: 7\r\n"), "{}", first.head);
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(client.ask("GET", "/quick", &[], "").await.status);
    }
    assert_eq!(statuses, [503, 429, 200]);
    fake.fault(Route::Quick, Fault::Status(500, None), None);
    for _ in 0..3 {
        assert_eq!(client.ask("GET", "/quick", &[], "").await.status, 500);
    }
    fake.clear_faults();
    assert_eq!(client.ask("GET", "/quick", &[], "").await.status, 200);
    assert_eq!(fake.events().iter().filter(|event| event.is("fault_applied")).count(), 6);
}

#[tokio::test]
async fn a_fault_for_one_tag_leaves_others_alone() {
    let fake = FakeUpstream::start().await;
    let filter = Filter { route: Some(Route::CreateJob), tag: Some("a".into()), marker: None };
    fake.fault_for(filter, Fault::Status(500, None), None);
    let mut client = Raw::to(fake.addr()).await;
    assert_eq!(client.ask("POST", "/jobs?tag=b", &[], "").await.status, 201);
    assert_eq!(client.ask("POST", "/jobs?tag=a", &[], "").await.status, 500);
}

#[tokio::test]
async fn a_reset_after_commit_commits_and_one_before_does_not() {
    let fake = FakeUpstream::start().await;
    fake.fault(Route::CreateJob, Fault::ResetBeforeCommit, Some(1));
    fake.fault(Route::CreateJob, Fault::ResetAfterCommit, Some(1));
    for created in [0, 1] {
        let mut client = Raw::to(fake.addr()).await;
        client.send("POST", "/jobs", &["idempotency-key: k"], "").await;
        let error = client.reply().await.err().expect("no answer").kind();
        assert_eq!(error, std::io::ErrorKind::ConnectionReset);
        assert_eq!(fake.books().created, created);
    }
    fake.wait_for("hung_up", 2).await;
    let mut client = Raw::to(fake.addr()).await;
    let found = client.ask("GET", "/jobs?key=k", &[], "").await.json();
    assert_eq!(found["jobs"][0]["id"], "job-1");
}

#[tokio::test]
async fn an_error_after_commit_is_an_error_and_commits() {
    let fake = FakeUpstream::start().await;
    fake.fault(Route::CreateJob, Fault::StatusAfterCommit(502), Some(1));
    let mut client = Raw::to(fake.addr()).await;
    assert_eq!(client.ask("POST", "/jobs", &[], "").await.status, 502);
    assert_eq!(fake.books().live, 1);
}

#[tokio::test]
async fn a_hang_answers_nothing_before_or_after_its_commit() {
    let fake = FakeUpstream::start().await;
    fake.fault(Route::CreateJob, Fault::HangBeforeCommit, Some(1));
    fake.fault(Route::CreateJob, Fault::HangAfterCommit, Some(1));
    for (n, created) in [(1, 0), (2, 1)] {
        let mut client = Raw::to(fake.addr()).await;
        client.send("POST", "/jobs", &[], "").await;
        fake.wait_for("fault_applied", n).await;
        client.leave();
        fake.wait_for("closed_early", n).await;
        assert_eq!(fake.books().created, created);
    }
    assert!(!fake.events().iter().any(|event| event.is("responded")));
}

#[tokio::test]
async fn a_late_create_commits_on_release_after_the_close() {
    let fake = FakeUpstream::start().await;
    fake.fault(Route::CreateJob, Fault::LateCreate, Some(1));
    let held = fake.hold(Gate::Body, Filter { route: Some(Route::CreateJob), ..Filter::default() });
    let mut client = Raw::to(fake.addr()).await;
    client.send("POST", "/jobs?tag=t", &["idempotency-key: k"], "").await;
    held.reached().await;
    client.leave();
    fake.wait_for("closed_early", 1).await;
    let mut other = Raw::to(fake.addr()).await;
    assert_eq!(other.ask("GET", "/jobs?key=k", &[], "").await.json(), json!({ "jobs": [] }));
    held.release();
    let events = fake.wait_for("job_created", 1).await;
    let place = |kind: &str| events.iter().position(|event| event.is(kind)).unwrap();
    assert!(place("closed_early") < place("listed") && place("listed") < place("job_created"));
    let found = other.ask("GET", "/jobs?key=k", &[], "").await.json();
    assert_eq!(found["jobs"][0]["id"], "job-1");
}

#[tokio::test]
async fn a_cancelled_job_may_turn_out_done() {
    let fake = FakeUpstream::start().await;
    fake.fault(Route::CancelJob, Fault::CancelledThenDone, Some(1));
    let mut client = Raw::to(fake.addr()).await;
    client.ask("POST", "/jobs", &[], "").await;
    assert_eq!(client.ask("DELETE", "/jobs/job-1", &[], "").await.status, 202);
    assert_eq!(fake.books().live, 1, "it only pretends");
    assert_eq!(status(&mut client, "job-1").await, "cancelled");
    assert_eq!(status(&mut client, "job-1").await, "done");
    assert_eq!((fake.books().completed, fake.books().cancelled), (1, 0));
}

#[tokio::test]
async fn a_cancelled_job_may_turn_out_running_and_be_cancelled_again() {
    let fake = FakeUpstream::start().await;
    fake.fault(Route::CancelJob, Fault::CancelledThenRunning, Some(1));
    let mut client = Raw::to(fake.addr()).await;
    client.ask("POST", "/jobs", &[], "").await;
    client.ask("DELETE", "/jobs/job-1", &[], "").await;
    assert_eq!(status(&mut client, "job-1").await, "cancelled");
    assert_eq!(status(&mut client, "job-1").await, "running");
    client.ask("DELETE", "/jobs/job-1", &[], "").await;
    assert_eq!(status(&mut client, "job-1").await, "cancelled");
    assert_eq!(fake.books().cancelled, 1);
}

#[tokio::test]
async fn an_ignored_cancel_is_accepted_and_changes_nothing() {
    let fake = FakeUpstream::start().await;
    fake.fault(Route::CancelJob, Fault::CancelIgnored, None);
    let mut client = Raw::to(fake.addr()).await;
    client.ask("POST", "/jobs", &[], "").await;
    for _ in 0..2 {
        assert_eq!(client.ask("DELETE", "/jobs/job-1", &[], "").await.status, 202);
        assert_eq!(status(&mut client, "job-1").await, "running");
    }
    assert_eq!(client.ask("POST", "/jobs/job-1/force", &[], "").await.status, 202);
    assert_eq!(fake.books().cancelled, 1);
}

#[tokio::test]
async fn a_job_may_vanish_from_sight_and_a_list_be_stale() {
    let fake = FakeUpstream::start().await;
    fake.fault(Route::JobStatus, Fault::Vanish, Some(1));
    fake.fault(Route::FindJobs, Fault::StaleList, Some(1));
    let mut client = Raw::to(fake.addr()).await;
    client.ask("POST", "/jobs", &["idempotency-key: k"], "").await;
    assert_eq!(client.ask("GET", "/jobs/job-1", &[], "").await.status, 404);
    assert_eq!(status(&mut client, "job-1").await, "running");
    for hits in [0, 1] {
        let found = client.ask("GET", "/jobs?key=k", &[], "").await.json();
        assert_eq!(found["jobs"].as_array().map(Vec::len), Some(hits));
    }
}

#[tokio::test]
async fn a_success_may_be_said_badly() {
    let fake = FakeUpstream::start().await;
    for fault in [Fault::NotJson, Fault::EmptyBody, Fault::HugeBody(100_000)] {
        fake.fault(Route::CreateJob, fault, Some(1));
    }
    fake.fault(Route::CreateJob, Fault::Redirect("http://127.0.0.1:1/".into()), Some(1));
    let mut client = Raw::to(fake.addr()).await;
    let page = client.ask("POST", "/jobs", &[], "").await;
    assert!(page.status == 201 && page.text.starts_with("<!doctype html>"), "{}", page.text);
    let empty = client.ask("POST", "/jobs", &[], "").await;
    assert!(empty.status == 201 && empty.text.is_empty() && !empty.head.contains("location"));
    let huge = client.ask("POST", "/jobs", &[], "").await;
    assert_eq!((huge.text.len(), huge.json()["id"].as_str()), (100_000, Some("job-3")));
    let elsewhere = client.ask("POST", "/jobs", &[], "").await;
    assert!(elsewhere.status == 307 && elsewhere.head.contains("location: http://127.0.0.1:1/\r\n"));
    assert_eq!(fake.books().created, 3);
}

#[tokio::test]
async fn a_hold_lets_its_arrivals_go_one_by_one() {
    let fake = FakeUpstream::start().await;
    let mut client = Raw::to(fake.addr()).await;
    client.ask("POST", "/jobs", &[], "").await;
    let held = fake.hold(Gate::Poll, Filter::default());
    let mut pollers = [Raw::to(fake.addr()).await, Raw::to(fake.addr()).await];
    for (poller, n) in pollers.iter_mut().zip(1..) {
        poller.send("GET", "/jobs/job-1", &[], "").await;
        held.reached_n(n).await;
    }
    held.release_one();
    fake.wait_for("job_polled", 1).await;
    assert_eq!(pollers[0].reply().await.unwrap().status, 200);
    assert!(fake.events().iter().filter(|event| event.is("job_polled")).count() == 1);
    drop(held);
    assert_eq!(pollers[1].reply().await.unwrap().status, 200);
}
