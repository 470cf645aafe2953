//! What breaks inside of us costs no operation: panics, and a clock that was set back.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::{Answer, Bench, Say, Script, accepted, created, ended, policy, refused, running, until};
use countermand::{
    core::{
        Cause, Now, OnDisconnect, OperationId, Owner, Phase,
        event::{End, FindAnswer},
        ports::{Clock, Ledger as _},
    },
    engine::{Engine, Healths, Parts},
};
use std::{sync::Arc, time::Duration};

/// Waits until the stored row is in this phase. The ledger has no events: it is read again, in paused time.
async fn stored(bench: &Bench, id: OperationId, phase: Phase) {
    for _ in 0..1_000 {
        if bench.ledger.get(id).await.unwrap().phase == phase {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it never was {phase}: {:#?}", bench.ledger.get(id).await);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_panics_is_one_that_failed_and_is_not_sent_again_at_once() {
    let bench = Bench::new(policy());
    bench.upstream.say("create", Say::Answer(created())).say("status", Say::Panic).say("status", Say::Panic);
    bench
        .upstream
        .say("status", Say::Answer(running()))
        .say("cancel", Say::Panic)
        .say("cancel", Say::Answer(accepted()));
    bench.engine.reconcile();
    let mut operation = bench.start().await;
    let began = tokio::time::Instant::now();
    bench.upstream.sent("status", 3).await;
    assert!(began.elapsed() >= 3 * policy().poll_every, "no read was put forward: {:?}", began.elapsed());
    let row = operation.view().row;
    assert_eq!(row.phase, Phase::Running);
    assert!(row.last_error.as_ref().unwrap().contains("panicked"), "{:?}", row.last_error);
    operation.cancel(Cause::ClientCancelled, None);
    bench.upstream.sent("cancel", 2).await;
    bench.upstream.say("status", Say::Answer(ended(End::Cancelled)));
    until(&mut operation, |row| row.phase == Phase::Cancelled).await;
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_breaks_loses_no_operation_and_touches_no_other() {
    let bench = Bench::new(policy());
    bench.upstream.say("create", Say::Answer(created())).say("status", Say::Answer(running()));
    bench.upstream.say("cancel", Say::Answer(accepted()));
    bench.engine.reconcile();
    let mut broken = bench.start().await;
    let mut other = bench.start().await;
    until(&mut broken, |row| row.phase == Phase::Running).await;
    until(&mut other, |row| row.phase == Phase::Running).await;
    bench.ledger.break_next_update();
    broken.cancel(Cause::ClientCancelled, Some("enough".into()));
    while broken.changed().await.is_some() {}
    let id = broken.id();
    assert_eq!(bench.ledger.get(id).await.unwrap().phase, Phase::Running, "the wish broke with its driver");
    // Its call is told that nobody follows it, and ends.
    drop(broken);
    bench.upstream.sent("cancel", 1).await;
    bench.upstream.say("status", Say::Answer(ended(End::Cancelled)));
    stored(&bench, id, Phase::Cancelled).await;
    assert_eq!(bench.ledger.get(id).await.unwrap().cause, Some(Cause::ClientDisconnected));
    assert!(!other.view().row.cancel_wanted(), "nobody cancelled the other one");
    assert_eq!(bench.upstream.count("cancel"), 1);
}

/// A clock that was set back by an hour between two lives.
struct SetBack(countermand::clock::SystemClock);

impl Clock for SetBack {
    fn now(&self) -> Now {
        let Now { at, dice } = self.0.now();
        Now { at: at - Duration::from_secs(3600), dice }
    }
}

/// The next life, by the clock that was set back.
fn an_hour_ago(first: &Bench, upstream: &Arc<Script>) -> Bench {
    let mut second = Bench::on(first.ledger.clone(), upstream.clone(), policy(), 2);
    let performer = upstream.clone();
    second.engine = Engine::new(Parts {
        ledger: first.ledger.clone(),
        performers: Arc::new(move |_| Ok(performer.clone())),
        clock: Arc::new(SetBack(countermand::clock::SystemClock::new())),
        owner: Owner::from("test"),
        epoch: 2,
        retention: Duration::from_secs(3600),
        healths: Healths::default(),
    });
    second
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_back_puts_no_cancel_off() {
    let first = Bench::new(policy());
    first.upstream.say("create", Say::Answer(created())).say("status", Say::Answer(running()));
    first.upstream.say("cancel", Say::Answer(refused("503")));
    let mut operation = first.start().await;
    until(&mut operation, |row| row.phase == Phase::Running).await;
    operation.cancel(Cause::ClientCancelled, None);
    // After a minute the cancel is retried once a minute.
    until(&mut operation, |row| row.phase == Phase::Orphaned && row.attempts > 40).await;
    let id = operation.id();
    std::mem::forget(operation);
    first.engine.shutdown(Duration::ZERO).await;

    let upstream = Arc::new(Script::default());
    upstream.say("cancel", Say::Answer(accepted())).say("status", Say::Answer(ended(End::Cancelled)));
    let second = an_hour_ago(&first, &upstream);
    second.engine.reconcile();
    let began = tokio::time::Instant::now();
    upstream.sent("cancel", 1).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    stored(&second, id, Phase::Cancelled).await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_back_puts_no_poll_and_no_look_up_off() {
    let first = Bench::new(policy());
    first.upstream.say("create", Say::Answer(created())).say("create", Say::Hang);
    first.upstream.say("status", Say::Answer(running()));
    let detached = first.row(OnDisconnect::Detach);
    let mut detached = first.engine.start(detached, &first.definition, None).await.unwrap();
    until(&mut detached, |row| row.phase == Phase::Running).await;
    let lost = first.start().await;
    first.upstream.sent("create", 2).await;
    let (runs, unknown) = (detached.id(), lost.id());
    std::mem::forget((detached, lost));
    first.engine.shutdown(Duration::ZERO).await;

    let upstream = Arc::new(Script::default());
    upstream.say("status", Say::Answer(running())).say("find", Say::Answer(Answer::Find(FindAnswer::Miss)));
    let second = an_hour_ago(&first, &upstream);
    second.engine.reconcile();
    let began = tokio::time::Instant::now();
    upstream.sent("status", 3).await;
    assert!(began.elapsed() < Duration::from_secs(30), "polls go on: {:?}", began.elapsed());
    stored(&second, unknown, Phase::NeverCreated).await;
    let bound = policy().horizon + Duration::from_secs(10);
    assert!(began.elapsed() < bound, "a miss counts after the horizon of this life: {:?}", began.elapsed());
    upstream.say("status", Say::Answer(ended(End::Completed)));
    stored(&second, runs, Phase::Completed).await;
}
