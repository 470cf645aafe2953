//! The breaker and the retry budget: they delay, and never drop.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use countermand_core::{
    Dice, HealthPolicy, Now, Timestamp,
    event::Says,
    health::{Ask, Change, Health, Pass, STOP_WAITS, Try, Urgency, Verdict, Words},
};
use proptest::prelude::*;
use std::time::Duration;

const START: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

fn now(at: Timestamp) -> Now {
    Now { at, dice: Dice([255; 16]) }
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn ask(urgency: Urgency, tried: Try, due: Timestamp) -> Ask {
    Ask { urgency, tried, due, before: None }
}

fn work(at: Timestamp) -> Ask {
    ask(Urgency::Work, Try::First, at)
}

fn stop(due: Timestamp) -> Ask {
    ask(Urgency::Stop, Try::First, due)
}

fn passes(health: &mut Health, ask: &Ask, at: Timestamp) -> Pass {
    match health.ask(ask, now(at)) {
        Verdict::Go(pass) => pass,
        Verdict::Wait(until) => panic!("it waits until {until:?}"),
    }
}

fn waits(health: &mut Health, ask: &Ask, at: Timestamp) -> Timestamp {
    match health.ask(ask, now(at)) {
        Verdict::Wait(until) => until,
        Verdict::Go(_) => panic!("it passes"),
    }
}

fn fails(health: &mut Health, pass: Pass, at: Timestamp) -> Option<Change> {
    let words = Words { message: "503", retry_after: None };
    health.told(pass, Says::Ill, words, now(at))
}

/// One that has just opened, at `START`.
fn open() -> Health {
    let mut health = Health::new(HealthPolicy::default());
    for failure in 1..=5 {
        let pass = passes(&mut health, &work(START), START);
        let change = fails(&mut health, pass, START);
        assert_eq!(matches!(change, Some(Change::Opened(_))), failure == 5, "{failure}: {change:?}");
    }
    health
}

#[test]
fn it_opens_after_failures_in_a_row_and_an_answer_in_between_starts_the_count_anew() {
    let mut health = Health::new(HealthPolicy::default());
    for _ in 0..4 {
        let pass = passes(&mut health, &work(START), START);
        assert_eq!(fails(&mut health, pass, START), None);
    }
    let pass = passes(&mut health, &work(START), START);
    assert_eq!(health.told(pass, Says::Well, Words::default(), now(START)), None);
    for _ in 0..4 {
        let pass = passes(&mut health, &work(START), START);
        // What was given up by us says nothing either way.
        let given_up = passes(&mut health, &work(START), START);
        assert_eq!(health.told(given_up, Says::Nothing, Words::default(), now(START)), None);
        assert_eq!(fails(&mut health, pass, START), None);
    }
    let pass = passes(&mut health, &work(START), START);
    let Some(Change::Opened(held)) = fails(&mut health, pass, START) else { panic!("it opens") };
    assert_eq!((held.failures, held.last.as_str(), held.until), (5, "503", START + secs(5)));
}

#[test]
fn after_its_pause_one_request_at_a_time_finds_out_and_an_answer_lets_all_through() {
    let mut health = open();
    assert_eq!(waits(&mut health, &work(START), START), START + secs(5));
    let at = START + secs(5);
    let probe = passes(&mut health, &work(START), at);
    let until = waits(&mut health, &work(START), at);
    assert!(until > at, "a second probe");
    assert_eq!(health.told(probe, Says::Well, Words::default(), now(at)), Some(Change::Closed(START)));
    for _ in 0..10 {
        passes(&mut health, &work(START), at);
    }
    assert_eq!(health.held(), None);
}

#[test]
fn a_probe_that_fails_doubles_the_pause_up_to_its_bound() {
    let mut health = open();
    let mut at = START;
    for pause in [5, 10, 20, 40, 60, 60] {
        assert_eq!(waits(&mut health, &work(START), at), at + secs(pause));
        at = at + secs(pause);
        let probe = passes(&mut health, &work(START), at);
        let Some(Change::StaysOpen(held)) = fails(&mut health, probe, at) else { panic!("it stays open") };
        assert_eq!(held.since, START);
    }
}

#[test]
fn a_probe_that_is_given_up_makes_room_for_the_next_one_and_so_does_one_that_hangs() {
    let mut health = open();
    let at = START + secs(5);
    let probe = passes(&mut health, &work(START), at);
    let ended = health.told(probe, Says::Nothing, Words::default(), now(at));
    assert_eq!(ended, Some(Change::ProbeEnded));
    passes(&mut health, &work(START), at);
    let next = waits(&mut health, &work(START), at);
    passes(&mut health, &work(START), next);
}

#[test]
fn a_cancel_waits_two_seconds_at_most_from_when_it_was_due_and_its_answer_counts() {
    let mut health = open();
    assert_eq!(waits(&mut health, &stop(START), START), START + STOP_WAITS);
    let pass = passes(&mut health, &stop(START), START + STOP_WAITS);
    assert_eq!(fails(&mut health, pass, START + STOP_WAITS), None, "it does not prolong the pause");
    // Held up by something else for long enough already.
    let pass = passes(&mut health, &stop(START), START + secs(3));
    assert_eq!(waits(&mut health, &work(START), START + secs(3)), START + secs(5));
    let change = health.told(pass, Says::Well, Words::default(), now(START + secs(3)));
    assert_eq!(change, Some(Change::Closed(START)));
}

#[test]
fn a_read_between_two_cancels_does_not_put_off_the_second() {
    let mut health = open();
    let read = Ask { before: Some(START + Duration::from_millis(300)), ..stop(START) };
    assert_eq!(waits(&mut health, &read, START), START + Duration::from_millis(300));
}

#[test]
fn what_was_sent_before_it_opened_or_closed_changes_nothing_any_more() {
    let mut health = Health::new(HealthPolicy::default());
    let early: Vec<_> = (0..12).map(|_| passes(&mut health, &work(START), START)).collect();
    for pass in &early[..5] {
        fails(&mut health, *pass, START);
    }
    assert!(health.held().is_some());
    assert_eq!(health.told(early[5], Says::Well, Words::default(), now(START)), None, "an old answer");
    let at = START + secs(5);
    let probe = passes(&mut health, &work(START), at);
    health.told(probe, Says::Well, Words::default(), now(at)).unwrap();
    for pass in &early[6..] {
        assert_eq!(fails(&mut health, *pass, at), None, "an old failure");
    }
    assert_eq!(health.held(), None);
}

#[test]
fn the_upstreams_own_word_on_when_to_come_back_prolongs_the_pause_within_its_bound() {
    for (asked, pause) in [(30, 30), (3_600, 60), (1, 5)] {
        let mut health = Health::new(HealthPolicy::default());
        for _ in 0..5 {
            let pass = passes(&mut health, &work(START), START);
            let words = Words { message: "503", retry_after: Some(secs(asked)) };
            health.told(pass, Says::Ill, words, now(START));
        }
        assert_eq!(waits(&mut health, &work(START), START), START + secs(pause));
    }
}

#[test]
fn retries_have_a_floor_and_a_share_of_first_requests_and_wait_for_their_turn_beyond() {
    let mut health = Health::new(HealthPolicy::default());
    let again = ask(Urgency::Work, Try::Again, START);
    let free = (0..200).filter(|_| health.reserve(&again, now(START)) == START).count();
    assert_eq!(free, 100, "what ten seconds add up to");
    let next = health.reserve(&again, now(START));
    assert_eq!(next, START + Duration::from_millis(10_100), "each waits for its own turn");
    health.give_back(&again);
    assert_eq!(health.reserve(&again, now(START)), next, "what is not sent is given back");
    for _ in 0..600 {
        assert_eq!(health.reserve(&work(START), now(START)), START, "a first request never waits");
    }
    let paid = (0..200).filter(|_| health.reserve(&again, now(START)) == START).count();
    assert_eq!(paid, 120, "a share of the first requests");
}

#[test]
fn what_first_requests_have_earned_is_kept_for_ten_seconds_at_least_and_for_twenty_at_most() {
    let free = |after: u64| {
        let mut health = Health::new(HealthPolicy { retries_per_second: 1, ..HealthPolicy::default() });
        for _ in 0..10_000 {
            health.reserve(&work(START), now(START));
        }
        let at = START + secs(after);
        let again = ask(Urgency::Work, Try::Again, at);
        (0..5_000).filter(|_| health.reserve(&again, now(at)) == at).count()
    };
    assert_eq!((free(0), free(10), free(20)), (2_010, 2_010, 10));
}

#[test]
fn a_cancel_that_is_sent_again_waits_two_seconds_at_most_however_many_there_are() {
    let mut health = Health::new(HealthPolicy::default());
    let again = ask(Urgency::Stop, Try::Again, START);
    for _ in 0..10_000 {
        assert!(health.reserve(&again, now(START)) <= START + STOP_WAITS);
    }
    let work = health.reserve(&ask(Urgency::Work, Try::Again, START), now(START));
    assert!(work <= START + secs(3), "those that could not wait leave no debt: {work:?}");
}

/// A request that wants to be sent, and what becomes of it.
#[derive(Debug, Clone)]
struct Request {
    at: u64,
    stops: bool,
    tried: u8,
    takes: u64,
    says: u8,
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let one = (0u64..120_000, any::<bool>(), 0u8..3, 0u64..15_000, 0u8..6)
        .prop_map(|(at, stops, tried, takes, says)| Request { at, stops, tried, takes, says });
    prop::collection::vec(one, 1..80)
}

fn policies() -> impl Strategy<Value = HealthPolicy> {
    (1u32..8, 1u64..20, 1u64..90, 0u32..100, 1u32..20).prop_map(|(failures, open, max, percent, rate)| {
        HealthPolicy {
            failures,
            open: secs(open),
            max: secs(max.max(open)),
            retry_percent: percent,
            retries_per_second: rate,
        }
    })
}

proptest! {
    /// Whatever the upstream does: no request is lost, no cancel waits longer than two seconds, and while it is open
    /// what can wait goes one at a time.
    #[test]
    fn it_delays_and_never_drops(policy in policies(), requests in requests(), dice in any::<[u8; 16]>()) {
        let mut health = Health::new(policy);
        let at_ms = |ms: u64| START + Duration::from_millis(ms);
        // (when to look again, which request, its ask, its not_before)
        let mut waiting: Vec<(Timestamp, usize, Ask, Option<Timestamp>)> = Vec::new();
        let mut in_flight: Vec<(Timestamp, usize, Pass)> = Vec::new();
        let mut probe: Option<usize> = None;
        let mut sent = 0;
        for (which, request) in requests.iter().enumerate() {
            let urgency = if request.stops { Urgency::Stop } else { Urgency::Work };
            let tried = [Try::First, Try::Again, Try::Poll][usize::from(request.tried)];
            waiting.push((at_ms(request.at), which, ask(urgency, tried, at_ms(request.at)), None));
        }
        for _ in 0..20_000 {
            let land = in_flight.iter().map(|f| f.0).min();
            let look = waiting.iter().map(|w| w.0).min();
            let Some(at) = [land, look].into_iter().flatten().min() else { break };
            let now = Now { at, dice: Dice(dice) };
            if let Some(place) = in_flight.iter().position(|f| f.0 == at) {
                let (_, which, pass) = in_flight.remove(place);
                let says = [Says::Ill, Says::Ill, Says::Ill, Says::Ill, Says::Well, Says::Nothing];
                let says = says[usize::from(requests[which].says)];
                probe = probe.filter(|probing| *probing != which);
                let change = health.told(pass, says, Words { message: "x", retry_after: None }, now);
                if matches!(change, Some(Change::Closed(_))) {
                    probe = None;
                }
                if change.is_some() {
                    // All who wait are woken.
                    for waits in &mut waiting {
                        if waits.3.is_some() {
                            waits.0 = at;
                        }
                    }
                }
                continue;
            }
            let place = waiting.iter().position(|w| w.0 == at).unwrap();
            let (_, which, ask, not_before) = waiting.remove(place);
            let not_before = not_before.unwrap_or_else(|| health.reserve(&ask, now));
            if at < not_before {
                waiting.push((not_before, which, ask, Some(not_before)));
                continue;
            }
            let was_open = health.held();
            match health.ask(&ask, now) {
                Verdict::Wait(until) => {
                    prop_assert!(until > at, "it would ask for ever");
                    waiting.push((until, which, ask, Some(not_before)));
                }
                Verdict::Go(pass) => {
                    sent += 1;
                    if ask.urgency == Urgency::Stop {
                        prop_assert!(at <= ask.due + STOP_WAITS, "{:?}", at.since(ask.due));
                    } else if let Some(held) = was_open {
                        prop_assert!(at >= held.until);
                        prop_assert_eq!(probe, None, "two probes");
                        probe = Some(which);
                    }
                    in_flight.push((at + Duration::from_millis(requests[which].takes), which, pass));
                }
            }
        }
        prop_assert_eq!(sent, requests.len());
    }
}
