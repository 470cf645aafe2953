//! `intent` and `dispatched`: from nothing sent to an id, or to nothing made.

use crate::kit::*;
use countermand_core::{
    Cause, Desired, Kind, OnDisconnect, Outcome, Phase, Policy, Turn,
    event::{Alarm, CreateAnswer, End, Event},
};

#[test]
fn a_new_operation_is_an_intent_whose_create_is_due() {
    let op = Op::new(policy()).is(Phase::Intent).sends(Turn::Create);
    assert_eq!(op.row.hard_deadline, START + secs(3600));
    assert_eq!(op.row.next_at, Some(START));
}

#[test]
fn a_cancel_of_an_intent_means_that_nothing_is_ever_sent() {
    Op::new(policy()).on(cancel()).is(Phase::NeverCreated).durable().sealed();
}

#[test]
fn the_send_is_durable_before_its_first_byte() {
    let op = Op::new(policy()).dispatched().durable();
    assert_eq!(op.row.create_sent_at, Some(START));
    assert_eq!(op.row.create_horizon, None, "it is in flight");
    assert_eq!(op.row.next_at, Some(op.row.hard_deadline), "nothing is due but the hard deadline");
}

#[test]
fn a_create_can_be_started_only_once_at_a_time() {
    Op::new(policy()).dispatched().refuses(Event::CreateStarted);
}

#[test]
fn an_id_leads_to_running_and_is_durable() {
    let op = Op::new(policy()).running().durable().sends_after(Turn::Status, millis(500));
    assert_eq!(op.row.upstream_id.as_ref().map(|id| id.as_str()), Some("j-1"));
}

#[test]
fn a_cancel_while_the_create_is_in_flight_only_waits_for_the_id() {
    let op = Op::new(policy()).dispatched().on(cancel()).is(Phase::Dispatched).durable();
    assert_eq!(op.row.desired, Desired::Cancel);
    op.on(created()).is(Phase::CancelRequested).durable().sends(Turn::Cancel);
}

#[test]
fn a_cancel_while_the_create_is_in_flight_leads_to_draining_where_it_is_unsupported() {
    let policy = Policy { can_cancel: false, ..policy() };
    Op::new(policy).dispatched().on(cancel()).on(created()).is(Phase::Draining).sends(Turn::Status);
}

#[test]
fn what_was_not_sent_or_was_throttled_is_tried_again_with_the_same_key() {
    for answer in [not_sent(), throttled(None)] {
        let op = Op::new(policy()).dispatched().on(answer).is(Phase::Dispatched).durable();
        let key = op.row.key;
        let op = op.sends_after(Turn::Create, millis(200)).after(millis(200)).on(Event::CreateStarted);
        assert_eq!(op.row.key, key);
        assert_eq!(op.row.create_sent_at, Some(START), "the key's window counts from the first send");
        op.on(created()).is(Phase::Running);
    }
}

#[test]
fn retry_after_delays_the_next_try() {
    Op::new(policy()).dispatched().on(throttled(Some(secs(7)))).sends_after(Turn::Create, secs(7));
}

#[test]
fn a_create_that_was_never_made_fails_in_the_end() {
    for answer in [not_sent(), throttled(None)] {
        let mut op = Op::new(policy()).dispatched();
        for _ in 0..3 {
            op = op.on(answer.clone()).is(Phase::Dispatched).after(secs(2)).sends(Turn::Create);
            op = op.on(Event::CreateStarted);
        }
        op.on(answer).is(Phase::Failed).outcome(Outcome::Failed).sealed();
    }
}

#[test]
fn what_was_not_made_and_is_wanted_cancelled_was_never_created() {
    for answer in [not_sent(), throttled(None)] {
        Op::new(policy()).dispatched().on(cancel()).on(answer).is(Phase::NeverCreated).sealed();
    }
}

#[test]
fn a_cancel_between_two_tries_does_not_wait_for_the_next() {
    Op::new(policy()).dispatched().on(not_sent()).on(cancel()).is(Phase::NeverCreated).sealed();
}

#[test]
fn a_refused_create_has_failed() {
    Op::new(policy()).dispatched().on(refused()).is(Phase::Failed).outcome(Outcome::Failed).sealed();
    Op::new(policy()).dispatched().on(cancel()).on(refused()).is(Phase::Failed).sealed();
}

#[test]
fn refused_credentials_are_loud() {
    let answer = Event::CreateAnswered(CreateAnswer::Refused(unauthorised()));
    Op::new(policy()).dispatched().on(answer).is(Phase::Failed).alarms(Alarm::Unauthorised);
}

#[test]
fn a_lost_answer_or_one_without_an_id_leaves_it_unknown() {
    for answer in [lost(), created_without_id()] {
        let op = Op::new(policy()).dispatched().after(secs(3)).on(answer).is(Phase::Unknown).durable();
        assert_eq!(op.row.create_horizon, Some(START + secs(63)), "from the end of the connection");
    }
}

#[test]
fn one_http_request_has_ended_with_its_answer() {
    let http = || Policy { kind: Kind::Http, can_cancel: false, ..policy() };
    for answer in [created(), created_without_id()] {
        let op = Op::new(http()).dispatched().on(answer).is(Phase::Ended).outcome(Outcome::Completed);
        op.on(Event::Delivered).is(Phase::Completed).sealed();
    }
    let replay = Op::new(http()).unknown().on(Event::CreateStarted).on(created_without_id());
    replay.is(Phase::Ended).outcome(Outcome::Completed);
    let op = Op::new(http()).unknown();
    let found = hit(op.at);
    op.on(found).is(Phase::Ended).outcome(Outcome::Completed);
}

#[test]
fn the_hard_deadline_cancels_what_was_not_sent() {
    Op::new(policy()).time_passes(secs(3600)).is(Phase::NeverCreated);
    Op::new(policy()).dispatched().on(not_sent()).time_passes(secs(3600)).is(Phase::NeverCreated);
}

#[test]
fn the_hard_deadline_sets_the_desire_while_the_create_is_in_flight() {
    let op = Op::new(policy()).dispatched().time_passes(secs(3600)).is(Phase::Dispatched).durable();
    assert_eq!((op.row.desired, op.row.cause), (Desired::Cancel, Some(Cause::Deadline)));
    assert_eq!(op.row.next_at, None, "the answer is what comes next");
}

#[test]
fn a_grace_that_ends_before_the_send_means_that_nothing_is_sent() {
    let op = Op::of(policy(), OnDisconnect::Grace(secs(5))).on(left()).is(Phase::Intent);
    let op = op.time_passes(secs(5)).is(Phase::NeverCreated);
    assert_eq!(op.row.cause, Some(Cause::ClientDisconnected));
}

#[test]
fn what_create_saves_stays() {
    let mut saved = serde_json::Map::new();
    saved.insert("url".into(), "/jobs/1".into());
    let answer = CreateAnswer::Created { id: Some("j-1".into()), saved };
    let op = Op::new(policy()).dispatched().on(Event::CreateAnswered(answer));
    assert_eq!(op.on(ended(End::Completed)).row.detail["url"], "/jobs/1");
}
