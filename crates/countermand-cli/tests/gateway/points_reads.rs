//! Cancels of requests that only read: leaving them closes the connection upstream, and there is no row.

use crate::{
    over_all,
    points::{at, tag, until},
    stage::{Caller, Door, Stage},
};
use countermand_testkit::fake::{Event, EventKind, Fault, Gate, Route};
use serde_json::json;

/// The requests that the fake saw end early, by target.
fn aborted(events: &[Event]) -> Vec<String> {
    let target = |event: &Event| match &event.kind {
        EventKind::ClosedEarly { target, .. } => Some(target.clone()),
        _ => None,
    };
    events.iter().filter_map(target).collect()
}

over_all! {
    /// Case 7.
    async fn a_read_whose_response_is_held_is_aborted_upstream_and_nothing_is_answered(door) {
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "search", tag()).await;
        stage.fake.wait_for("slow_started", 1).await;
        caller.cancel_and_listen(pending).await;
        assert_eq!(aborted(&stage.fake.wait_for("closed_early", 1).await), ["/slow?tag=t"]);
        caller.barrier().await;
        caller.works().await;
        assert!(stage.operations().await.is_empty(), "a read has no row");
        stage.finish(caller, &[1]).await;
    }
}

over_all! {
    /// Case 7, O.
    async fn a_cancel_of_one_read_leaves_the_others_alone(door) {
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut before = caller.call(1, "search", json!({ "tag": "before" })).await;
        let pending = caller.call(2, "search", tag()).await;
        let mut after = caller.call(3, "search", json!({ "tag": "after" })).await;
        stage.fake.wait_for("slow_started", 3).await;
        caller.cancel_and_listen(pending).await;
        stage.fake.wait_for("closed_early", 1).await;
        caller.barrier().await;
        assert_eq!(stage.fake.release_slow(None), 2, "they still wait");
        for (pending, tag) in [(&mut before, "before"), (&mut after, "after")] {
            let result = caller.answer(pending).await;
            assert_eq!(result["structuredContent"], json!({ "slow": true, "tag": tag }));
        }
        assert_eq!(aborted(&stage.fake.events()), ["/slow?tag=t"]);
        stage.finish(caller, &[2]).await;
    }
}

over_all! {
    /// Case 8.
    async fn a_read_whose_body_is_streaming_is_aborted_upstream(door) {
        let stage = Stage::new().await;
        stage.fake.fault(Route::Quick, Fault::Trickle, Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "quick", tag()).await;
        stage.fake.wait(|events| events.iter().any(|event| event.reached(Gate::ResponseHead))).await;
        caller.cancel_and_listen(pending).await;
        let events = stage.fake.wait_for("closed_early", 1).await;
        assert_eq!(aborted(&events), ["/quick?tag=t"]);
        assert!(!events.iter().any(|event| event.is("responded")), "its last byte was never written");
        caller.barrier().await;
        caller.works().await;
        stage.finish(caller, &[1]).await;
    }
}

over_all! {
    /// Case 8.
    async fn a_read_that_lacks_its_last_byte_is_aborted_upstream(door) {
        let stage = Stage::new().await;
        let held = stage.fake.hold(Gate::ResponseLastByte, at(Route::Quick));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "quick", tag()).await;
        held.reached().await;
        caller.cancel_and_listen(pending).await;
        stage.fake.wait_for("closed_early", 1).await;
        held.release();
        caller.barrier().await;
        caller.works().await;
        stage.finish(caller, &[1]).await;
    }
}

over_all! {
    /// Case 9.
    async fn a_cancel_together_with_the_last_byte_leaves_one_answer_or_none(door) {
        const ROUNDS: u64 = 24;
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        for id in 1..=ROUNDS {
            let held = stage.fake.hold(Gate::ResponseLastByte, at(Route::Quick));
            let pending = caller.call(id, "quick", tag()).await;
            held.reached().await;
            if id % 2 == 0 {
                held.release();
                caller.cancel(pending).await;
            } else {
                let released = async { held.release() };
                tokio::join!(caller.cancel(pending), released);
            }
            caller.barrier().await;
        }
        caller.works().await;
        let ended = |event: &&Event| event.is("closed_early") || event.is("responded");
        let rounds = usize::try_from(ROUNDS).unwrap();
        stage.fake.wait(|events| events.iter().filter(ended).count() > rounds).await;
        let rest = stage.finish(caller, &[]).await;
        for id in 1..=ROUNDS {
            let answers: Vec<_> = rest.iter().filter(|message| message["id"] == json!(id)).collect();
            assert!(answers.len() <= 1, "{answers:#?}");
            assert!(answers.iter().all(|answer| answer["result"]["isError"] == false), "{answers:#?}");
        }
    }
}

over_all! {
    /// Case 10.
    async fn a_cancel_after_a_read_was_answered_is_ignored(door) {
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "quick", tag()).await;
        assert_eq!(caller.answer(&mut pending).await["isError"], false);
        caller.cancel(pending).await;
        caller.barrier().await;
        caller.works().await;
        assert!(aborted(&stage.fake.events()).is_empty());
        stage.finish(caller, &[1]).await;
    }
}

over_all! {
    /// C: of twenty aborted reads not one descriptor stays behind.
    async fn the_connections_of_aborted_reads_are_closed(door) {
        const READS: usize = 20;
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        caller.works().await;
        caller.barrier().await;
        let baseline = caller.descriptors();
        let mut pending = Vec::new();
        for id in 1..=READS {
            pending.push(caller.call(id as u64, "search", tag()).await);
        }
        stage.fake.wait_for("slow_started", READS).await;
        assert!(caller.descriptors() >= baseline + READS - 1);
        for pending in pending {
            caller.cancel(pending).await;
        }
        stage.fake.wait_for("closed_early", READS).await;
        until("the descriptors are closed", || caller.descriptors() <= baseline).await;
        caller.works().await;
        stage.finish(caller, &(1..=READS as u64).collect::<Vec<_>>()).await;
    }
}
