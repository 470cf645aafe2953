//! Random lives: whatever happens in whatever order, the invariants hold.
//!
//! A driver as simple as can be does what `due` says; clients, operators, crashes and the clock do what they
//! like; the upstream answers anything. After every event the row is compared with the one before.

use countermand_core::{
    CallId, Cause, DefinitionHash, Desired, Dice, Inputs, Key, Kind, Lookup, NewRow, Now, OnDisconnect,
    OperationId, Outcome, Owner, Phase, Policy, Principal, Row, Timestamp, Turn, UpstreamId, Verdict,
    WhenCompleted,
    due::{Due, due},
    event::{
        CancelAnswer, CreateAnswer, Effect, End, Event, FindAnswer, RequestAnswer, StatusAnswer, Trouble,
    },
    step,
    words::{Said, describe},
};
use proptest::prelude::*;
use serde_json::Map;
use std::{sync::Arc, time::Duration};

const START: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn secs(from: u64, to: u64) -> impl Strategy<Value = Duration> {
    (from * 1000..=to * 1000).prop_map(Duration::from_millis)
}

prop_compose! {
    fn policies()(
        kind in prop::sample::select(vec![Kind::Job, Kind::Job, Kind::Job, Kind::Http, Kind::Sql, Kind::Command, Kind::Mcp]),
        can_cancel in any::<bool>(),
        confirm_within in secs(1, 60),
        force_after in prop::option::of(secs(0, 60)),
        find in prop::option::of(prop::sample::select(vec![Lookup::Consistent, Lookup::Eventual])),
        key_window in prop::option::of(secs(1, 100_000)),
        shield in secs(0, 60),
        poll_every in secs(1, 5),
        poll_max in secs(1, 60),
        lifetime in secs(1, 10_000),
        undo_steps in 0u32..3,
        compensates in any::<bool>(),
        mark in any::<bool>(),
    ) -> Policy {
        Policy {
            kind,
            can_cancel: can_cancel && kind != Kind::Http,
            confirm_within,
            force_after,
            find,
            key_window,
            shield,
            horizon: shield * 2,
            poll_every,
            poll_max: poll_max.max(poll_every),
            lifetime,
            undo_steps,
            when_completed: if compensates { WhenCompleted::Compensate } else { WhenCompleted::Keep },
            mark,
        }
    }
}

fn farewells() -> impl Strategy<Value = OnDisconnect> {
    prop_oneof![
        Just(OnDisconnect::Cancel),
        secs(1, 100).prop_map(OnDisconnect::Grace),
        Just(OnDisconnect::Detach)
    ]
}

/// One throw of the world's dice: what sort of thing happens, which one, how long it takes, and ours.
type Throw = (u8, u8, u32, [u8; 16]);

fn throws() -> impl Strategy<Value = Vec<Throw>> {
    prop::collection::vec(any::<Throw>(), 1..250)
}

fn new_row(policy: Policy, on_disconnect: OnDisconnect) -> Row {
    let new = NewRow {
        id: OperationId(uuid::Uuid::from_u128(1)),
        call: CallId(uuid::Uuid::from_u128(2)),
        session: None,
        request_id: None,
        principal: Principal::from("p"),
        tool: "tool".into(),
        args_hash: String::new(),
        inputs: Map::new(),
        definition: DefinitionHash::from("d"),
        policy: Arc::new(policy),
        upstream: "u".into(),
        key: Key(uuid::Uuid::from_u128(3)),
        on_disconnect,
        owner: Owner::from("o"),
        epoch: 1,
    };
    Row::new(new, START)
}

#[derive(Debug)]
struct World {
    row: Row,
    at: Timestamp,
    flight: Option<(Turn, Timestamp)>,
    /// A create was sent whose answer did not say that nothing was made.
    may_exist: bool,
    creates: u32,
    reads_of_cancelled: u32,
    first_miss: Option<Timestamp>,
    ended: bool,
}

impl World {
    fn new(policy: Policy, on_disconnect: OnDisconnect) -> Self {
        Self {
            row: new_row(policy, on_disconnect),
            at: START,
            flight: None,
            may_exist: false,
            creates: 0,
            reads_of_cancelled: 0,
            first_miss: None,
            ended: false,
        }
    }

    /// The event happens; whether it had a meaning.
    fn happens(&mut self, event: &Event, dice: Dice) -> bool {
        let before = self.row.clone();
        let Ok((row, effects)) = step(before.clone(), event.clone(), Now { at: self.at, dice }) else {
            return false;
        };
        self.row = row;
        self.learn(event, &before);
        changes_are_lawful(&before, &self.row, &effects, self.at);
        self.is_lawful(event);
        true
    }

    fn learn(&mut self, event: &Event, before: &Row) {
        match event {
            Event::CreateStarted => {
                self.creates += 1;
                if self.may_exist {
                    let window = before.policy.key_window.expect("a replay needs a key");
                    let sent = before.create_sent_at.expect("a replay follows a create");
                    assert!(self.at < sent + window, "a replay after the key's window");
                    assert_eq!(before.turn, Some(Turn::Replay));
                }
                self.may_exist = true;
            }
            Event::CreateAnswered(CreateAnswer::NotSent(_) | CreateAnswer::Throttled(_)) => {
                self.may_exist &= before.owes() != Phase::Dispatched;
            }
            Event::StatusAnswered(answer) => match answer {
                StatusAnswer::Ended { end, .. } => {
                    self.ended = true;
                    self.reads_of_cancelled += u32::from(*end == End::Cancelled);
                    self.first_miss = None;
                }
                StatusAnswer::Running { .. } => {
                    self.ended = false;
                    self.reads_of_cancelled = 0;
                    self.first_miss = None;
                }
                StatusAnswer::Missing => {
                    self.first_miss.get_or_insert(self.at);
                    self.reads_of_cancelled += u32::from(before.owes() == Phase::Ended);
                }
                StatusAnswer::Failed(_) => {}
            },
            _ => {}
        }
    }

    /// What must hold of the row itself.
    fn is_lawful(&self, event: &Event) {
        let row = &self.row;
        if row.phase == Phase::Cancelled && row.outcome == Some(Outcome::Cancelled) {
            let needed = if row.kind.word_is_final() { 1 } else { 2 };
            assert!(self.reads_of_cancelled >= needed, "cancelled without a status read: {row:#?}");
        }
        if row.outcome == Some(Outcome::Gone) && matches!(event, Event::StatusAnswered(_)) {
            let since = self.first_miss.expect("gone without a miss");
            assert!(self.at >= since + Duration::from_secs(10));
        }
        assert_eq!(matches!(describe(row), Said::Stopped | Said::Gone), row.phase == Phase::Cancelled);
        assert_eq!(
            describe(row) == Said::Gone,
            row.phase == Phase::Cancelled && row.outcome == Some(Outcome::Gone)
        );
        if row.phase.is_settled() {
            assert!(matches!(row.inputs, Inputs::Sealed(_)));
            assert_eq!((row.next_at, due(row, self.at)), (None, Due::Nothing));
            assert!(row.settled_at.is_some());
        } else if !row.phase.awaits_operator() {
            let awaits_delivery = row.phase == Phase::Ended && row.awaited && row.turn.is_none();
            let in_flight = row.owes() == Phase::Dispatched
                || row.owes() == Phase::Unknown && row.create_horizon.is_none()
                || self.flight.is_some();
            assert!(row.next_at.is_some() || in_flight || awaits_delivery, "nobody looks at it: {row:#?}");
        }
        if row.disconnect_at.is_some() {
            assert!(matches!(row.on_disconnect, OnDisconnect::Grace(_)) && row.desired == Desired::Run);
        }
        if let Event::ClientLeft { cause } = event
            && row.on_disconnect.cancels_at_once(*cause)
            && row.owes().is_before_end()
        {
            assert_eq!(row.desired, Desired::Cancel, "nobody comes back");
        }
        if row.phase == Phase::NeverCreated && row.was.is_none() && self.may_exist {
            assert!(row.policy.find.is_some(), "only a look-up can tell that it was never created");
        }
        assert_eq!(row.phase == Phase::Orphaned || row.phase == Phase::NeedsIntervention, row.was.is_some());
        if matches!(row.phase, Phase::Compensating | Phase::Compensated) {
            assert!(row.policy.undo_steps > 0 && row.undo_key.is_some() && row.outcome.is_some());
        }
        if let Due::Later(Some(next)) = due(row, self.at) {
            assert!(next > self.at, "due in the past, and nothing to do");
        }
    }

    /// The driver's next move, the upstream's answer, or the passing of time.
    fn goes_on(&mut self, which: u8, amount: u32, dice: Dice) {
        if let Some((turn, sent_at)) = self.flight.take() {
            self.at = self.at + Duration::from_millis(u64::from(amount % 3000));
            self.happens(&answer(turn, sent_at, which, amount), dice);
            return;
        }
        match due(&self.row, self.at) {
            Due::Nothing => {}
            Due::Time => {
                let before = self.row.clone();
                assert!(self.happens(&Event::TimePassed, dice));
                assert_ne!(before, self.row, "a due timer changed nothing");
                assert_ne!(due(&self.row, self.at), Due::Time, "a due timer is still due: {:#?}", self.row);
            }
            Due::Send(turn) => {
                if matches!(turn, Turn::Create | Turn::Replay) {
                    assert!(self.happens(&Event::CreateStarted, dice), "due, and illegal: {:#?}", self.row);
                }
                self.flight = Some((turn, self.at));
            }
            Due::Later(Some(next)) => self.at = next + Duration::from_millis(u64::from(amount % 7)),
            Due::Later(None) => {
                self.happens(&Event::Delivered, dice);
            }
        }
    }

    fn throw(&mut self, (sort, which, amount, dice): Throw) {
        let dice = Dice(dice);
        let event = match sort {
            0..=199 => return self.goes_on(which, amount, dice),
            200..=207 => {
                self.at = self.at + Duration::from_secs(u64::from(amount % 200_000));
                return;
            }
            208..=215 => {
                self.at = self.at + Duration::from_millis(u64::from(amount % 100_000));
                Event::TimePassed
            }
            216..=223 => {
                self.flight = None;
                Event::TakenOver { owner: Owner::from("o"), epoch: self.row.epoch + 1 }
            }
            other => outside(other, which),
        };
        self.happens(&event, dice);
    }
}

/// What may change in one step, and what must be durable if it does.
fn changes_are_lawful(before: &Row, after: &Row, effects: &[Effect], at: Timestamp) {
    assert!(!before.phase.is_settled(), "a settled row changed");
    if before.desired == Desired::Cancel {
        assert_eq!(after.desired, Desired::Cancel, "a cancel went back");
    }
    if before.cause.is_some() {
        assert_eq!((before.cause, &before.reason), (after.cause, &after.reason), "the first cause changed");
    }
    assert_eq!(after.cause.is_some(), after.desired == Desired::Cancel);
    if before.create_sent_at.is_some() {
        assert_eq!(before.create_sent_at, after.create_sent_at, "the first send moved");
    }
    if before.upstream_id.is_some() {
        assert_eq!(before.upstream_id, after.upstream_id);
    }
    if after.undo_next != before.undo_next && after.phase == Phase::Compensating {
        assert_ne!(before.undo_key, after.undo_key, "two undo requests under one key");
    }
    assert_eq!(
        (before.id, before.key, before.hard_deadline, before.created_at, before.version),
        (after.id, after.key, after.hard_deadline, after.created_at, after.version)
    );
    let durable = effects.contains(&Effect::Persist);
    assert_eq!(after.updated_at, if durable { at } else { before.updated_at });
    if !durable {
        let scheduled = Row {
            turn: after.turn,
            turn_at: after.turn_at,
            cancel_at: after.cancel_at,
            next_at: after.next_at,
            attempts: after.attempts,
            ..before.clone()
        };
        assert_eq!(&scheduled, after, "more than the schedule changed, and it is not durable");
    }
    if before.phase != after.phase {
        assert!(durable);
    }
}

fn trouble(which: u8, amount: u32) -> Trouble {
    let retry_after = (which & 64 != 0).then(|| Duration::from_secs(u64::from(amount % 5000)));
    let unauthorised = which & 0x38 == 0x38;
    Trouble { retry_after, unauthorised, ..Trouble::new(format!("trouble {}", which & 3)) }
}

fn answer(turn: Turn, sent_at: Timestamp, which: u8, amount: u32) -> Event {
    let trouble = trouble(which, amount);
    let id = || Some(UpstreamId::from("j"));
    let request = match which % 4 {
        0 | 1 => RequestAnswer::Done,
        2 => RequestAnswer::Failed(trouble.clone()),
        _ => RequestAnswer::Refused(trouble.clone()),
    };
    match turn {
        Turn::Create | Turn::Replay => Event::CreateAnswered(match which % 8 {
            0 | 1 => CreateAnswer::Created { id: id(), saved: Map::new() },
            2 => CreateAnswer::Created { id: None, saved: Map::new() },
            3 => CreateAnswer::NotSent(trouble),
            4 => CreateAnswer::Throttled(trouble),
            5 if which > 128 => CreateAnswer::Refused(trouble),
            _ => CreateAnswer::Lost(trouble),
        }),
        Turn::Find => {
            let answer = match which % 4 {
                0 => FindAnswer::Hit { id: (which > 32).then_some(id()).flatten(), saved: Map::new() },
                1 => FindAnswer::Failed(trouble),
                _ => FindAnswer::Miss,
            };
            Event::FindAnswered { sent_at, answer }
        }
        Turn::Status => Event::StatusAnswered(match which % 8 {
            0 => StatusAnswer::Ended { end: End::Cancelled, error: None, saved: serde_json::Map::new() },
            1 if which > 128 => {
                StatusAnswer::Ended { end: End::Completed, error: None, saved: serde_json::Map::new() }
            }
            1 => StatusAnswer::Ended {
                end: End::Failed,
                error: Some("no".into()),
                saved: serde_json::Map::new(),
            },
            2 | 3 => StatusAnswer::Missing,
            4 => StatusAnswer::Failed(trouble),
            listed => StatusAnswer::Running {
                state: "s".into(),
                listed: listed != 5,
                retry_after: trouble.retry_after,
                saved: Map::new(),
            },
        }),
        Turn::Cancel | Turn::Force => Event::CancelAnswered(match which % 2 {
            0 => CancelAnswer::Accepted { how: "202".into() },
            _ => CancelAnswer::NotAccepted(trouble),
        }),
        Turn::Mark => Event::MarkAnswered(request),
        Turn::Undo => Event::UndoAnswered(request),
    }
}

/// What clients and operators do.
fn outside(sort: u8, which: u8) -> Event {
    let cause = Cause::ALL[usize::from(which) % Cause::ALL.len()];
    match sort {
        224..=231 => {
            Event::CancelWanted { cause, reason: (which > 128).then(|| format!("{which}")), note: None }
        }
        232..=239 => Event::ClientLeft { cause },
        240..=245 => Event::ClientReturned,
        246..=250 => Event::Delivered,
        251..=252 => Event::Resolved { verdict: Verdict::Ignored, note: String::new() },
        _ => Event::RetryWanted,
    }
}

/// An upstream that never answers anything useful.
fn fails(turn: Turn, sent_at: Timestamp, retry_after: Option<Duration>) -> Event {
    let trouble = Trouble { retry_after, ..Trouble::new("503") };
    match turn {
        Turn::Create | Turn::Replay => Event::CreateAnswered(CreateAnswer::Lost(trouble)),
        Turn::Find => Event::FindAnswered { sent_at, answer: FindAnswer::Failed(trouble) },
        Turn::Status => Event::StatusAnswered(StatusAnswer::Failed(trouble)),
        Turn::Cancel | Turn::Force => Event::CancelAnswered(CancelAnswer::NotAccepted(trouble)),
        Turn::Mark => Event::MarkAnswered(RequestAnswer::Failed(trouble)),
        Turn::Undo => Event::UndoAnswered(RequestAnswer::Failed(trouble)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_invariants_hold(
        policy in policies(), on_disconnect in farewells(), throws in throws(),
    ) {
        let mut world = World::new(policy, on_disconnect);
        for throw in throws {
            world.throw(throw);
        }
        prop_assert!(world.creates <= 1 || world.row.policy.key_window.is_some() || world.creates <= 4);
    }

    /// Not even answers that nobody asked for, at any time, break a row.
    #[test]
    fn unasked_answers_are_refused_or_lawful(
        policy in policies(), on_disconnect in farewells(), throws in throws(),
    ) {
        let mut row = new_row(policy, on_disconnect);
        let mut at = START;
        for (sort, which, amount, dice) in throws {
            at = at + Duration::from_millis(u64::from(amount % 20_000));
            let event = match sort {
                0..=127 => answer(Turn::ALL[usize::from(sort % 8)], at, which, amount),
                128..=159 => Event::CreateStarted,
                160..=175 => Event::TimePassed,
                176..=180 => Event::HeldUp { why: format!("held {}", which & 1) },
                181..=199 => Event::TakenOver { owner: Owner::from("o"), epoch: 1 },
                _ => outside(sort.max(224), which),
            };
            let before = row.clone();
            if let Ok((after, effects)) = step(row.clone(), event, Now { at, dice: Dice(dice) }) {
                changes_are_lawful(&before, &after, &effects, at);
                row = after;
            }
            prop_assert_eq!(matches!(describe(&row), Said::Stopped | Said::Gone), row.phase == Phase::Cancelled);
        }
    }

}

proptest! {
    // Each of them lives for days.
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// However an upstream fails, it is asked with pauses, and in the end an operator sees it.
    #[test]
    fn an_upstream_that_always_fails_meets_no_storm_and_becomes_visible(
        policy in policies().prop_map(|p| Policy { poll_max: p.poll_max.max(Duration::from_secs(20)), ..p }),
        has_id in any::<bool>(),
        wanted in any::<bool>(),
        ends_failed in any::<bool>(),
        retry_after in prop::option::of(prop::sample::select(vec![Duration::ZERO, Duration::from_secs(60)])),
        seed in any::<u64>(),
    ) {
        let mut world = World::new(policy, OnDisconnect::Detach);
        let mut roll = seed | 1;
        let mut dice = || {
            // xorshift: the dice must not repeat, or a pause of zero would.
            roll ^= roll << 13;
            roll ^= roll >> 7;
            roll ^= roll << 17;
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&roll.wrapping_mul(0x2545_F491_4F6C_DD1D).to_be_bytes());
            Dice(bytes)
        };
        world.happens(&Event::CreateStarted, dice());
        if has_id {
            world.happens(&answer(Turn::Create, START, 0, 0), dice());
        } else {
            world.happens(&fails(Turn::Create, START, None), dice());
        }
        if wanted {
            world.happens(&outside(224, 0), dice());
        }
        if ends_failed && has_id {
            let ended = StatusAnswer::Ended { end: End::Failed, error: None, saved: serde_json::Map::new() };
            world.happens(&Event::StatusAnswered(ended), dice());
        }
        let mut sent = 0u32;
        let mut moves = 0u32;
        while due(&world.row, world.at) != Due::Nothing {
            moves += 1;
            prop_assert!(moves < 200_000, "it never ends: {:#?}", world.row);
            let at = world.at;
            match due(&world.row, at) {
                Due::Send(turn) => {
                    sent += 1;
                    if matches!(turn, Turn::Create | Turn::Replay) {
                        world.happens(&Event::CreateStarted, dice());
                    }
                    world.happens(&fails(turn, at, retry_after), dice());
                }
                Due::Time => prop_assert!(world.happens(&Event::TimePassed, dice())),
                Due::Later(Some(next)) => world.at = next,
                Due::Later(None) | Due::Nothing => break,
            }
            if sent == 100 {
                prop_assert!(world.at.since(START) >= Duration::from_secs(10), "a storm: {:#?}", world.row);
            }
        }
        let row = &world.row;
        prop_assert!(
            row.phase.awaits_operator() || row.phase.is_settled() || row.phase == Phase::Ended,
            "{:#?}", row
        );
        let longest = row.policy.lifetime + row.policy.confirm_within + 2 * row.policy.horizon + DAY + DAY;
        prop_assert!(world.at.since(START) <= longest);
        prop_assert!(row.phase != Phase::Cancelled);
        prop_assert!(row.phase != Phase::Completed || row.kind == Kind::Http && has_id);
    }
}
