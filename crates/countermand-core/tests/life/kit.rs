//! One operation under test, a clock that moves only when told, and short words for the upstream's answers.

use countermand_core::{
    CallId, Cause, DefinitionHash, Dice, Inputs, Key, Kind, Lookup, NewRow, Now, OnDisconnect, OperationId,
    Outcome, Owner, Phase, Policy, Principal, Row, Timestamp, Turn, UpstreamId, WhenCompleted,
    due::{Due, due},
    event::{
        Alarm, CancelAnswer, CreateAnswer, Effect, End, Event, FindAnswer, RequestAnswer, StatusAnswer,
        Trouble,
    },
    step,
};
use serde_json::{Map, json};
use std::{sync::Arc, time::Duration};

pub(crate) const START: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

pub(crate) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A job with every means: cancel, look-up, key.
pub(crate) fn policy() -> Policy {
    Policy {
        kind: Kind::Job,
        can_cancel: true,
        confirm_within: secs(30),
        force_after: None,
        find: Some(Lookup::Consistent),
        key_window: Some(secs(24 * 3600)),
        shield: secs(30),
        horizon: secs(60),
        poll_every: millis(500),
        poll_max: secs(10),
        lifetime: secs(3600),
        undo_steps: 0,
        when_completed: WhenCompleted::Compensate,
        mark: false,
    }
}

/// An operation and the time. The dice always show the longest pause.
#[derive(Debug, Clone)]
pub(crate) struct Op {
    pub(crate) row: Row,
    pub(crate) at: Timestamp,
    pub(crate) effects: Vec<Effect>,
    rolls: u8,
}

impl Op {
    pub(crate) fn new(policy: Policy) -> Self {
        Self::of(policy, OnDisconnect::Cancel)
    }

    pub(crate) fn of(policy: Policy, on_disconnect: OnDisconnect) -> Self {
        let row = Row::new(Self::seed(policy, on_disconnect), START);
        Self { row, at: START, effects: Vec::new(), rolls: 0 }
    }

    /// A call of an MCP server whose cancel is wanted: `unverified` after ten seconds, or by force from then on.
    pub(crate) fn forwarded(force_after: Option<Duration>) -> Self {
        let confirm_within = force_after.unwrap_or_default() + secs(10);
        let policy =
            Policy { kind: Kind::Mcp, find: None, key_window: None, force_after, confirm_within, ..policy() };
        let seed = Self::seed(policy, OnDisconnect::Cancel);
        let row = Row::forwarded(seed, UpstreamId::from("7"), (Cause::ClientCancelled, None), START);
        Self { row, at: START, effects: Vec::new(), rolls: 0 }
    }

    fn seed(policy: Policy, on_disconnect: OnDisconnect) -> NewRow {
        let mut inputs = Map::new();
        inputs.insert("tag".into(), json!("t-1"));
        NewRow {
            id: OperationId(uuid::Uuid::from_u128(1)),
            call: CallId(uuid::Uuid::from_u128(2)),
            session: None,
            request_id: None,
            principal: Principal::from("p"),
            tool: "tool".into(),
            args_hash: String::new(),
            inputs,
            definition: DefinitionHash::from("d"),
            policy: Arc::new(policy),
            upstream: "u".into(),
            key: Key(uuid::Uuid::from_u128(3)),
            on_disconnect,
            owner: Owner::from("first"),
            epoch: 1,
        }
    }

    pub(crate) fn try_on(&mut self, event: Event) -> bool {
        self.rolls = self.rolls.wrapping_add(1);
        let mut dice = [0xff; 16];
        dice[15] = self.rolls;
        match step(self.row.clone(), event, Now { at: self.at, dice: Dice(dice) }) {
            Ok((row, effects)) => {
                self.row = row;
                self.effects = effects;
                true
            }
            Err(_) => false,
        }
    }

    /// The event happens now.
    pub(crate) fn on(mut self, event: Event) -> Self {
        let (phase, name) = (self.row.phase, event.name());
        assert!(self.try_on(event), "`{name}` is illegal in `{phase}`");
        self
    }

    /// The event would be illegal now.
    pub(crate) fn refuses(mut self, event: Event) -> Self {
        let name = event.name();
        assert!(!self.try_on(event), "`{name}` is legal in `{}`", self.row.phase);
        self
    }

    pub(crate) fn after(mut self, time: Duration) -> Self {
        self.at = self.at + time;
        self
    }

    /// Goes to this time after the start, and lets the timers look.
    pub(crate) fn at_second(mut self, second: u64) -> Self {
        self.at = START + secs(second);
        self
    }

    pub(crate) fn time_passes(self, time: Duration) -> Self {
        self.after(time).on(Event::TimePassed)
    }

    pub(crate) fn due(&self) -> Due {
        due(&self.row, self.at)
    }

    pub(crate) fn is(self, phase: Phase) -> Self {
        assert_eq!(self.row.phase, phase, "{:#?}", self.row);
        self
    }

    pub(crate) fn was(self, phase: Phase) -> Self {
        assert_eq!((self.row.phase, self.row.was), (Phase::Orphaned, Some(phase)), "{:#?}", self.row);
        self
    }

    /// This request is due now.
    pub(crate) fn sends(self, turn: Turn) -> Self {
        assert_eq!(self.due(), Due::Send(turn), "{:#?}", self.row);
        self
    }

    /// This request is due after the pause, and nothing is before.
    pub(crate) fn sends_after(self, turn: Turn, pause: Duration) -> Self {
        assert_eq!(due(&self.row, self.at + pause - Duration::from_micros(1)), later(&self.row), "too early");
        assert_eq!(due(&self.row, self.at + pause), Due::Send(turn), "{:#?}", self.row);
        self
    }

    pub(crate) fn outcome(self, outcome: Outcome) -> Self {
        assert_eq!(self.row.outcome, Some(outcome));
        self
    }

    pub(crate) fn alarms(self, alarm: Alarm) -> Self {
        assert!(self.effects.contains(&Effect::Alarm(alarm)), "{:?}", self.effects);
        self
    }

    pub(crate) fn quiet(self) -> Self {
        assert!(!self.effects.iter().any(|e| matches!(e, Effect::Alarm(_))), "{:?}", self.effects);
        self
    }

    pub(crate) fn durable(self) -> Self {
        assert!(self.effects.contains(&Effect::Persist), "{:?}", self.effects);
        self
    }

    pub(crate) fn sealed(self) -> Self {
        assert!(matches!(self.row.inputs, Inputs::Sealed(_)));
        assert_eq!(self.row.settled_at, Some(self.at));
        assert_eq!((self.row.next_at, self.due()), (None, Due::Nothing));
        self
    }
}

fn later(row: &Row) -> Due {
    Due::Later(row.next_at)
}

/// Ways to the phases, each the shortest.
impl Op {
    pub(crate) fn dispatched(self) -> Self {
        self.on(Event::CreateStarted).is(Phase::Dispatched)
    }

    pub(crate) fn unknown(self) -> Self {
        self.dispatched().on(lost()).is(Phase::Unknown)
    }

    pub(crate) fn running(self) -> Self {
        self.dispatched().on(created()).is(Phase::Running)
    }

    pub(crate) fn cancel_requested(self) -> Self {
        self.running().on(cancel()).is(Phase::CancelRequested)
    }

    pub(crate) fn cancelling(self) -> Self {
        self.cancel_requested().on(accepted()).is(Phase::Cancelling)
    }

    /// Says cancelled once; the confirming read is owed.
    pub(crate) fn ended_cancelled(self) -> Self {
        self.cancelling().on(ended(End::Cancelled)).is(Phase::Ended)
    }

    pub(crate) fn draining(self) -> Self {
        self.running().on(cancel()).is(Phase::Draining)
    }

    pub(crate) fn orphaned_running(self) -> Self {
        self.running().on(missing()).after(secs(10)).on(missing()).was(Phase::Running)
    }

    pub(crate) fn orphaned_unknown(self) -> Self {
        self.unknown().time_passes(secs(90)).was(Phase::Unknown)
    }

    pub(crate) fn needs_intervention(self) -> Self {
        self.orphaned_unknown().time_passes(secs(24 * 3600)).is(Phase::NeedsIntervention)
    }

    pub(crate) fn compensating(self) -> Self {
        self.cancelling().on(ended(End::Failed)).is(Phase::Compensating)
    }

    pub(crate) fn compensation_failed(self) -> Self {
        self.compensating()
            .on(Event::UndoAnswered(RequestAnswer::Refused(Trouble::new("400"))))
            .is(Phase::CompensationFailed)
    }
}

pub(crate) fn created() -> Event {
    Event::CreateAnswered(CreateAnswer::Created { id: Some(UpstreamId::from("j-1")), saved: Map::new() })
}

pub(crate) fn created_without_id() -> Event {
    Event::CreateAnswered(CreateAnswer::Created { id: None, saved: Map::new() })
}

pub(crate) fn lost() -> Event {
    Event::CreateAnswered(CreateAnswer::Lost(Trouble::new("reset")))
}

pub(crate) fn not_sent() -> Event {
    Event::CreateAnswered(CreateAnswer::NotSent(Trouble::new("no connection")))
}

pub(crate) fn throttled(retry_after: Option<Duration>) -> Event {
    Event::CreateAnswered(CreateAnswer::Throttled(Trouble { retry_after, ..Trouble::new("429") }))
}

pub(crate) fn refused() -> Event {
    Event::CreateAnswered(CreateAnswer::Refused(Trouble::new("422")))
}

pub(crate) fn hit(sent_at: Timestamp) -> Event {
    let answer = FindAnswer::Hit { id: Some(UpstreamId::from("j-1")), saved: Map::new() };
    Event::FindAnswered { sent_at, answer }
}

pub(crate) fn miss(sent_at: Timestamp) -> Event {
    Event::FindAnswered { sent_at, answer: FindAnswer::Miss }
}

pub(crate) fn find_failed(sent_at: Timestamp) -> Event {
    Event::FindAnswered { sent_at, answer: FindAnswer::Failed(Trouble::new("503")) }
}

pub(crate) fn seen(state: &str, listed: bool) -> Event {
    let answer = StatusAnswer::Running { state: state.into(), listed, retry_after: None, saved: Map::new() };
    Event::StatusAnswered(answer)
}

pub(crate) fn seen_running() -> Event {
    seen("running", true)
}

pub(crate) fn ended(end: End) -> Event {
    Event::StatusAnswered(StatusAnswer::Ended { end, error: None, saved: serde_json::Map::new() })
}

pub(crate) fn missing() -> Event {
    Event::StatusAnswered(StatusAnswer::Missing)
}

pub(crate) fn status_failed() -> Event {
    Event::StatusAnswered(StatusAnswer::Failed(Trouble::new("502")))
}

pub(crate) fn accepted() -> Event {
    Event::CancelAnswered(CancelAnswer::Accepted { how: "202".into() })
}

pub(crate) fn not_accepted(retry_after: Option<Duration>) -> Event {
    Event::CancelAnswered(CancelAnswer::NotAccepted(Trouble { retry_after, ..Trouble::new("503") }))
}

pub(crate) fn unauthorised() -> Trouble {
    Trouble { unauthorised: true, ..Trouble::new("401") }
}

pub(crate) fn undone() -> Event {
    Event::UndoAnswered(RequestAnswer::Done)
}

pub(crate) fn cancel() -> Event {
    cancel_by(Cause::ClientCancelled)
}

pub(crate) fn cancel_by(cause: Cause) -> Event {
    Event::CancelWanted { cause, reason: None, note: None }
}

pub(crate) fn left() -> Event {
    left_by(Cause::ClientDisconnected)
}

pub(crate) fn left_by(cause: Cause) -> Event {
    Event::ClientLeft { cause }
}

pub(crate) fn taken_over() -> Event {
    Event::TakenOver { owner: Owner::from("second"), epoch: 2 }
}
