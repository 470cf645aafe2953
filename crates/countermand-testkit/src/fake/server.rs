//! The listening socket, and the handle that tests hold.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

use super::account::{self, Books, JobEntry};
use super::conn;
use super::fault::Fault;
use super::gate::{Filter, Gate};
use super::held::HeldGate;
use super::record::{About, Event, EventKind};
use super::route::Route;
use super::state::State;
use super::world::JobState;

/// The kernel cuts it to `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;
/// How long a wait of this handle lasts before it panics.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A recording fake upstream, in this process. Dropping it ends it and all its connections.
#[derive(Debug)]
pub struct FakeUpstream {
    pub(crate) state: Arc<State>,
    addr: SocketAddr,
}

impl FakeUpstream {
    /// Starts one on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// If it cannot listen there.
    pub async fn start() -> FakeUpstream {
        match FakeUpstream::listen((Ipv4Addr::LOCALHOST, 0).into()).await {
            Ok(fake) => fake,
            Err(error) => panic!("failed to listen on a free port of 127.0.0.1: {error}"),
        }
    }

    /// Starts one at this address.
    ///
    /// # Errors
    /// If it cannot listen there.
    pub async fn listen(addr: SocketAddr) -> io::Result<FakeUpstream> {
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&addr.into())?;
        socket.listen(BACKLOG)?;
        let listener = TcpListener::from_std(socket.into())?;
        let addr = listener.local_addr()?;
        let state = State::new();
        state.tasks.spawn(accept(state.clone(), listener));
        Ok(FakeUpstream { state, addr })
    }

    /// `http://127.0.0.1:PORT`, without a slash at its end.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Stops whoever reaches `gate` and matches `filter`, until the handle releases them or is dropped.
    pub fn hold(&self, gate: Gate, filter: Filter) -> HeldGate {
        HeldGate::new(self.state.clone(), gate, self.state.gates.hold(gate, filter))
    }

    /// Lets the next `times` requests of this route (`None`: all) run into a fault. Older faults come first.
    pub fn fault(&self, route: Route, fault: Fault, times: Option<u32>) {
        self.fault_for(Filter { route: Some(route), ..Filter::default() }, fault, times);
    }

    /// The same, for the requests that match `filter`.
    pub fn fault_for(&self, filter: Filter, fault: Fault, times: Option<u32>) {
        self.state.faults.add(filter, fault, times);
    }

    /// Forgets all faults that no request has run into.
    pub fn clear_faults(&self) {
        self.state.faults.clear();
    }

    /// Gives requests that have no tag, but carry this text anywhere, the text as their tag.
    pub fn expect(&self, marker: impl Into<String>) {
        self.state.expect(marker.into());
    }

    /// How long a job takes to obey a cancel from now on. At first it does at once.
    pub fn set_cancel_delay(&self, delay: Duration) {
        self.state.jobs.set_cancel_delay(delay);
    }

    /// Completes a job. `false`: there is none, or it has ended.
    pub fn finish(&self, job: &str) -> bool {
        self.state.jobs.end(job, JobState::Done)
    }

    /// Lets a job fail. `false`: there is none, or it has ended.
    pub fn fail(&self, job: &str) -> bool {
        self.state.jobs.end(job, JobState::Failed)
    }

    /// Answers the slow requests of this tag, or all, and says how many were waiting.
    pub fn release_slow(&self, tag: Option<&str>) -> usize {
        self.state.release_slow(tag)
    }

    /// The record up to now.
    pub fn events(&self) -> Vec<Event> {
        self.state.record.since(0)
    }

    /// All jobs, as they really are.
    pub fn jobs(&self) -> Vec<JobEntry> {
        account::jobs(&self.events())
    }

    /// The jobs that have not ended.
    pub fn live_jobs(&self) -> Vec<JobEntry> {
        account::live_jobs(&self.events())
    }

    /// How many rows there are under `tag`.
    pub fn rows(&self, tag: &str) -> u64 {
        account::rows(&self.events(), tag)
    }

    /// How many upstream connections are open.
    pub fn connections_open(&self) -> usize {
        account::connections_open(&self.events())
    }

    /// How many jobs there were, and what became of them.
    pub fn books(&self) -> Books {
        Books::of(&self.events())
    }

    /// Waits until `n` events of this kind are in the record, and returns it.
    ///
    /// # Panics
    /// After 10 s and 10 ms for each event, with the record.
    pub async fn wait_for(&self, kind: &str, n: usize) -> Vec<Event> {
        let (mut seen, mut read) = (0, 0);
        let patience = PATIENCE + Duration::from_millis(10) * u32::try_from(n).unwrap_or(u32::MAX);
        let enough = |events: &[Event]| {
            seen += events[read..].iter().filter(|event| event.is(kind)).count();
            read = events.len();
            seen >= n
        };
        match self.state.wait(patience, enough).await {
            Ok(events) => events,
            Err(events) => {
                panic!(
                    "{n} × {kind} did not happen in {patience:?}, only {seen}; the record:\n{}",
                    show(&events)
                )
            }
        }
    }

    /// Waits until `enough` of the record, and returns it.
    ///
    /// # Panics
    /// After 10 s, with the record.
    pub async fn wait(&self, enough: impl FnMut(&[Event]) -> bool) -> Vec<Event> {
        self.wait_within(PATIENCE, enough).await
    }

    /// The same, for what may take longer, or must not take so long.
    ///
    /// # Panics
    /// After `patience`, with the record.
    pub async fn wait_within(&self, patience: Duration, enough: impl FnMut(&[Event]) -> bool) -> Vec<Event> {
        match self.state.wait(patience, enough).await {
            Ok(events) => events,
            Err(events) => panic!("it did not happen in {patience:?}; the record:\n{}", show(&events)),
        }
    }

    /// Ends it, and waits until all its connections and jobs are gone.
    pub async fn shutdown(self) {
        self.state.stop.cancel();
        self.state.tasks.close();
        self.state.tasks.wait().await;
    }
}

impl Drop for FakeUpstream {
    fn drop(&mut self) {
        self.state.stop.cancel();
    }
}

async fn accept(state: Arc<State>, listener: TcpListener) {
    for id in 1_u64.. {
        let stream = loop {
            match state.stop.run_until_cancelled(listener.accept()).await {
                None => return,
                Some(Ok((stream, _))) => break stream,
                // Out of descriptors, most likely: others have to end first.
                Some(Err(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        // Only latency is lost without it.
        let _ = stream.set_nodelay(true);
        state.record.push(About { conn: Some(id), ..About::default() }, EventKind::ConnectionOpened);
        state.tasks.spawn(conn::serve(state.clone(), stream, id));
    }
}

/// The end of a record, for a panic's message.
pub(crate) fn show(events: &[Event]) -> String {
    const LAST: usize = 200;
    let skipped = events.len().saturating_sub(LAST);
    let mut text = if skipped > 0 { format!("({skipped} older events)\n") } else { String::new() };
    for event in &events[skipped..] {
        match serde_json::to_string(event) {
            Ok(line) => text.push_str(&line),
            Err(_) => text.push_str(&format!("{event:?}")),
        }
        text.push('\n');
    }
    text
}
