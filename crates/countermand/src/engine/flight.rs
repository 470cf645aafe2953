//! One request in flight, as a future that yields what happened.

use super::{
    Inner, Performer,
    health::{Gate, Pass},
};
use countermand_core::{
    Phase, Row, Turn,
    event::{CancelAnswer, CreateAnswer, Event, FindAnswer, RequestAnswer, StatusAnswer, Trouble},
    health::Urgency,
    ports::{Created, Permit, Read, Upstream},
};
use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};
use tokio::{sync::Semaphore, task::AbortHandle, time::Instant};

/// How long a status read, a look-up, a cancel may go without an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// How long a mark or an undo request may go without an answer.
const UNDO_WITHIN: Duration = Duration::from_secs(30);

/// What a flight brought.
pub(super) enum Landed {
    /// A place under the upstream's concurrency limit, for a create that may be sent now.
    Admitted(Permit, Pass),
    /// Any other request may be sent now.
    Cleared(Pass),
    /// The create's answer.
    Created(Created),
    /// A status read's answer.
    Read(Read),
    /// Any other answer, as the event that it is.
    Answered(Event),
}

impl Landed {
    /// What went wrong, where something was answered or was known to be lost.
    fn trouble(&self) -> Option<&Trouble> {
        match self {
            Self::Admitted(..) | Self::Cleared(_) => None,
            Self::Created(created) => created.answer.trouble(),
            Self::Read(read) => match &read.answer {
                StatusAnswer::Failed(trouble) => Some(trouble),
                _ => None,
            },
            Self::Answered(event) => event.trouble(),
        }
    }
}

/// A request in flight, or on its way to being sent.
pub(super) struct Flight {
    /// What it is.
    pub(super) turn: Turn,
    /// Whether the request itself is out, not only waiting for its place.
    pub(super) sent: bool,
    /// The phase in which it was started.
    pub(super) phase: Phase,
    /// How much it can wait, while it is not sent.
    pub(super) urgency: Urgency,
    /// Until when a create may go on after a cancel.
    pub(super) shield_until: Option<Instant>,
    /// Who wants to know how it went.
    pass: Option<Pass>,
    future: Pin<Box<dyn Future<Output = Landed> + Send>>,
    abort: Option<AbortHandle>,
}

impl Flight {
    /// Waits for a place to send a create from, and until the upstream is well; nothing is sent yet.
    pub(super) fn admission(turn: Turn, row: &Row, performer: &Performer) -> Self {
        let upstream = performer.upstream.clone();
        let mut gate = performer.health.gate(row, turn);
        let urgency = gate.urgency();
        let mut flight = Self::new(turn, false, row, async move {
            let (permit, pass) = gate.pass_with(|| upstream.admit()).await;
            Landed::Admitted(permit, pass)
        });
        flight.urgency = urgency;
        flight
    }

    /// Waits until any other request may be sent.
    pub(super) fn clearance(turn: Turn, row: &Row, mut gate: Gate) -> Self {
        let urgency = gate.urgency();
        let mut flight = Self::new(turn, false, row, async move { Landed::Cleared(gate.pass().await) });
        flight.urgency = urgency;
        flight
    }

    /// Sends a create in a task of its own, so that its answer is learnt whatever becomes of the driver's wishes.
    pub(super) fn create(
        turn: Turn,
        row: &Arc<Row>,
        performer: &Performer,
        (permit, pass): (Permit, Pass),
        inner: &Inner,
    ) -> Self {
        let (upstream, of) = (performer.upstream.clone(), row.clone());
        let task = inner.tracker.spawn(async move {
            crash_point!(Before, turn turn);
            let created = upstream.create(&of).await;
            crash_point!(After, turn turn);
            drop(permit);
            created
        });
        let abort = task.abort_handle();
        let mut flight = Self::new(turn, true, row, async move {
            Landed::Created(task.await.unwrap_or_else(|end| Created {
                answer: CreateAnswer::Lost(Trouble::new(if end.is_panic() {
                    "the create's task panicked: a bug, please report it"
                } else {
                    "the create was aborted when its shield ended"
                })),
                payload: None,
            }))
        });
        flight.abort = Some(abort);
        flight.pass = Some(pass);
        flight
    }

    /// Sends any other request.
    pub(super) fn request(
        turn: Turn,
        row: &Arc<Row>,
        performer: &Performer,
        sent_at: countermand_core::Timestamp,
        pass: Pass,
    ) -> Self {
        let (upstream, of) = (performer.upstream.clone(), row.clone());
        let lanes = match turn {
            Turn::Cancel | Turn::Force => performer.lanes.stops.clone(),
            _ => performer.lanes.reads.clone(),
        };
        let mut flight = Self::new(turn, true, row, async move {
            crash_point!(Before, turn turn);
            let landed = match turn {
                Turn::Status => Landed::Read(
                    within(&lanes, ANSWER_WITHIN, upstream.status(&of)).await.unwrap_or_else(|trouble| {
                        Read { answer: StatusAnswer::Failed(trouble), progress: None, payload: None }
                    }),
                ),
                turn => Landed::Answered(send(turn, &*upstream, &of, &lanes, sent_at).await),
            };
            crash_point!(After, turn turn);
            landed
        });
        flight.pass = Some(pass);
        flight
    }

    fn new(turn: Turn, sent: bool, row: &Row, future: impl Future<Output = Landed> + Send + 'static) -> Self {
        Self {
            turn,
            sent,
            phase: row.phase,
            urgency: Urgency::Work,
            shield_until: None,
            pass: None,
            future: Box::pin(future),
            abort: None,
        }
    }

    /// What it brought is learnt by those who watch how the upstream is.
    pub(super) fn tell(&mut self, landed: &Landed) {
        if let Some(pass) = self.pass.take() {
            pass.told(landed.trouble());
        }
    }

    /// Waits until it has landed.
    ///
    /// # Cancel safety
    /// Nothing is lost: the flight itself is kept.
    pub(super) async fn landed(&mut self) -> Landed {
        self.future.as_mut().await
    }

    /// Ends a create whose shield is over. It lands as lost: nobody knows whether it arrived.
    pub(super) fn abort(&mut self) {
        if let Some(task) = &self.abort {
            task.abort();
        }
    }
}

async fn send(
    turn: Turn,
    upstream: &dyn Upstream,
    row: &Row,
    lanes: &Semaphore,
    sent_at: countermand_core::Timestamp,
) -> Event {
    match turn {
        Turn::Find => Event::FindAnswered {
            sent_at,
            answer: within(lanes, ANSWER_WITHIN, upstream.find(row)).await.unwrap_or_else(FindAnswer::Failed),
        },
        Turn::Cancel | Turn::Force => Event::CancelAnswered(
            within(lanes, ANSWER_WITHIN, upstream.cancel(row, turn == Turn::Force))
                .await
                .unwrap_or_else(CancelAnswer::NotAccepted),
        ),
        Turn::Mark => Event::MarkAnswered(
            within(lanes, UNDO_WITHIN, upstream.mark(row)).await.unwrap_or_else(RequestAnswer::Failed),
        ),
        Turn::Undo => Event::UndoAnswered(
            within(lanes, UNDO_WITHIN, upstream.undo(row)).await.unwrap_or_else(RequestAnswer::Failed),
        ),
        Turn::Status | Turn::Create | Turn::Replay => unreachable!("sent elsewhere"),
    }
}

/// One of the upstream's lanes, then the request, bounded in time from when it is sent.
async fn within<T>(
    lanes: &Semaphore,
    bound: Duration,
    request: impl Future<Output = T>,
) -> Result<T, Trouble> {
    let _lane = lanes.acquire().await;
    tokio::time::timeout(bound, unless_it_panics(request))
        .await
        .unwrap_or_else(|_| Err(Trouble::ill(format!("no answer within {} s", bound.as_secs()))))
}

/// A request that panics is one that failed. Else its driver would break over it, and be followed at once by one that
/// sends it again.
async fn unless_it_panics<T>(request: impl Future<Output = T>) -> Result<T, Trouble> {
    let mut request = pin!(request);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| request.as_mut().poll(context)));
        polled.map_or_else(
            |_| Poll::Ready(Err(Trouble::new("the request panicked: a bug, please report it"))),
            |polled| polled.map(Ok),
        )
    })
    .await
}
