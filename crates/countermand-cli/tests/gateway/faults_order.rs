//! One request with an effect (`effect: once`): carried out once, whatever is lost, and never called stopped.

use crate::{
    faults::{cancel, error, keys, requests, stage, stage_with, success, tag, told},
    over_all,
    stage::{Caller, Door, Stage, Times},
};
use countermand_testkit::fake::{Event, FakeUpstream, Fault, Filter, Gate, Route};

/// How many orders there are upstream.
fn orders(events: &[Event]) -> usize {
    events.iter().filter(|event| event.is("order_committed")).count()
}

over_all! {
    async fn an_order_is_carried_out_once_and_its_answer_is_the_result(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "order", tag()).await;
        assert_eq!(success(&mut caller, &mut pending).await["order"], 1);
        stage.phase("completed").await;
        told(&mut caller, &stage, "finished").await;
        assert_eq!((requests(&stage, Route::Order).len(), orders(&stage.fake.events())), (1, 1));
        stage.agree().await;
    }
}

over_all! {
    async fn an_order_whose_answer_is_lost_is_unknown_until_its_replay_tells_and_is_one_order(door) {
        let stage = stage().await;
        stage.fake.fault(Route::Order, Fault::ResetAfterCommit, Some(1));
        let sent = stage.fake.hold(Gate::RequestHead, Filter { route: Some(Route::Order), ..Filter::default() });
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "order", tag()).await;
        sent.release_one();
        sent.reached_n(2).await;
        // It was committed, its answer was lost, and the replay is on its way: nothing is claimed.
        let row = stage.phase("unknown").await;
        assert!(row["last_error"].as_str().unwrap().contains("it may have been received"), "{row:#}");
        told(&mut caller, &stage, "unclear").await;
        sent.release();
        assert_eq!(success(&mut caller, &mut pending).await["order"], 1);
        let row = stage.phase("completed").await;
        assert_eq!(keys(&stage, Route::Order), [row["key"].as_str().unwrap()]);
        told(&mut caller, &stage, "finished").await;
        assert_eq!((requests(&stage, Route::Order).len(), orders(&stage.fake.events())), (2, 1));
        stage.agree().await;
    }
}

over_all! {
    async fn an_order_that_was_done_and_answered_with_500_is_one_order(door) {
        let stage = stage().await;
        stage.fake.fault(Route::Order, Fault::StatusAfterCommit(500), Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "order", tag()).await;
        assert_eq!(success(&mut caller, &mut pending).await["order"], 1);
        stage.phase("completed").await;
        told(&mut caller, &stage, "finished").await;
        assert_eq!(orders(&stage.fake.events()), 1);
        stage.agree().await;
    }
}

over_all! {
    async fn an_order_cancelled_before_its_answer_has_finished_before_the_cancel(door) {
        let stage = stage().await;
        let held = stage.fake.hold(Gate::OrderCommitted, Filter::default());
        let mut caller = Caller::at(door, &stage).await;
        let cause = caller.cause();
        let pending = caller.call(1, "order", tag()).await;
        held.reached().await;
        cancel(&mut caller, pending, &stage).await;
        told(&mut caller, &stage, "cancel_pending").await;
        held.release();
        let row = stage.phase("completed").await;
        assert_eq!((row["cause"].as_str(), row["outcome"].as_str()), (Some(cause), Some("completed")));
        told(&mut caller, &stage, "finished_before_cancel").await;
        assert_eq!(orders(&stage.fake.events()), 1);
        stage.agree().await;
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn an_order_cancelled_while_its_answer_is_lost_is_asked_for_with_its_key_and_is_one_order(door) {
        let stage = stage_with(Times { shield: "1s", horizon: "1s" }).await;
        let held = stage.fake.hold(Gate::OrderCommitted, Filter::default());
        stage.fake.fault(Route::Order, Fault::HangAfterCommit, Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "order", tag()).await;
        held.reached().await;
        cancel(&mut caller, pending, &stage).await;
        held.release();
        let row = stage.phase("completed").await;
        assert_eq!(keys(&stage, Route::Order), [row["key"].as_str().unwrap()]);
        told(&mut caller, &stage, "finished_before_cancel").await;
        assert_eq!(orders(&stage.fake.events()), 1);
        stage.agree().await;
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn an_order_that_is_refused_fails_and_there_is_none(door) {
        let stage = stage().await;
        stage.fake.fault(Route::Order, Fault::Status(422, None), None);
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "order", tag()).await;
        let text = error(&mut caller, &mut pending).await;
        assert!(text.contains("nothing of it runs upstream") && text.contains("422"), "{text}");
        stage.phase("failed").await;
        told(&mut caller, &stage, "failed").await;
        assert_eq!(orders(&stage.fake.events()), 0);
        stage.agree().await;
    }
}

over_all! {
    async fn an_order_whose_answer_is_too_large_was_carried_out_and_the_error_says_so(door) {
        let stage = stage().await;
        stage.fake.fault(Route::Order, Fault::HugeBody(2 << 20), None);
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "order", tag()).await;
        let text = error(&mut caller, &mut pending).await;
        for words in ["It finished upstream", "was carried out", "`max_bytes`"] {
            assert!(text.contains(words), "{text}");
        }
        stage.phase("completed").await;
        told(&mut caller, &stage, "finished").await;
        assert_eq!((requests(&stage, Route::Order).len(), orders(&stage.fake.events())), (1, 1));
        stage.agree().await;
    }
}

over_all! {
    async fn an_order_that_leads_to_another_origin_is_not_sent_there(door) {
        let elsewhere = FakeUpstream::start().await;
        let stage = stage().await;
        stage.fake.fault(Route::Order, Fault::Redirect(format!("{}/orders", elsewhere.base_url())), Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "order", tag()).await;
        assert_eq!(success(&mut caller, &mut pending).await["order"], 1);
        stage.phase("completed").await;
        assert!(elsewhere.events().is_empty(), "{:#?}", elsewhere.events());
        told(&mut caller, &stage, "finished").await;
        assert_eq!(orders(&stage.fake.events()), 1);
        stage.agree().await;
    }
}

/// An order that can be taken back.
const RETURNABLE: &str = r#"
  returnable:
    input: *input
    upstream: reports
    http:
      request: POST /orders
      effect: once
      query: { tag: "${args.tag}" }
      headers: { Idempotency-Key: "${op.key}" }
      key_window: 1h
    compensate: [ { request: DELETE /rows, query: { tag: "${args.tag}" } } ]
"#;

over_all! {
    async fn an_order_that_finished_before_its_cancel_is_taken_back_where_that_is_configured(door) {
        let stage = Stage::with_config(Times::default(), |config| config + RETURNABLE).await;
        let held = stage.fake.hold(Gate::OrderCommitted, Filter::default());
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "returnable", tag()).await;
        held.reached().await;
        cancel(&mut caller, pending, &stage).await;
        held.release();
        let row = stage.phase("compensated").await;
        assert_eq!(row["outcome"], "completed");
        assert_eq!(requests(&stage, Route::DeleteRows).len(), 1);
        told(&mut caller, &stage, "undone").await;
        stage.agree().await;
        caller.nothing_was_sent_for(&[1]).await;
    }
}
