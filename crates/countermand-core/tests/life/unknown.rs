//! `unknown`: was it created? Which question comes first, and what an answer proves.

use crate::kit::*;
use countermand_core::{
    Desired, Lookup, Phase, Policy, Timestamp, Turn,
    due::Due,
    event::{Alarm, CreateAnswer, Event, FindAnswer},
};

const HORIZON: Timestamp = Timestamp::from_micros(START.as_micros() + 60_000_000);

fn key_only() -> Policy {
    Policy { find: None, ..policy() }
}

fn find_only() -> Policy {
    Policy { key_window: None, ..policy() }
}

#[test]
fn without_a_cancel_the_replay_comes_first() {
    Op::new(policy()).unknown().sends(Turn::Replay);
    Op::new(key_only()).unknown().sends(Turn::Replay);
    Op::new(find_only()).unknown().sends(Turn::Find);
}

#[test]
fn with_a_cancel_the_look_up_comes_first_and_a_replay_only_where_there_is_none() {
    for (policy, turn) in [(policy(), Turn::Find), (find_only(), Turn::Find), (key_only(), Turn::Replay)] {
        Op::new(policy.clone()).dispatched().on(cancel()).on(lost()).is(Phase::Unknown).sends(turn);
        Op::new(policy).unknown().on(cancel()).is(Phase::Unknown).durable().sends(turn);
    }
}

#[test]
fn a_second_wish_for_the_cancel_does_not_hurry_the_look_up() {
    let op = Op::new(policy()).unknown().on(cancel()).sends(Turn::Find);
    let asked = op.at;
    let op = op.on(find_failed(asked)).sends_after(Turn::Find, millis(200));
    op.on(cancel()).on(left()).sends_after(Turn::Find, millis(200));
}

#[test]
fn a_replay_keeps_the_phase_and_moves_only_the_horizon() {
    let op = Op::new(policy()).unknown().after(secs(1)).on(Event::CreateStarted).durable();
    assert_eq!((op.row.phase, op.row.create_horizon), (Phase::Unknown, None), "one is in flight");
    assert_eq!(op.row.create_sent_at, Some(START));
    assert_eq!(op.due(), Due::Later(op.row.next_at));
    let op = op.after(secs(2)).on(lost()).is(Phase::Unknown).durable();
    assert_eq!(op.row.create_sent_at, Some(START), "the first send");
    assert_eq!(op.row.create_horizon, Some(START + secs(63)));
    assert_eq!(op.row.phase_since, START);
}

#[test]
fn an_id_leads_on_as_in_dispatched() {
    for (wanted, can_cancel, phase) in
        [(false, true, Phase::Running), (true, true, Phase::CancelRequested), (true, false, Phase::Draining)]
    {
        let policy = Policy { can_cancel, ..key_only() };
        let replayed = Op::new(policy.clone()).unknown().on(Event::CreateStarted);
        let replayed = if wanted { replayed.on(cancel()) } else { replayed };
        replayed.on(created()).is(phase).durable();

        let op = Op::new(Policy { find: Some(Lookup::Consistent), ..policy }).unknown();
        let op = if wanted { op.on(cancel()) } else { op };
        let asked = op.at;
        op.on(hit(asked)).is(phase).durable();
    }
}

#[test]
fn any_other_answer_to_a_replay_proves_nothing_and_the_look_up_is_next() {
    for answer in [lost(), refused(), not_sent(), throttled(None), created_without_id()] {
        let op = Op::new(policy()).unknown().on(Event::CreateStarted).on(answer.clone());
        op.is(Phase::Unknown).sends(Turn::Find);
        let op = Op::new(key_only()).unknown().on(Event::CreateStarted).on(answer);
        op.is(Phase::Unknown).sends_after(Turn::Replay, millis(200));
    }
}

#[test]
fn a_miss_counts_only_if_the_look_up_was_sent_after_the_horizon() {
    for (wanted, phase) in [(true, Phase::NeverCreated), (false, Phase::Failed)] {
        let op = Op::new(find_only()).unknown();
        let op = if wanted { op.on(cancel()) } else { op };
        let before = Timestamp::from_micros(HORIZON.as_micros() - 1);
        let op = op.at_second(65).on(miss(before)).is(Phase::Unknown);
        op.on(miss(HORIZON)).is(phase).durable().sealed();
    }
}

#[test]
fn a_miss_while_a_replay_is_in_flight_proves_nothing_and_asks_nothing() {
    let op = Op::new(policy()).unknown().at_second(70).on(Event::CreateStarted);
    let at = op.at;
    let op = op.on(miss(at)).on(find_failed(at)).is(Phase::Unknown);
    assert_eq!(op.row.turn, None);
    op.on(created()).is(Phase::Running);
}

#[test]
fn a_hit_while_a_replay_is_in_flight_leads_on() {
    let op = Op::new(policy()).unknown().on(Event::CreateStarted);
    let at = op.at;
    op.on(hit(at)).is(Phase::Running);
}

#[test]
fn a_list_that_lags_takes_two_misses_of_two_look_ups() {
    let policy = Policy { find: Some(Lookup::Eventual), key_window: None, ..policy() };
    let op = Op::new(policy).unknown().on(cancel()).at_second(61);
    let early = miss(START + secs(59));
    let first = miss(START + secs(61));
    let op = op.on(early.clone()).on(early).is(Phase::Unknown);
    let op = op.on(first.clone()).is(Phase::Unknown).durable();
    let op = op.on(first).is(Phase::Unknown).sends_after(Turn::Find, millis(1600));
    op.after(millis(1600)).on(miss(START + millis(62_600))).is(Phase::NeverCreated);
}

#[test]
fn after_a_counted_miss_nothing_is_replayed_where_nobody_wants_a_cancel() {
    let policy = Policy { find: Some(Lookup::Eventual), ..policy() };
    let op = Op::new(policy).unknown().at_second(61).on(miss(START + secs(61))).is(Phase::Unknown);
    let op = op.sends_after(Turn::Find, secs(1)).after(secs(1));
    op.on(miss(START + secs(62))).is(Phase::Failed);
}

#[test]
fn replays_end_where_a_look_up_could_decide() {
    let mut op = Op::new(policy()).unknown();
    let mut replays = 0;
    while op.row.phase == Phase::Unknown {
        let at = op.at;
        op = match op.due() {
            Due::Send(Turn::Replay) => {
                replays += 1;
                op.on(Event::CreateStarted).on(lost())
            }
            Due::Send(Turn::Find) => op.on(miss(at)),
            Due::Later(Some(next)) => op.after(next.since(at)),
            other => panic!("{other:?}"),
        };
    }
    op.is(Phase::Failed);
    assert!((1..=4).contains(&replays), "{replays}");
}

#[test]
fn a_replay_is_only_sent_while_it_must_arrive_inside_the_keys_window() {
    let policy = Policy { key_window: Some(secs(1000)), confirm_within: secs(5000), ..policy() };
    let until = 1000 - 30 - 60;
    let op = Op::new(policy).unknown().at_second(until - 1).sends(Turn::Replay);
    op.clone().on(Event::CreateStarted).is(Phase::Unknown);
    let op = op.at_second(until).refuses(Event::CreateStarted);
    assert_eq!(op.due(), Due::Time);
    op.on(Event::TimePassed).sends(Turn::Find);
}

#[test]
fn of_a_short_window_the_first_half_is_used() {
    let policy = Policy { key_window: Some(secs(10)), ..key_only() };
    Op::new(policy).unknown().at_second(4).sends(Turn::Replay).at_second(5).refuses(Event::CreateStarted);
}

#[test]
fn after_the_window_nobody_can_say_and_it_is_orphaned() {
    let policy = Policy { key_window: Some(secs(1000)), confirm_within: secs(5000), ..key_only() };
    let op = Op::new(policy).unknown().at_second(910);
    op.on(Event::TimePassed).was(Phase::Unknown).alarms(Alarm::Orphaned).refuses(Event::CreateStarted);
}

#[test]
fn with_neither_look_up_nor_key_it_is_orphaned_at_once() {
    let op = Op::new(Policy { find: None, ..find_only() }).dispatched().on(lost());
    let op = op.was(Phase::Unknown).alarms(Alarm::Orphaned);
    assert_eq!(op.row.next_at, Some(op.row.hard_deadline));
}

#[test]
fn unsolved_for_long_after_the_horizon_it_is_orphaned_and_goes_on() {
    let op = Op::new(policy()).unknown().on(cancel()).at_second(61);
    let failed = find_failed(op.at);
    let op = op.on(failed).time_passes(secs(28)).is(Phase::Unknown);
    let op = op.time_passes(secs(1)).was(Phase::Unknown).alarms(Alarm::Orphaned).sends(Turn::Find);
    let at = op.at;
    op.on(miss(at)).is(Phase::NeverCreated);
}

#[test]
fn replays_do_not_put_the_orphaning_off() {
    let op = Op::new(key_only()).unknown().at_second(80).on(Event::CreateStarted).on(lost());
    op.time_passes(secs(10)).was(Phase::Unknown).sends(Turn::Replay);
}

#[test]
fn refused_credentials_orphan_at_once_and_are_not_tried_fast() {
    let asked = |at| Event::FindAnswered { sent_at: at, answer: FindAnswer::Failed(unauthorised()) };
    let op = Op::new(find_only()).unknown();
    let at = op.at;
    let op = op.on(asked(at)).was(Phase::Unknown).alarms(Alarm::Unauthorised);
    op.sends_after(Turn::Find, secs(60));
    let replay = Op::new(key_only()).unknown().on(Event::CreateStarted);
    let op = replay.on(Event::CreateAnswered(CreateAnswer::Refused(unauthorised())));
    op.was(Phase::Unknown).alarms(Alarm::Unauthorised).sends_after(Turn::Replay, secs(60));
}

#[test]
fn a_hit_without_an_id_is_no_answer() {
    let op = Op::new(find_only()).unknown();
    let answer = FindAnswer::Hit { id: None, saved: serde_json::Map::new() };
    let found = Event::FindAnswered { sent_at: op.at, answer };
    op.on(found).is(Phase::Unknown).sends_after(Turn::Find, millis(200));
}

#[test]
fn the_hard_deadline_makes_it_a_cancel() {
    let policy = Policy { confirm_within: secs(7200), ..policy() };
    let op = Op::new(policy).unknown().at_second(3600).on(Event::TimePassed).is(Phase::Unknown);
    assert_eq!(op.row.desired, Desired::Cancel);
    op.sends(Turn::Find);
}
