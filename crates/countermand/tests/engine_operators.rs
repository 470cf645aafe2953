//! What an operator asks for, and what can be done with an operation that this process cannot perform.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::{Answer, Bench, Say, created, ended, policy, running, until};
use countermand::{
    core::{
        Cause, OnDisconnect, Owner, Phase, Policy,
        event::{End, Event, RequestAnswer, Trouble},
        phase::Verdict,
        ports::{Action, Entry, Ledger as _, Request},
    },
    engine::{Engine, Healths, Parts},
};
use std::{sync::Arc, time::Duration};

/// Waits until the ledger fits. It has no events: it is read again, in paused time.
async fn when<F: Future<Output = bool>>(what: &str, fits: impl Fn() -> F) {
    for _ in 0..1_000 {
        if fits().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("never came true: {what}");
}

/// A retry that fails again at once has been done: it is not done again and again, nor by the next start.
#[tokio::test(start_paused = true)]
async fn a_retry_that_fails_again_is_done_once() {
    let bench = Bench::new(Policy { undo_steps: 1, ..policy() });
    let refused = || Answer::Done(RequestAnswer::Refused(Trouble::new("403")));
    bench.upstream.say("create", Say::Answer(created())).say("status", Say::Answer(ended(End::Cancelled)));
    bench.upstream.say("undo", Say::Answer(refused()));
    bench.engine.reconcile();
    let mut operation = bench.start().await;
    let id = operation.id();
    until(&mut operation, |row| row.phase == Phase::CompensationFailed).await;
    drop(operation);
    bench.ledger.file_request(Request { operation: id, action: Action::Retry }).await.unwrap();
    let ledger = &bench.ledger;
    when("the request's end", || async { ledger.requests().await.unwrap().is_empty() }).await;
    assert_eq!(bench.ledger.get(id).await.unwrap().phase, Phase::CompensationFailed);
    let history = bench.ledger.history(id).await.unwrap();
    assert_eq!(history.iter().filter(|entry| entry.event == "retry_wanted").count(), 1);
    assert_eq!(bench.upstream.count("undo"), 2, "the first time, and for the operator");
}

/// An operation whose definition this process cannot read is no dead end: it says why, and an operator can settle it.
#[tokio::test(start_paused = true)]
async fn an_operation_that_cannot_be_performed_here_says_why_and_can_be_resolved() {
    let bench = Bench::new(policy());
    bench.upstream.say("create", Say::Answer(created())).say("status", Say::Answer(running()));
    bench.ledger.define(bench.definition.clone()).await.unwrap();
    let mut row = bench.row(OnDisconnect::Cancel);
    row.phase = Phase::Running;
    row.upstream_id = Some("job-1".into());
    let entry = Entry { at: row.created_at, event: "intended".into(), phase: row.phase, note: None };
    let row = bench.ledger.insert(row, entry).await.unwrap();
    let engine = Engine::new(Parts {
        ledger: bench.ledger.clone(),
        performers: Arc::new(|_| Err("its upstream is not in this build".to_owned())),
        clock: bench.clock.clone(),
        owner: Owner::from("next"),
        epoch: 2,
        retention: Duration::from_secs(3600),
        healths: Healths::default(),
    });
    engine.reconcile();
    let ledger = &bench.ledger;
    let orphaned = || async { ledger.get(row.id).await.unwrap().phase == Phase::Orphaned };
    when("an orphan", orphaned).await;
    let orphan = bench.ledger.get(row.id).await.unwrap();
    assert!(orphan.last_error.as_deref().unwrap().contains("not in this build"), "{orphan:?}");
    assert_eq!(orphan.cause, Some(Cause::ClientDisconnected));
    let resolved = Event::Resolved { verdict: Verdict::Stopped, note: "ended by hand".into() };
    engine.tell(row.id, resolved).await.unwrap();
    when("its end", || async { ledger.get(row.id).await.unwrap().phase == Phase::Resolved }).await;
}

/// Also where somebody else had wanted it cancelled before, and only once.
#[tokio::test(start_paused = true)]
async fn what_an_operator_notes_with_a_cancel_is_in_its_history_and_is_no_reason() {
    for before in [None, Some(Cause::ClientCancelled)] {
        let bench = Bench::new(policy());
        bench.upstream.say("create", Say::Answer(created())).say("status", Say::Answer(running()));
        bench.engine.reconcile();
        let mut operation = bench.start().await;
        let id = operation.id();
        until(&mut operation, |row| row.phase == Phase::Running).await;
        if let Some(cause) = before {
            operation.cancel(cause, None);
            until(&mut operation, |row| row.cancel_wanted()).await;
        }
        let action = Action::Cancel { note: Some("too dear".into()) };
        bench.ledger.file_request(Request { operation: id, action }).await.unwrap();
        let ledger = &bench.ledger;
        when("the request's end", || async { ledger.requests().await.unwrap().is_empty() }).await;
        let row = ledger.get(id).await.unwrap();
        assert_eq!((row.cause, row.reason), (before.or(Some(Cause::Operator)), None));
        let history = ledger.history(id).await.unwrap();
        let noted = history.iter().filter(|entry| entry.note.as_deref() == Some("operator: too dear"));
        assert_eq!(noted.count(), 1, "{history:?}");
    }
}

/// Whoever cannot be told now is told later: here its definition cannot be read for a while.
#[tokio::test(start_paused = true)]
async fn what_an_operator_asked_for_is_not_lost_where_the_operation_could_not_be_told_at_first() {
    let bench = Bench::new(policy());
    bench.upstream.say("status", Say::Answer(running()));
    let mut row = bench.row(OnDisconnect::Cancel);
    row.phase = Phase::Running;
    row.upstream_id = Some("job-1".into());
    let entry = Entry { at: row.created_at, event: "intended".into(), phase: row.phase, note: None };
    let row = bench.ledger.insert(row, entry).await.unwrap();
    let action = Action::Cancel { note: Some("too dear".into()) };
    bench.ledger.file_request(Request { operation: row.id, action }).await.unwrap();
    bench.engine.reconcile();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(bench.ledger.get(row.id).await.unwrap().desired, row.desired, "nobody could be told");
    bench.ledger.define(bench.definition.clone()).await.unwrap();
    let ledger = &bench.ledger;
    when("the request's end", || async { ledger.requests().await.unwrap().is_empty() }).await;
    let history = ledger.history(row.id).await.unwrap();
    let noted = history.iter().filter(|entry| entry.note.as_deref() == Some("operator: too dear"));
    assert_eq!(noted.count(), 1, "{history:?}");
}
