//! One connection: requests one after the other, each through its gates and faults.
//!
//! Whatever a request waits for, the socket is read meanwhile, so that the peer's leaving is seen when it happens and
//! recorded once, as the last event of the connection. A request whose peer has left goes no further, with one exception:
//! a late create.

use std::sync::Arc;

use bytes::Bytes;
use tokio::net::TcpStream;

use super::answer::Answer;
use super::control;
use super::fault::Fault;
use super::gate::{Gate, Subject};
use super::record::{About, Close, EventKind};
use super::route::{Route, Target};
use super::state::State;
use super::wire::{Head, Unread, Wire};

/// Why a connection ends.
#[derive(Debug)]
pub(crate) enum End {
    /// The peer left, at this point of the exchange in progress.
    PeerLeft(Close, Option<Gate>),
    /// The fake ends it.
    HangUp(Close),
    /// The peer left, and that is in the record already.
    Recorded,
    /// The fake stops.
    Stopped,
}

/// A request in progress.
#[derive(Debug)]
pub(crate) struct Exchange {
    number: u64,
    pub(crate) head: Head,
    pub(crate) target: Target,
    pub(crate) tag: Option<String>,
    pub(crate) body: Bytes,
    /// The last gate that it reached.
    pub(crate) at: Option<Gate>,
}

impl Exchange {
    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject {
            route: Some(self.target.route),
            tag: self.tag.as_deref(),
            head: &self.head.raw,
            body: &self.body,
        }
    }

    pub(crate) fn key(&self) -> Option<String> {
        self.head.header("idempotency-key").map(str::to_owned)
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

pub(crate) struct Connection {
    pub(crate) state: Arc<State>,
    pub(crate) wire: Wire,
    id: u64,
    /// Whether it is for control, and its end nobody's business.
    control: bool,
}

/// Serves one connection to its end.
pub(crate) async fn serve(state: Arc<State>, stream: TcpStream, id: u64) {
    let mut conn = Connection { state, wire: Wire::new(stream), id, control: false };
    let mut exchange = None;
    let end = match conn.run(&mut exchange).await {
        Ok(never) => match never {},
        Err(end) => end,
    };
    conn.finish(end, exchange);
}

impl Connection {
    async fn run(&mut self, exchange: &mut Option<Exchange>) -> Result<std::convert::Infallible, End> {
        self.or_stop_filling().await?;
        if !control::is_control(self.wire.ahead()) {
            // Not before the first byte: a control connection must get through while a test holds all others.
            let first = self.wire.ahead().to_vec();
            self.arrive(Gate::Accept, Subject { head: &first, ..Subject::default() }, About::default())
                .await?;
        }
        let mut first = true;
        loop {
            let head = self.read_head().await?;
            let keep_alive = head.keep_alive();
            let target = Target::parse(&head.method, &head.target);
            if target.route == Route::Control {
                if first {
                    self.control = true;
                    self.note(About::default(), EventKind::ConnectionIsControl);
                }
                self.answer_control(&head, &target).await?;
            } else {
                self.exchange(exchange.insert(self.begin(head, target))).await?;
                *exchange = None;
            }
            if !keep_alive {
                return Err(End::HangUp(Close::Fin));
            }
            first = false;
        }
    }

    /// Waits for the first bytes.
    async fn or_stop_filling(&mut self) -> Result<(), End> {
        let stop = self.state.stop.clone();
        match stop.run_until_cancelled(self.wire.fill()).await {
            Some(Ok(())) => Ok(()),
            Some(Err(how)) => Err(End::PeerLeft(how, None)),
            None => Err(End::Stopped),
        }
    }

    async fn read_head(&mut self) -> Result<Head, End> {
        let stop = self.state.stop.clone();
        let read = stop.run_until_cancelled(self.wire.head()).await.ok_or(End::Stopped)?;
        self.readable(read).await
    }

    async fn readable<T>(&mut self, read: Result<T, Unread>) -> Result<T, End> {
        match read {
            Ok(read) => Ok(read),
            Err(Unread::Closed(how)) => Err(End::PeerLeft(how, None)),
            Err(Unread::Malformed(why)) => {
                let (head, body, _) = Answer::error(400, why).parts(false);
                // It ends either way.
                let _ = self.wire.write(&[head, body].concat()).await;
                Err(End::HangUp(Close::Fin))
            }
        }
    }

    fn begin(&self, head: Head, target: Target) -> Exchange {
        let tag = target
            .param("tag")
            .map(str::to_owned)
            .or_else(|| target.job.as_deref().and_then(|job| self.state.jobs.tag_of(job)));
        let mut exchange =
            Exchange { number: self.state.next_request(), head, target, tag, body: Bytes::new(), at: None };
        self.expect(&mut exchange);
        let (method, target) = (exchange.head.method.clone(), exchange.head.target.clone());
        self.note(self.about(&exchange), EventKind::Request { method, target, key: exchange.key() });
        exchange
    }

    /// Gives a request without a tag that of a marker that it carries.
    fn expect(&self, exchange: &mut Exchange) {
        if exchange.tag.is_none() {
            exchange.tag = self.state.expected_in(|marker| exchange.subject().carries(marker));
        }
    }

    async fn exchange(&mut self, ex: &mut Exchange) -> Result<(), End> {
        self.pass(ex, Gate::RequestHead).await?;
        let stop = self.state.stop.clone();
        let read = stop.run_until_cancelled(self.wire.body(&ex.head)).await.ok_or(End::Stopped)?;
        ex.body = match self.readable(read).await {
            Err(End::PeerLeft(how, _)) => return Err(End::PeerLeft(how, ex.at)),
            body => body?,
        };
        self.expect(ex);
        self.note(self.about(ex), EventKind::BodyReceived { bytes: ex.body.len() as u64 });

        let fault = self.state.faults.take(ex.subject());
        if let Some(fault) = &fault {
            self.note(self.about(ex), EventKind::FaultApplied { fault: fault.name() });
        }
        if fault == Some(Fault::LateCreate) {
            return Err(self.late(ex).await);
        }
        self.pass(ex, Gate::Body).await?;
        let answer = self.answer(ex, fault).await?;
        self.respond(ex, answer).await
    }

    async fn answer(&mut self, ex: &mut Exchange, fault: Option<Fault>) -> Result<Answer, End> {
        Ok(match fault {
            Some(Fault::Status(code, retry_after)) => {
                let answer = Answer::error(code, "this is a fault that a test asked for");
                match retry_after {
                    Some(secs) => answer.with("retry-after", secs.to_string()),
                    None => answer,
                }
            }
            Some(Fault::Vanish) => Answer::error(404, "no such job"),
            Some(Fault::Redirect(url)) => Answer::error(307, "elsewhere").with("location", url),
            Some(Fault::HangBeforeCommit) => return Err(self.hang(ex).await),
            Some(Fault::ResetBeforeCommit) => return Err(End::HangUp(Close::Reset)),
            Some(Fault::HangAfterCommit) => {
                self.commit(ex, None).await?;
                return Err(self.hang(ex).await);
            }
            Some(Fault::ResetAfterCommit) => {
                self.commit(ex, None).await?;
                return Err(End::HangUp(Close::Reset));
            }
            Some(Fault::StatusAfterCommit(code)) => {
                self.commit(ex, None).await?;
                Answer::error(code, "it was done, and a test asked for this answer")
            }
            Some(Fault::NotJson) => self.commit(ex, None).await?.not_json(),
            Some(Fault::EmptyBody) => self.commit(ex, None).await?.empty(),
            Some(Fault::HugeBody(bytes)) => self.commit(ex, None).await?.huge(bytes),
            Some(Fault::UnsizedBody(bytes)) => self.commit(ex, None).await?.huge(bytes).without_length(),
            Some(Fault::Trickle) => self.commit(ex, None).await?.trickled(),
            fault => self.commit(ex, fault).await?,
        })
    }

    /// Keeps the peer waiting until it leaves.
    pub(crate) async fn hang(&mut self, ex: &Exchange) -> End {
        let stop = self.state.stop.clone();
        match stop.run_until_cancelled(self.wire.gone()).await {
            Some(how) => End::PeerLeft(how, ex.at),
            None => End::Stopped,
        }
    }

    /// Commits after the peer has left, and not before a hold allows it.
    async fn late(&mut self, ex: &mut Exchange) -> End {
        ex.at = Some(Gate::Body);
        let about = self.about(ex);
        let record = &self.state.record;
        let held = self.state.gates.arrive(Gate::Body, ex.subject(), |held| {
            record.push(about, EventKind::GateReached { gate: Gate::Body, held });
        });
        match self.hang(ex).await {
            End::PeerLeft(how, gate) => self.note_early(how, gate, Some(ex)),
            end => return end,
        }
        let stop = self.state.stop.clone();
        if let Some(mut held) = held
            && stop.run_until_cancelled(held.passed()).await.is_none()
        {
            return End::Stopped;
        }
        self.commit_late(ex);
        End::Recorded
    }

    /// Passes a gate, waiting there while it is held.
    pub(crate) async fn pass(&mut self, ex: &mut Exchange, gate: Gate) -> Result<(), End> {
        ex.at = Some(gate);
        self.arrive(gate, ex.subject(), self.about(ex)).await
    }

    async fn arrive(&mut self, gate: Gate, subject: Subject<'_>, about: About) -> Result<(), End> {
        let about = About { conn: Some(self.id), ..about };
        let record = &self.state.record;
        let note = |held| record.push(about, EventKind::GateReached { gate, held });
        let Some(mut held) = self.state.gates.arrive(gate, subject, note) else {
            return self.wire.gone_now().map_or(Ok(()), |how| Err(End::PeerLeft(how, Some(gate))));
        };
        tokio::select! {
            biased;
            () = self.state.stop.cancelled() => Err(End::Stopped),
            how = self.wire.gone() => Err(End::PeerLeft(how, Some(gate))),
            () = held.passed() => Ok(()),
        }
    }

    async fn answer_control(&mut self, head: &Head, target: &Target) -> Result<(), End> {
        let stop = self.state.stop.clone();
        let body = self.wire.body(head).await;
        let body = self.readable(body).await?;
        let answer = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(End::Stopped),
            answer = control::answer(&self.state, target, &body) => answer,
            how = self.wire.gone() => return Err(End::PeerLeft(how, None)),
        };
        let (head, body, _) = answer.parts(head.keep_alive());
        let written = self.wire.write(&[head, body].concat()).await;
        written.map_err(|how| End::PeerLeft(how, None))
    }

    pub(crate) fn about(&self, ex: &Exchange) -> About {
        About {
            conn: Some(self.id),
            request: Some(ex.number),
            route: Some(ex.target.route),
            tag: ex.tag.clone(),
        }
    }

    pub(crate) fn note(&self, about: About, kind: EventKind) {
        self.state.record.push(About { conn: Some(self.id), ..about }, kind);
    }

    fn note_early(&self, how: Close, gate: Option<Gate>, ex: Option<&Exchange>) {
        let (about, method, target) = match ex {
            Some(ex) => (self.about(ex), ex.head.method.clone(), ex.head.target.clone()),
            None => Default::default(),
        };
        self.note(about, EventKind::ClosedEarly { how, method, target, gate });
    }

    fn finish(self, end: End, exchange: Option<Exchange>) {
        match end {
            End::PeerLeft(how, gate) if exchange.is_some() || !self.wire.ahead().is_empty() => {
                self.note_early(how, gate, exchange.as_ref());
            }
            End::PeerLeft(..) | End::HangUp(Close::Fin) if self.control => {}
            End::PeerLeft(how, _) => self.note(About::default(), EventKind::ConnectionClosed { how }),
            End::HangUp(how) => {
                // First the act, then its record: who waits for the event finds it done.
                let (record, id) = (self.state.record.clone(), self.id);
                let about = exchange.as_ref().map_or_else(About::default, |ex| self.about(ex));
                self.wire.end(how);
                record.push(About { conn: Some(id), ..about }, EventKind::HungUp { how });
            }
            End::Recorded | End::Stopped => {}
        }
    }
}
