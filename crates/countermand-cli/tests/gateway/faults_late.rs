//! Creates that arrive late or never, and look-ups that do not see them yet.

use crate::{
    faults::{SHORT, cancel, error, fault_at, keys, requests, stage_with, success, tag, told},
    over_all,
    stage::{Caller, Door, Stage, Times},
};
use countermand_testkit::fake::{Event, EventKind, Fault, Filter, Gate, Route};

const CREATES: Filter = Filter { route: Some(Route::CreateJob), tag: None, marker: None };

/// How much later than the gateway the fake may see that a connection has ended, in milliseconds.
const SEEN_LATE: f64 = 500.0;

/// When a create's connection ended, in milliseconds.
fn closed_at(events: &[Event]) -> f64 {
    let closed = |event: &&Event| {
        event.route == Some(Route::CreateJob) && (event.is("closed_early") || event.is("hung_up"))
    };
    events.iter().find(closed).expect("the create's connection ended").at
}

/// Whether a look-up of this time or later found nothing.
fn missed_since(events: &[Event], at: f64) -> bool {
    events.iter().any(|event| event.at >= at && matches!(event.kind, EventKind::Listed { hits: 0, .. }))
}

over_all! {
    async fn a_create_that_arrives_after_its_connection_within_the_horizon_is_found_and_cancelled(door) {
        let stage = stage_with(Times { shield: "1s", horizon: "4s" }).await;
        let held = stage.fake.hold(Gate::Body, CREATES);
        stage.fake.fault(Route::CreateJob, Fault::LateCreate, Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        held.reached().await;
        cancel(&mut caller, pending, &stage).await;
        // The shield is over, a look-up has found nothing, and that proves nothing yet.
        stage.fake.wait(|events| missed_since(events, 0.0)).await;
        stage.phase("unknown").await;
        told(&mut caller, &stage, "cancel_pending").await;
        held.release();
        stage.fake.wait_for("job_cancelled", 1).await;
        stage.phase("cancelled").await;
        told(&mut caller, &stage, "stopped").await;
        assert_eq!(stage.agree().await.cancelled, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn no_create_is_called_off_before_a_look_up_that_was_sent_after_its_horizon(door) {
        let stage = stage_with(Times { shield: "1s", horizon: "2s" }).await;
        let held = stage.fake.hold(Gate::Body, CREATES);
        stage.fake.fault(Route::CreateJob, Fault::LateCreate, Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        held.reached().await;
        cancel(&mut caller, pending, &stage).await;
        let row = stage.phase("never_created").await;
        told(&mut caller, &stage, "never_started").await;
        let events = stage.fake.events();
        let horizon = closed_at(&events) + 2_000.0;
        assert!(missed_since(&events, horizon - SEEN_LATE), "the look-up that decides comes after the horizon");
        assert_eq!(requests(&stage, Route::CreateJob).len(), 1);
        // What arrives even later is beyond what `horizon` promises; its key in the ledger still finds it.
        held.release();
        stage.fake.wait_for("job_created", 1).await;
        assert_eq!(stage.fake.jobs()[0].key.as_deref(), row["key"].as_str());
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_create_that_never_arrived_was_never_created_after_its_horizon(door) {
        let stage = stage_with(SHORT).await;
        stage.fake.fault(Route::CreateJob, Fault::HangBeforeCommit, Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let cause = caller.cause();
        let pending = caller.call(1, "run_report", tag()).await;
        stage.fake.wait_for("fault_applied", 1).await;
        cancel(&mut caller, pending, &stage).await;
        let row = stage.phase("never_created").await;
        assert_eq!((row["cause"].as_str(), row["upstream_id"].as_str()), (Some(cause), None));
        let events = stage.fake.events();
        assert!(closed_at(&events) >= fault_at(&stage) + 1_000.0, "the shield lets a create go on");
        assert!(missed_since(&events, closed_at(&events) + 1_000.0 - SEEN_LATE), "only a look-up after the horizon counts");
        told(&mut caller, &stage, "never_started").await;
        assert_eq!(stage.agree().await.created, 0);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_create_that_is_on_its_way_when_it_is_sent_again_is_one_job(door) {
        let stage = impatient().await;
        let held = stage.fake.hold(Gate::Body, CREATES);
        stage.fake.fault(Route::CreateJob, Fault::LateCreate, Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "run_report", tag()).await;
        // The first has lost its connection, and its replay is there too.
        held.reached_n(2).await;
        stage.fake.wait_for("closed_early", 1).await;
        held.release();
        stage.phase("running").await;
        stage.fake.wait_for("job_deduplicated", 1).await;
        stage.fake.finish("job-1");
        success(&mut caller, &mut pending).await;
        let row = stage.phase("completed").await;
        assert_eq!(keys(&stage, Route::CreateJob), [row["key"].as_str().unwrap()]);
        told(&mut caller, &stage, "finished").await;
        assert_eq!(stage.agree().await.created, 1);
    }
}

over_all! {
    async fn a_list_that_lags_behind_does_not_call_off_a_job_that_exists(door) {
        let stage = stage_with(SHORT).await;
        let held = stage.fake.hold(Gate::CreateCommitted, Filter::default());
        stage.fake.fault(Route::CreateJob, Fault::ResetAfterCommit, Some(1));
        stage.fake.fault(Route::FindJobs, Fault::StaleList, None);
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "lagging", tag()).await;
        held.reached().await;
        cancel(&mut caller, pending, &stage).await;
        held.release();
        // A miss after the horizon, of a list that lags behind: one is not enough.
        let horizon = |events: &[Event]| events.iter().find(|event| event.is("hung_up")).map(|event| event.at + 1_000.0);
        stage.fake.wait(|events| horizon(events).is_some_and(|at| missed_since(events, at))).await;
        stage.fake.clear_faults();
        stage.phase("cancelled").await;
        told(&mut caller, &stage, "stopped").await;
        let books = stage.agree().await;
        assert_eq!((books.created, books.cancelled), (1, 1));
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn nothing_in_a_lagging_list_twice_is_never_created(door) {
        let stage = stage_with(SHORT).await;
        stage.fake.fault(Route::CreateJob, Fault::HangBeforeCommit, Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "lagging", tag()).await;
        stage.fake.wait_for("fault_applied", 1).await;
        cancel(&mut caller, pending, &stage).await;
        stage.phase("never_created").await;
        told(&mut caller, &stage, "never_started").await;
        let events = stage.fake.events();
        let horizon = closed_at(&events) + 1_000.0;
        assert!(missed_since(&events, horizon + 1_000.0 - SEEN_LATE), "two misses, a second apart, after the horizon");
        assert_eq!(stage.agree().await.created, 0);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

/// An upstream whose silence is waited for but a second.
async fn impatient() -> Stage {
    Stage::with_config(SHORT, |config| config.replace("read_timeout: 20s", "read_timeout: 1s")).await
}

over_all! {
    async fn a_create_that_the_upstream_keeps_silent_about_is_not_started_a_second_time(door) {
        let stage = impatient().await;
        stage.fake.fault(Route::CreateJob, Fault::HangAfterCommit, Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        stage.fake.finish("job-1");
        success(&mut caller, &mut pending).await;
        stage.phase("completed").await;
        told(&mut caller, &stage, "finished").await;
        assert_eq!(stage.agree().await.created, 1);
    }
}

over_all! {
    async fn a_cancel_before_the_job_exists_cancels_it_once_it_does(door) {
        let stage = stage_with(Times::default()).await;
        let held = stage.fake.hold(Gate::Body, CREATES);
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        held.reached().await;
        cancel(&mut caller, pending, &stage).await;
        assert_eq!(stage.fake.books().created, 0);
        told(&mut caller, &stage, "cancel_pending").await;
        held.release();
        stage.phase("cancelled").await;
        told(&mut caller, &stage, "stopped").await;
        let books = stage.agree().await;
        assert_eq!((books.created, books.cancelled), (1, 1));
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_cancel_while_the_job_is_queued_keeps_it_from_ever_running(door) {
        let stage = stage_with(Times::default()).await;
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "queued", tag()).await;
        let queued = |event: &Event| matches!(&event.kind, EventKind::JobPolled { said, .. } if said == "queued");
        stage.fake.wait(|events| events.iter().any(queued)).await;
        caller.cancel(pending).await;
        stage.phase("cancelled").await;
        told(&mut caller, &stage, "stopped").await;
        let ran = |event: &Event| matches!(&event.kind, EventKind::JobPolled { said, .. } if said == "running");
        assert!(!stage.fake.events().iter().any(ran));
        assert_eq!(stage.agree().await.cancelled, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

/// What an operator does at the upstream itself.
async fn end_by_hand(stage: &Stage, job: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let host = stage.fake.base_url().trim_start_matches("http://").to_owned();
    let mut upstream = tokio::net::TcpStream::connect(&host).await.unwrap();
    let request = format!("DELETE /jobs/{job} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    upstream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    upstream.read_to_string(&mut answer).await.unwrap();
    answer
}

over_all! {
    /// Beyond what the config promises nobody here can know. But nothing false is said, and an operator finds it.
    async fn a_create_that_arrives_after_its_horizon_is_not_denied_and_an_operator_finds_it_by_its_key(door) {
        let stage = stage_with(SHORT).await;
        let held = stage.fake.hold(Gate::Body, CREATES);
        stage.fake.fault(Route::CreateJob, Fault::LateCreate, Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        held.reached().await;
        cancel(&mut caller, pending, &stage).await;
        let row = stage.phase("never_created").await;
        held.release();
        stage.fake.wait_for("job_created", 1).await;

        let said = caller.status_of(&row["id"]).await.to_string();
        assert!(said.contains("did not start upstream in the time in which its create could arrive"), "{said}");
        assert!(!said.contains("never started upstream"), "{said}");
        let (id, key) = (row["id"].as_str().unwrap(), row["key"].as_str().unwrap());
        let shown = stage.outcome(&["ops", "show", id]).await.exited(0).stdout;
        assert!(shown.contains("could arrive (`horizon`)") && shown.contains(key), "{shown}");
        let said = stage.outcome(&["ops", "cancel", id]).await.exited(0).stdout;
        assert!(said.contains(&format!("at reports under the key {key}: end it there")), "{said}");

        let live = stage.fake.live_jobs();
        assert_eq!((live.len(), live[0].key.as_deref()), (1, Some(key)), "one job, of this row");
        assert!(end_by_hand(&stage, &live[0].id).await.starts_with("HTTP/1.1 202"));
        assert_eq!(stage.agree().await.cancelled, 1);
        assert_eq!(stage.operations().await[0]["phase"], "never_created", "what was settled stays");
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_call_whose_create_was_not_there_after_its_horizon_is_told_so_and_no_more(door) {
        let stage = Stage::with_config(SHORT, |config| {
            config.replace("read_timeout: 20s", "read_timeout: 1s").replace("      key_window: 24h\n", "")
        })
        .await;
        let held = stage.fake.hold(Gate::Body, CREATES);
        stage.fake.fault(Route::CreateJob, Fault::LateCreate, Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "run_report", tag()).await;
        let text = error(&mut caller, &mut pending).await;
        let row = stage.phase("failed").await;
        for words in ["was not there upstream when its create could no longer arrive (`horizon`)", "nothing under its key"] {
            assert!(text.contains(words), "`{words}` is missing: {text}");
        }
        assert!(!text.contains("nothing of it runs upstream") && !text.contains("Nothing was started"), "{text}");
        held.release();
        stage.fake.wait_for("job_created", 1).await;
        let (id, key) = (row["id"].as_str().unwrap(), row["key"].as_str().unwrap());
        let said = stage.outcome(&["ops", "cancel", id]).await.exited(0).stdout;
        assert!(said.contains(&format!("under the key {key}: end it there")), "{said}");
        assert_eq!(stage.fake.jobs()[0].key.as_deref(), Some(key));
    }
}
