//! Our process, its ledger and the upstream as one transition system.

use crate::upstream::{Answer, Create, Flight, Job, Upstream, ZERO};
use countermand_core::{
    CallId, Cause, DefinitionHash, Desired, Dice, Key, Kind, Lookup, NewRow, Now, OnDisconnect, OperationId,
    Outcome, Owner, Phase, Policy, Principal, Row, Timestamp, Turn, UpstreamId,
    due::{Due, due},
    event::{
        CancelAnswer, CreateAnswer, Effect, End, Event, FindAnswer, IllegalEvent, RequestAnswer,
        StatusAnswer, Trouble,
    },
    step,
};
use serde_json::Map;
use stateright::{Model, Property};
use std::{sync::Arc, time::Duration};

pub(crate) const SETTLED_IS_SETTLED: &str = "settled: nothing alive upstream and no create on its way";
pub(crate) const ONE_JOB: &str = "at most one upstream job per key";
pub(crate) const CANCELLED_IS_CANCELLED: &str =
    "cancelled only if the upstream cancelled, or knows it no more";
pub(crate) const UNDO_AFTER_END: &str = "nothing is undone before the end";

/// One rule that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    Nothing,
    NoWriteBeforeSend,
    TrustsReceipts,
    CountsEarlyMisses,
    ReplaysLate,
    ReplaysUpToTheEdge,
    OneMissIsEnough,
    UndoesEarly,
    NoConfirmingRead,
}

/// What is explored.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) policy: Policy,
    /// How many look-ups may overlook what exists.
    pub(crate) stale: u8,
    /// Whether an ended job's id may be forgotten.
    pub(crate) forgetful: bool,
    pub(crate) on_disconnect: OnDisconnect,
    pub(crate) budget: Budget,
    pub(crate) broken: Broken,
}

impl World {
    pub(crate) fn new(policy: Policy) -> Self {
        let budget = Budget { crashes: 1, troubles: 1, doubles: 1, patience: 1, sleeps: 1 };
        Self {
            policy,
            stale: 0,
            forgetful: true,
            on_disconnect: OnDisconnect::Cancel,
            budget,
            broken: Broken::Nothing,
        }
    }
}

/// How often things may still happen that could happen for ever.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Our process dies.
    pub(crate) crashes: u8,
    /// A request or an answer is lost, late or an error.
    pub(crate) troubles: u8,
    /// A create is delivered twice.
    pub(crate) doubles: u8,
    /// The upstream says that it still runs, or says cancelled and runs on.
    pub(crate) patience: u8,
    /// Time passes beyond what is due, or while we wait.
    pub(crate) sleeps: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The row as our process has it.
    pub(crate) row: Row,
    /// The row as a crash leaves it.
    durable: Row,
    up: bool,
    flight: Option<Flight>,
    upstream: Upstream,
    budget: Budget,
    was_late: bool,
    /// An id came and had no meaning in the phase.
    lost_an_id: bool,
    /// A timer that was due still is after it was looked at.
    spins: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    ClientCancels,
    AnswerDelivered,
    Crash,
    Restart,
    TimerFires,
    Advance(Duration),
    Send(Turn),
    CreateArrives(usize),
    CreateArrivesAndStays(usize),
    StrayCancelArrives,
    Arrives(Answer),
    Received,
    Fails { arrives_later: bool },
    NotSent,
    Throttled,
    Refused,
    JobBecomes(usize, Job),
}

const DICE: Dice = Dice([0xff; 16]);

impl World {
    /// The policy that the row is driven by; the upstream keeps to the real one.
    fn believed(&self) -> Policy {
        let mut policy = self.policy.clone();
        match self.broken {
            Broken::ReplaysLate => policy.key_window = Some(Duration::from_secs(1_000_000)),
            // Longer by the way that a replay may take: `step` uses all of the real window.
            Broken::ReplaysUpToTheEdge => {
                let way = policy.shield + policy.horizon;
                policy.key_window = policy.key_window.map(|window| window + way);
            }
            Broken::OneMissIsEnough => policy.find = Some(Lookup::Consistent),
            _ => {}
        }
        policy
    }

    fn decide(&self, row: &Row, mut event: Event) -> Result<(Row, Vec<Effect>), IllegalEvent> {
        let receipt = matches!(event, Event::CancelAnswered(CancelAnswer::Accepted { .. }));
        if let (Broken::CountsEarlyMisses, Event::FindAnswered { sent_at, .. }) = (self.broken, &mut event) {
            *sent_at = ZERO + Duration::from_secs(1_000_000);
        }
        let (mut row, effects) = step(row.clone(), event, Now { at: ZERO, dice: DICE })?;
        match self.broken {
            Broken::TrustsReceipts if receipt => {
                row.phase = Phase::Cancelled;
                row.outcome = Some(Outcome::Cancelled);
            }
            Broken::UndoesEarly if receipt => {
                row.phase = Phase::Compensating;
                row.turn = Some(Turn::Undo);
                row.turn_at = Some(ZERO);
                row.cancel_at = None;
            }
            Broken::NoConfirmingRead
                if row.phase == Phase::Ended && row.outcome == Some(Outcome::Cancelled) =>
            {
                row.phase = Phase::Cancelled;
            }
            _ => {}
        }
        Ok((row, effects))
    }

    fn happens(&self, state: &mut State, event: Event) {
        let brings_id = matches!(
            event,
            Event::CreateAnswered(CreateAnswer::Created { .. })
                | Event::FindAnswered { answer: FindAnswer::Hit { .. }, .. }
        );
        let send = event == Event::CreateStarted;
        match self.decide(&state.row, event) {
            Ok((row, effects)) => {
                state.row = row;
                forget(&mut state.row);
                state.was_late |= state.row.phase == Phase::Orphaned;
                let skips = self.broken == Broken::NoWriteBeforeSend && send;
                if effects.contains(&Effect::Persist) && !skips {
                    state.durable = state.row.clone();
                }
                if is_over(&state.row) {
                    state.flight = None;
                    state.upstream.disconnect(self.policy.horizon);
                    state.budget = Budget { crashes: 0, troubles: 0, doubles: 0, patience: 0, sleeps: 0 };
                    state.durable = state.row.clone();
                }
                let creating = is_creating(&state.row) || is_creating(&state.durable);
                if !creating && state.upstream.creates.is_empty() {
                    state.upstream.key_since = state.upstream.key_since.map(|_| ZERO);
                }
            }
            Err(_) => state.lost_an_id |= brings_id,
        }
    }

    fn job(&self) -> Job {
        if self.policy.kind == Kind::Http { Job::Completed } else { Job::Running }
    }

    /// What the upstream can answer to the request in flight when it arrives.
    fn answers(&self, state: &State, turn: Turn) -> Vec<Answer> {
        let job = state.upstream.jobs.first().copied();
        match turn {
            Turn::Create | Turn::Replay => vec![],
            Turn::Find if job.is_none() => vec![Answer::Found(false)],
            Turn::Find if state.upstream.stale > 0 => vec![Answer::Found(true), Answer::Found(false)],
            Turn::Find => vec![Answer::Found(true)],
            Turn::Cancel | Turn::Force => vec![Answer::Accepted],
            Turn::Mark | Turn::Undo => vec![Answer::Done],
            Turn::Status => match job {
                Some(Job::Running | Job::Stopping) if state.budget.patience == 0 => vec![],
                Some(Job::Running) if state.row.phase == Phase::Cancelling => {
                    vec![Answer::Running, Answer::Cancelled]
                }
                Some(Job::Running) => vec![Answer::Running],
                // It says cancelled although it has only begun to stop.
                Some(Job::Stopping) => vec![Answer::Stopping, Answer::Cancelled],
                Some(Job::Completed) => vec![Answer::Completed],
                Some(Job::Cancelled) => vec![Answer::Cancelled],
                Some(Job::Forgotten) | None => vec![Answer::Missing],
            },
        }
    }

    fn failure(turn: Turn, sent_at: Timestamp) -> Event {
        let trouble = Trouble::new("no answer");
        match turn {
            Turn::Create | Turn::Replay => Event::CreateAnswered(CreateAnswer::Lost(trouble)),
            Turn::Find => Event::FindAnswered { sent_at, answer: FindAnswer::Failed(trouble) },
            Turn::Status => Event::StatusAnswered(StatusAnswer::Failed(trouble)),
            Turn::Cancel | Turn::Force => Event::CancelAnswered(CancelAnswer::NotAccepted(trouble)),
            Turn::Mark => Event::MarkAnswered(RequestAnswer::Failed(trouble)),
            Turn::Undo => Event::UndoAnswered(RequestAnswer::Failed(trouble)),
        }
    }

    fn event(turn: Turn, sent_at: Timestamp, answer: Answer) -> Event {
        let id = || Some(UpstreamId::from("j"));
        let running = |listed| StatusAnswer::Running {
            state: String::new(),
            listed,
            retry_after: None,
            saved: Map::new(),
        };
        match answer {
            Answer::Id => Event::CreateAnswered(CreateAnswer::Created { id: id(), saved: Map::new() }),
            Answer::Found(true) => {
                Event::FindAnswered { sent_at, answer: FindAnswer::Hit { id: id(), saved: Map::new() } }
            }
            Answer::Found(false) => Event::FindAnswered { sent_at, answer: FindAnswer::Miss },
            Answer::Running => Event::StatusAnswered(running(true)),
            Answer::Stopping => Event::StatusAnswered(running(false)),
            Answer::Completed => Event::StatusAnswered(StatusAnswer::Ended {
                end: End::Completed,
                error: None,
                saved: serde_json::Map::new(),
            }),
            Answer::Cancelled => Event::StatusAnswered(StatusAnswer::Ended {
                end: End::Cancelled,
                error: None,
                saved: serde_json::Map::new(),
            }),
            Answer::Missing => Event::StatusAnswered(StatusAnswer::Missing),
            Answer::Accepted => Event::CancelAnswered(CancelAnswer::Accepted { how: String::new() }),
            Answer::Done if turn == Turn::Mark => Event::MarkAnswered(RequestAnswer::Done),
            Answer::Done => Event::UndoAnswered(RequestAnswer::Done),
        }
    }

    /// Times worth sleeping to: the end of a bound.
    fn bounds(&self, state: &State) -> Vec<Duration> {
        let row = &state.row;
        let window = self.policy.key_window;
        let shield = state.flight.map(|flight| flight.since + self.policy.shield);
        let creating = state.flight.filter(|f| matches!(f.turn, Turn::Create | Turn::Replay));
        let mut bounds: Vec<_> = [
            row.create_horizon,
            state.upstream.key_since.zip(window).map(|(since, window)| since + window),
            // Just before the key is forgotten: what is sent now may arrive after that.
            state.upstream.key_since.zip(window).map(|(since, window)| since + window - self.policy.shield),
            Some(row.hard_deadline),
            (row.phase == Phase::Orphaned).then(|| row.phase_since + Duration::from_secs(24 * 3600)),
        ]
        .into_iter()
        .flatten()
        // The driver ends a create's connection with its shield.
        .map(
            |bound| if creating.is_some() { shield.map_or(bound, |shield| bound.min(shield)) } else { bound },
        )
        .filter(|bound| *bound > ZERO)
        .map(|bound| bound.since(ZERO))
        .collect();
        bounds.sort();
        bounds.dedup();
        bounds
    }
}

fn is_over(row: &Row) -> bool {
    row.phase.is_settled() || row.phase.awaits_operator()
}

fn awaits_delivery(row: &Row) -> bool {
    row.phase == Phase::Ended && row.turn.is_none() && row.awaited && row.desired == Desired::Run
}

/// Shifts a row so that the time after `by` is zero, and forgets what no decision looks at.
fn shift(row: &mut Row, by: Duration) {
    let oldest = ZERO - Duration::from_secs(25 * 3600);
    let back = |at: &mut Timestamp| *at = (*at - by).max(oldest);
    for at in [&mut row.phase_since, &mut row.hard_deadline] {
        back(at);
    }
    for at in [
        &mut row.cancel_requested_at,
        &mut row.missing_since,
        &mut row.create_sent_at,
        &mut row.create_horizon,
        &mut row.disconnect_at,
        &mut row.ended_seen_at,
        &mut row.turn_at,
        &mut row.cancel_at,
        &mut row.next_at,
    ]
    .into_iter()
    .flatten()
    {
        back(at);
    }
    forget(row);
}

/// Forgets what no decision looks at any more, so that more situations are one state.
fn forget(row: &mut Row) {
    row.created_at = ZERO;
    row.updated_at = ZERO;
    row.delivered_at = row.delivered_at.map(|_| ZERO);
    row.attempts = row.attempts.min(5);
    row.last_error = None;
    let owed = row.owes();
    if !is_creating(row) {
        row.create_sent_at = row.create_sent_at.map(|_| ZERO);
        row.create_horizon = None;
    }
    // Polls keep one pace here, and the only other bound that counts from the phase is a day.
    if row.phase != Phase::Unknown && row.phase_since > ZERO - Duration::from_secs(12 * 3600) {
        row.phase_since = ZERO;
    }
    if row.desired == Desired::Cancel && row.policy.can_cancel {
        row.hard_deadline = ZERO;
    }
    let minute_ago = ZERO - Duration::from_secs(70);
    row.cancel_requested_at = row.cancel_requested_at.map(|at| at.max(minute_ago));
    if owed == Phase::Running {
        row.attempts = 0;
    }
    if is_over(row) {
        row.hard_deadline = ZERO;
        row.phase_since = ZERO;
        row.cancel_requested_at = None;
        row.ended_seen_at = None;
        row.settled_at = None;
        row.missing_since = None;
        row.attempts = 0;
    }
}

fn is_creating(row: &Row) -> bool {
    matches!(row.owes(), Phase::Intent | Phase::Dispatched | Phase::Unknown)
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let new = NewRow {
            id: OperationId(uuid::Uuid::nil()),
            call: CallId(uuid::Uuid::nil()),
            session: None,
            request_id: None,
            principal: Principal(String::new()),
            tool: String::new(),
            args_hash: String::new(),
            inputs: Map::new(),
            definition: DefinitionHash(String::new()),
            policy: Arc::new(self.believed()),
            upstream: String::new(),
            key: Key(uuid::Uuid::nil()),
            on_disconnect: self.on_disconnect,
            owner: Owner(String::new()),
            epoch: 1,
        };
        let row = Row::new(new, ZERO);
        vec![State {
            durable: row.clone(),
            row,
            up: true,
            flight: None,
            upstream: Upstream { stale: self.stale, ..Upstream::default() },
            budget: self.budget.clone(),
            was_late: false,
            lost_an_id: false,
            spins: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let budget = &state.budget;
        for at in 0..state.upstream.creates.len() {
            actions.push(Action::CreateArrives(at));
            // Only a key can make two deliveries of one request one job.
            if budget.doubles > 0 && self.policy.key_window.is_some() {
                actions.push(Action::CreateArrivesAndStays(at));
            }
        }
        if state.upstream.stray_cancel {
            actions.push(Action::StrayCancelArrives);
        }
        for (at, job) in state.upstream.jobs.iter().enumerate() {
            let becomes: &[_] = match job {
                Job::Running => &[Job::Completed],
                Job::Stopping => &[Job::Completed, Job::Cancelled],
                Job::Completed | Job::Cancelled if self.forgetful => &[Job::Forgotten],
                _ => &[],
            };
            if !is_over(&state.row) {
                actions.extend(becomes.iter().map(|job| Action::JobBecomes(at, *job)));
            }
        }
        if is_over(&state.row) {
            return;
        }
        if budget.sleeps > 0 {
            actions.extend(self.bounds(state).into_iter().map(Action::Advance));
        }
        if !state.up {
            actions.push(Action::Restart);
            return;
        }
        if state.row.desired == Desired::Run {
            actions.push(Action::ClientCancels);
        }
        if awaits_delivery(&state.row) {
            actions.push(Action::AnswerDelivered);
        }
        if budget.crashes > 0 {
            actions.push(Action::Crash);
        }
        let due = due(&state.row, ZERO);
        if due == Due::Time {
            actions.push(Action::TimerFires);
        }
        let Some(flight) = state.flight else {
            match due {
                Due::Send(turn) => actions.push(Action::Send(turn)),
                Due::Later(Some(at)) => actions.push(Action::Advance(at.since(ZERO))),
                _ => {}
            }
            return;
        };
        if flight.answer.is_some() {
            actions.push(Action::Received);
        } else {
            actions.extend(self.answers(state, flight.turn).into_iter().map(Action::Arrives));
        }
        let creates = matches!(flight.turn, Turn::Create | Turn::Replay);
        let unsent = creates && flight.answer.is_none() && state.upstream.creates.contains(&Create::Open);
        // Nothing on the wire could still bring an answer: its loss costs nothing.
        let gone = creates && flight.answer.is_none() && !unsent;
        if budget.troubles > 0 || gone {
            let under_way = flight.answer.is_none() && (unsent || flight.turn == Turn::Cancel);
            if under_way {
                actions.push(Action::Fails { arrives_later: true });
            }
            actions.push(Action::Fails { arrives_later: false });
        }
        if budget.troubles > 0 && unsent {
            actions.extend([Action::NotSent, Action::Throttled, Action::Refused]);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let window = self.policy.key_window;
        match action {
            Action::ClientCancels => {
                self.happens(
                    &mut state,
                    Event::CancelWanted { cause: Cause::ClientCancelled, reason: None, note: None },
                );
            }
            Action::AnswerDelivered => self.happens(&mut state, Event::Delivered),
            Action::Crash => {
                state.budget.crashes -= 1;
                state.up = false;
                state.row = state.durable.clone();
                let flight = state.flight.take();
                state.upstream.stray_cancel |=
                    flight.is_some_and(|f| f.turn == Turn::Cancel && f.answer.is_none());
                state.upstream.disconnect(self.policy.horizon);
            }
            Action::Restart => {
                state.up = true;
                self.happens(&mut state, Event::TakenOver { owner: Owner(String::new()), epoch: 1 });
            }
            Action::TimerFires => {
                self.happens(&mut state, Event::TimePassed);
                state.spins |= due(&state.row, ZERO) == Due::Time;
            }
            Action::Advance(by) => {
                let due_then = state.up && state.flight.is_none() && state.row.next_at == Some(ZERO + by);
                if !due_then {
                    state.budget.sleeps -= 1;
                }
                shift(&mut state.row, by);
                shift(&mut state.durable, by);
                state.upstream.shift(by);
                if let Some(flight) = &mut state.flight
                    && matches!(flight.turn, Turn::Create | Turn::Replay | Turn::Find)
                {
                    flight.since = flight.since - by;
                }
            }
            Action::Send(turn) => {
                if matches!(turn, Turn::Create | Turn::Replay) {
                    self.happens(&mut state, Event::CreateStarted);
                    state.upstream.creates.push(Create::Open);
                    state.upstream.creates.sort();
                }
                state.flight = Some(Flight { turn, since: ZERO, answer: None });
            }
            Action::CreateArrives(at) | Action::CreateArrivesAndStays(at) => {
                let create = state.upstream.creates[at];
                if matches!(action, Action::CreateArrivesAndStays(_)) {
                    state.budget.doubles -= 1;
                } else {
                    state.upstream.creates.remove(at);
                }
                state.upstream.create(window, self.job());
                if let (Create::Open, Some(flight)) = (create, &mut state.flight) {
                    flight.answer = Some(Answer::Id);
                }
            }
            Action::StrayCancelArrives => {
                state.upstream.stray_cancel = false;
                state.upstream.cancel();
            }
            Action::Arrives(answer) => {
                let job = state.upstream.jobs.first().copied();
                let alive = job.is_some_and(Job::is_alive);
                match answer {
                    Answer::Accepted => state.upstream.cancel(),
                    Answer::Found(false) if job.is_some() => state.upstream.stale -= 1,
                    Answer::Running | Answer::Stopping => state.budget.patience -= 1,
                    // A lie: it is the last word that is believed until the confirming read.
                    Answer::Cancelled if alive => state.budget.patience = 0,
                    Answer::Done => {
                        let undo = state.flight.is_some_and(|f| f.turn == Turn::Undo);
                        state.upstream.undid_alive |= undo && state.upstream.is_alive();
                    }
                    _ => {}
                }
                state.flight.as_mut()?.answer = Some(answer);
            }
            Action::Received => {
                let flight = state.flight.take()?;
                if flight.answer == Some(Answer::Id) {
                    state.upstream.disconnect(self.policy.horizon);
                }
                self.happens(&mut state, Self::event(flight.turn, flight.since, flight.answer?));
            }
            Action::Fails { arrives_later } => {
                let flight = state.flight.take()?;
                state.budget.troubles = state.budget.troubles.saturating_sub(1);
                if flight.turn == Turn::Cancel {
                    state.upstream.stray_cancel |= arrives_later;
                } else if !arrives_later {
                    state.upstream.creates.retain(|create| *create != Create::Open);
                }
                state.upstream.disconnect(self.policy.horizon);
                self.happens(&mut state, Self::failure(flight.turn, flight.since));
            }
            Action::NotSent | Action::Throttled | Action::Refused => {
                state.flight = None;
                state.budget.troubles -= 1;
                state.upstream.creates.retain(|create| *create != Create::Open);
                let trouble = Trouble::new("no answer");
                self.happens(
                    &mut state,
                    Event::CreateAnswered(match action {
                        Action::NotSent => CreateAnswer::NotSent(trouble),
                        Action::Throttled => CreateAnswer::Throttled(trouble),
                        _ => CreateAnswer::Refused(trouble),
                    }),
                );
            }
            Action::JobBecomes(at, job) => state.upstream.jobs[at] = job,
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::<Self>::always(SETTLED_IS_SETTLED, |world, state| {
                !state.row.phase.is_settled()
                    || !state.upstream.is_alive()
                        && !state.upstream.create_could_arrive(world.policy.key_window, world.policy.horizon)
            }),
            Property::<Self>::always("what lives upstream has an unsettled row", |_, state| {
                !state.upstream.is_alive() || !state.durable.phase.is_settled()
            }),
            Property::<Self>::always(ONE_JOB, |_, state| state.upstream.jobs.len() <= 1),
            Property::<Self>::always(CANCELLED_IS_CANCELLED, |_, state| {
                let job = state.upstream.jobs.first();
                state.row.phase != Phase::Cancelled
                    || job
                        == Some(if state.row.outcome == Some(Outcome::Gone) {
                            &Job::Forgotten
                        } else {
                            &Job::Cancelled
                        })
                    || job == Some(&Job::Forgotten)
            }),
            Property::<Self>::always(UNDO_AFTER_END, |_, state| !state.upstream.undid_alive),
            Property::<Self>::always("no id is lost on a phase that has no use for it", |_, state| {
                !state.lost_an_id
            }),
            Property::<Self>::always("a timer that was looked at is not due any more", |_, state| {
                !state.spins
            }),
            Property::<Self>::always("something is next for every unsettled row", |_, state| {
                !state.up
                    || state.flight.is_some()
                    || is_over(&state.row)
                    || awaits_delivery(&state.row)
                    || due(&state.row, ZERO) != Due::Later(None)
            }),
            Property::<Self>::eventually("settled, or visible to an operator", |_, state| {
                is_over(&state.row) || state.row.phase == Phase::Orphaned
            }),
            Property::<Self>::eventually("settled, or left to an operator", |_, state| is_over(&state.row)),
            Property::<Self>::sometimes("it completes", |_, state| {
                state.row.phase == Phase::Completed && state.row.desired == Desired::Run
            }),
            Property::<Self>::sometimes("nothing was ever created", |_, state| {
                state.row.phase == Phase::NeverCreated && state.row.create_sent_at.is_some()
            }),
            Property::<Self>::sometimes("an orphan is recovered", |_, state| {
                state.row.phase.is_settled() && state.was_late
            }),
        ];
        let undo = self.policy.undo_steps > 0;
        if undo {
            properties.push(Property::<Self>::sometimes("it is undone", |_, state| {
                state.row.phase == Phase::Compensated
            }));
        } else {
            properties.push(Property::<Self>::sometimes("completion wins the race", |_, state| {
                state.row.phase == Phase::Completed && state.row.desired == Desired::Cancel
            }));
        }
        if self.policy.can_cancel && !undo {
            properties
                .push(Property::<Self>::sometimes("a cancel wins", |_, s| s.row.phase == Phase::Cancelled));
        }
        properties
    }
}
