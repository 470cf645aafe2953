//! Somebody is told of what could not be stopped, under paused time.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod common;

use common::{Answer, Bench, Say, accepted, created, ended, policy, refused, running, until};
use countermand::{
    core::{
        Cause, News, OperationId, Phase,
        event::{End, Event, RequestAnswer, Trouble},
    },
    engine::{Heard, Operation},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// Somebody who is told, and can be out of reach.
#[derive(Default)]
struct Somebody {
    told: Mutex<Vec<(OperationId, News, Phase)>>,
    tries: Mutex<Vec<Instant>>,
    away: Mutex<bool>,
    heard: Notify,
}

impl Somebody {
    fn listens_to(bench: &Bench) -> Arc<Self> {
        let somebody = Arc::new(Self::default());
        let told = somebody.clone();
        bench.engine.tell_by(Arc::new(move |notice, row| {
            let told = told.clone();
            Box::pin(async move {
                told.tries.lock().unwrap().push(Instant::now());
                told.heard.notify_waiters();
                if *told.away.lock().unwrap() {
                    return Err("nobody there".to_owned());
                }
                told.told.lock().unwrap().push((notice.operation, notice.news, row.phase));
                told.heard.notify_waiters();
                Ok(Heard::Told)
            })
        }));
        somebody
    }

    fn news(&self) -> Vec<News> {
        self.told.lock().unwrap().iter().map(|(_, news, _)| *news).collect()
    }

    async fn hears(&self, news: &[News]) {
        loop {
            let heard = self.heard.notified();
            if self.news() == news {
                return;
            }
            heard.await;
        }
    }

    async fn tried(&self, times: usize) {
        loop {
            let heard = self.heard.notified();
            if self.tries.lock().unwrap().len() >= times {
                return;
            }
            heard.await;
        }
    }
}

/// An operation whose cancel is not accepted, until it counts as late.
async fn an_orphan(bench: &Bench) -> Operation {
    bench.upstream.say("create", Say::Answer(created())).say("status", Say::Answer(running()));
    bench.upstream.say("cancel", Say::Answer(refused("409 in words")));
    let mut operation = bench.start().await;
    until(&mut operation, |row| row.phase == Phase::Running).await;
    operation.cancel(Cause::ClientCancelled, None);
    until(&mut operation, |row| row.phase == Phase::Orphaned).await;
    operation
}

/// The upstream obeys from now on.
fn obeys(bench: &Bench) {
    bench.upstream.say("cancel", Say::Answer(accepted()));
    bench.upstream.say("status", Say::Answer(ended(End::Cancelled)));
}

#[tokio::test(start_paused = true)]
async fn an_orphan_is_told_once_and_once_that_it_is_settled() {
    let bench = Bench::new(policy());
    let somebody = Somebody::listens_to(&bench);
    let mut operation = an_orphan(&bench).await;
    somebody.hears(&[News::Orphaned]).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(somebody.news(), [News::Orphaned], "once");
    obeys(&bench);
    until(&mut operation, |row| row.phase == Phase::Cancelled).await;
    somebody.hears(&[News::Orphaned, News::Settled]).await;
    let told = somebody.told.lock().unwrap().clone();
    assert_eq!(told[1], (operation.id(), News::Settled, Phase::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn what_goes_well_is_no_news() {
    let bench = Bench::new(policy());
    let somebody = Somebody::listens_to(&bench);
    bench.upstream.say("create", Say::Answer(created())).say("status", Say::Answer(running()));
    let mut operation = bench.start().await;
    until(&mut operation, |row| row.phase == Phase::Running).await;
    operation.cancel(Cause::ClientCancelled, None);
    obeys(&bench);
    until(&mut operation, |row| row.phase == Phase::Cancelled).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(somebody.news(), []);
}

#[tokio::test(start_paused = true)]
async fn who_is_out_of_reach_is_told_later_and_in_order() {
    let bench = Bench::new(policy());
    let somebody = Somebody::listens_to(&bench);
    *somebody.away.lock().unwrap() = true;
    let mut operation = an_orphan(&bench).await;
    obeys(&bench);
    until(&mut operation, |row| row.phase == Phase::Cancelled).await;
    somebody.tried(5).await;
    assert_eq!(somebody.news(), []);
    *somebody.away.lock().unwrap() = false;
    somebody.hears(&[News::Orphaned, News::Settled]).await;
    let tries = somebody.tries.lock().unwrap().clone();
    let pauses: Vec<_> = tries.windows(2).map(|two| (two[1] - two[0]).as_secs_f64()).collect();
    assert!(pauses[3] > pauses[0] && pauses[0] >= 0.5, "later each time: {pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn it_is_given_up_after_a_day_and_then_the_next_is_tried() {
    let bench = Bench::new(policy());
    let somebody = Somebody::listens_to(&bench);
    *somebody.away.lock().unwrap() = true;
    let mut operation = an_orphan(&bench).await;
    let row = until(&mut operation, |row| row.phase == Phase::NeedsIntervention).await;
    tokio::time::sleep(Duration::from_secs(1_200)).await;
    *somebody.away.lock().unwrap() = false;
    somebody.hears(&[News::NeedsIntervention]).await;
    assert!(somebody.tries.lock().unwrap().len() < 320, "it is not tried without a pause");
    assert_eq!(row.id, operation.id());
}

#[tokio::test(start_paused = true)]
async fn an_undo_that_is_refused_is_told_and_an_operators_retry_that_settles_it() {
    let bench = Bench::new(countermand::core::Policy { undo_steps: 1, ..policy() });
    let somebody = Somebody::listens_to(&bench);
    bench.upstream.say("create", Say::Answer(created())).say("status", Say::Answer(ended(End::Failed)));
    let no = Answer::Done(RequestAnswer::Refused(Trouble::new("400")));
    let gate = Arc::new(Notify::new());
    bench.upstream.say("undo", Say::Hold(gate.clone(), no));
    let operation = bench.start().await;
    bench.upstream.sent("undo", 1).await;
    gate.notify_one();
    somebody.hears(&[News::CompensationFailed]).await;
    bench.upstream.say("undo", Say::Answer(Answer::Done(RequestAnswer::Done)));
    bench.engine.tell(operation.id(), Event::RetryWanted).await.unwrap();
    somebody.hears(&[News::CompensationFailed, News::Settled]).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_not_told_before_a_crash_is_told_after_it() {
    let first = Bench::new(policy());
    let operation = an_orphan(&first).await;
    let id = operation.id();
    let ledger = first.ledger.clone();
    std::mem::forget(operation);
    first.engine.shutdown(Duration::ZERO).await;

    let second = Bench::on(ledger, Arc::default(), policy(), 2);
    let somebody = Somebody::listens_to(&second);
    somebody.hears(&[News::Orphaned]).await;
    assert_eq!(somebody.told.lock().unwrap()[0].0, id);
}

#[tokio::test(start_paused = true)]
async fn while_the_ledger_fails_it_is_not_told_again_and_again() {
    let bench = Bench::new(policy());
    let somebody = Somebody::listens_to(&bench);
    bench.ledger.set_full(false);
    let _operation = an_orphan(&bench).await;
    somebody.tried(1).await;
    bench.ledger.set_full(true);
    tokio::time::sleep(Duration::from_secs(30)).await;
    bench.ledger.set_full(false);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(somebody.news(), [News::Orphaned]);
}

#[tokio::test(start_paused = true)]
async fn an_orphan_of_a_time_in_which_the_ledger_failed_is_told_once_it_is_back() {
    let bench = Bench::new(policy());
    let somebody = Somebody::listens_to(&bench);
    bench.upstream.say("create", Say::Answer(created())).say("status", Say::Answer(running()));
    bench.upstream.say("cancel", Say::Answer(refused("503")));
    let mut operation = bench.start().await;
    until(&mut operation, |row| row.phase == Phase::Running).await;
    bench.ledger.set_full(true);
    operation.cancel(Cause::ClientCancelled, None);
    until(&mut operation, |row| row.phase == Phase::Orphaned).await;
    obeys(&bench);
    until(&mut operation, |row| row.phase == Phase::Cancelled).await;
    assert_eq!(somebody.news(), []);
    bench.ledger.set_full(false);
    somebody.hears(&[News::Orphaned, News::Settled]).await;
}
