//! An upstream that is ill as a whole: what waits, what does not, and that nothing is lost.

use crate::{
    faults::{tag, text},
    over_all,
    stage::{Caller, Door, Stage, Times},
};
use countermand_testkit::fake::{Event, Fault, Filter, Route};
use serde_json::json;

const JOBS: u64 = 12;

/// A stage whose upstream is left alone soon, and not for long.
async fn stage() -> Stage {
    Stage::with_config(Times::default(), |config| {
        config.replace(
            "connect_timeout: 2s,",
            "connect_timeout: 2s, breaker: { failures: 3, open: 2s, max: 4s },",
        )
    })
    .await
}

fn refused(events: &[Event]) -> Vec<f64> {
    events.iter().filter(|event| event.is("fault_applied")).map(|event| event.at).collect()
}

over_all! {
    async fn a_storm_of_503_is_answered_with_few_requests_and_all_cancels_are_sent_and_confirmed(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut all = Vec::new();
        for id in 1..=JOBS {
            all.push(caller.call_of(id, "run_report", json!({ "tag": id.to_string() })).await);
        }
        stage.operations_when("all running", |rows| rows.iter().filter(|row| row["phase"] == "running").count() == JOBS as usize).await;
        stage.fake.fault_for(Filter::default(), Fault::Status(503, None), None);
        let rows = stage.operations_when("all waiting", |rows| {
            rows.iter().all(|row| row["last_error"].as_str().is_some_and(|error| error.contains("left alone since")))
        }).await;
        assert!(rows.iter().all(|row| row["phase"] == "running"), "{rows:#?}");
        let error = rows[0]["last_error"].as_str().unwrap();
        assert!(error.contains("`reports`") && error.contains("503"), "{error}");
        // A read that would have to wait fails, and says why.
        let before = refused(&stage.fake.events()).len();
        let mut read = caller.call(100, "quick", tag()).await;
        let answer = caller.answer(&mut read).await;
        assert_eq!(answer["isError"], true, "{answer:#}");
        for part in ["`reports`", "nothing was sent", "left alone since", "503", "asked again in"] {
            assert!(text(&answer).contains(part), "{part}: {}", text(&answer));
        }
        // Without it, polls every 100 ms would be a hundred a second.
        let events = stage.fake.wait(|events| refused(events).len() >= before + 3).await;
        let probes = refused(&events).split_off(before);
        assert!(probes.windows(2).all(|two| two[1] - two[0] >= 950.0), "one at a time: {probes:?}");
        for pending in all {
            caller.cancel(pending).await;
        }
        let rows = stage.operations_when("all cancelled at least once", |rows| {
            rows.iter().all(|row| row["desired"] == "cancel" && row["attempts"].as_u64() >= Some(1))
        }).await;
        assert!(rows.iter().all(|row| row["settled"] == false), "{rows:#?}");
        stage.fake.clear_faults();
        let rows = stage.settled(JOBS as usize).await;
        assert!(rows.iter().all(|row| row["phase"] == "cancelled"), "{rows:#?}");
        assert_eq!(stage.agree().await.cancelled, JOBS);
        let logs = caller.logs();
        let count = |words: &str| logs.lines().filter(|line| line.contains(words)).count();
        assert_eq!(count("the upstream answers again"), 1, "{logs}");
        assert_eq!(count("the upstream is left alone"), 1, "{logs}");
        caller.works().await;
        caller.nothing_was_sent_for(&(1..=JOBS).collect::<Vec<_>>()).await;
    }
}

over_all! {
    async fn a_create_that_waits_for_an_upstream_that_is_not_there_is_never_sent_once_it_is_cancelled(door) {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let upstreams = format!(
            "  gone: {{ http: {{ base_url: \"http://127.0.0.1:{port}\", breaker: {{ failures: 2, open: 30s }} }} }}\n"
        );
        let stage = Stage::with_more(&upstreams, "  lost: { input: *input, upstream: gone, job: *job }\n").await;
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "lost", tag()).await;
        let waits = |rows: &[serde_json::Value]| {
            rows.iter().any(|row| row["last_error"].as_str().is_some_and(|error| error.contains("`gone`, which has been left alone")))
        };
        stage.operations_when("a create that waits", waits).await;
        caller.cancel(pending).await;
        let row = stage.phase("never_created").await;
        assert!(row["cause"] == caller.cause() && row["upstream_id"].is_null(), "{row:#}");
        assert!(stage.fake.events().iter().all(|event| event.route != Some(Route::CreateJob)));
        caller.works().await;
        caller.nothing_was_sent_for(&[1]).await;
    }
}
