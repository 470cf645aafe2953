//! A program that runs: how it is told to stop, and how it is known that it has.

use super::{Stop, census::Census, members::Members, signal::name_of};
use crate::platform::{Cgroup, Identity};
use rustix::process::Signal;
use std::{fmt, os::unix::process::ExitStatusExt as _, process::ExitStatus, sync::Arc, time::Duration};
use tokio::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout},
    sync::watch,
    time::Instant,
};

/// The pauses between two looks whether anything lives: short at first.
const FIRST_LOOK: Duration = Duration::from_millis(2);
const LAST_LOOK: Duration = Duration::from_millis(100);

/// How long the dead may stay in their control group.
const TIDY_WITHIN: Duration = Duration::from_secs(1);

/// A program that was started.
#[derive(Debug)]
pub struct Process {
    /// What stops it.
    pub control: Control,
    /// What is piped.
    pub pipes: Pipes,
}

/// Our ends of its pipes, where there are any.
#[derive(Debug, Default)]
pub struct Pipes {
    /// What it reads.
    pub stdin: Option<ChildStdin>,
    /// What it writes.
    pub stdout: Option<ChildStdout>,
    /// What it complains.
    pub stderr: Option<ChildStderr>,
}

/// How it is with a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// The process that was started has exited; what it left behind is being ended.
    Exited(Exit),
    /// Nothing of it lives.
    Ended(Exit),
}

impl State {
    /// How it exited, as far as it has.
    pub fn exit(&self) -> Option<Exit> {
        match self {
            Self::Running => None,
            Self::Exited(exit) | Self::Ended(exit) => Some(*exit),
        }
    }
}

/// How a program has exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// What its parent is told. `None` for one that an earlier process of ours had started: its parent is gone.
    pub status: Option<ExitStatus>,
    /// Whether it was told to stop before it had exited.
    pub stopped: bool,
}

impl Exit {
    /// Its exit code; none where a signal ended it or nobody knows.
    pub fn code(&self) -> Option<i32> {
        self.status.and_then(|status| status.code())
    }
}

impl fmt::Display for Exit {
    /// Such as `exit code 3` or `killed by SIGSEGV`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            None => f.write_str("exit code not known"),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => write!(f, "exit code {code}"),
                (None, Some(signal)) => write!(f, "killed by {}", name_of(signal)),
                (None, None) => write!(f, "{status}"),
            },
        }
    }
}

/// Stops a program, and knows how it is with it. Cheap to clone; the program runs on if all are dropped.
#[derive(Debug, Clone)]
pub struct Control {
    members: Arc<Members>,
    orders: Arc<watch::Sender<Option<Stop>>>,
    state: watch::Receiver<State>,
}

impl Control {
    /// The process that was started, where it is known.
    pub fn leader(&self) -> Option<Identity> {
        self.members.leader
    }

    /// The control group of its processes, where they have one.
    pub fn cgroup(&self) -> Option<String> {
        self.members.cgroups.first().map(|group: &Cgroup| group.path().to_string_lossy().into_owned())
    }

    /// How it is with it now.
    pub fn state(&self) -> State {
        *self.state.borrow()
    }

    /// Tells it to stop; returns at once. What follows the first word is only more urgent: [`Stop::NOW`] cuts a grace short,
    /// anything else changes nothing.
    pub fn stop(&self, stop: Stop) {
        self.orders.send_if_modified(|order| {
            let first = order.is_none();
            let escalates = stop == Stop::NOW && *order != Some(Stop::NOW);
            if first || escalates {
                *order = Some(stop);
            }
            first || escalates
        });
    }

    /// Whether it was told to stop.
    pub fn is_stopping(&self) -> bool {
        self.orders.borrow().is_some()
    }

    /// Waits until the process that was started has exited. Something of it may live on for a moment.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    pub async fn exited(&self) -> Exit {
        self.until(State::exit).await
    }

    /// Waits until nothing of it lives, which has been looked at.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    pub async fn ended(&self) -> Exit {
        self.until(|state| match state {
            State::Ended(exit) => Some(*exit),
            State::Running | State::Exited(_) => None,
        })
        .await
    }

    async fn until(&self, what: impl Fn(&State) -> Option<Exit>) -> Exit {
        let mut state = self.state.clone();
        let known = state.wait_for(|state| what(state).is_some()).await.ok().and_then(|state| what(&state));
        match known {
            Some(exit) => exit,
            // Its supervision went down with the runtime: nobody will ever know.
            None => std::future::pending().await,
        }
    }
}

/// Watches one program to its end.
pub(super) struct Supervision {
    members: Arc<Members>,
    census: Arc<Census>,
    leader: Leader,
    orders: watch::Receiver<Option<Stop>>,
    state: watch::Sender<State>,
}

/// The process that was started, as its parent sees it.
struct Leader {
    child: Option<Child>,
    status: Option<ExitStatus>,
    stopped: bool,
}

impl Leader {
    /// Waits until it has exited.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    async fn exited(&mut self) {
        if let Some(child) = &mut self.child {
            self.status = child.wait().await.ok();
            self.child = None;
        }
    }

    /// Whether it has exited already, even if nobody has told us yet.
    fn has_exited(&mut self) -> bool {
        if let Some(child) = &mut self.child
            && let Ok(Some(status)) = child.try_wait()
        {
            self.status = Some(status);
            self.child = None;
        }
        self.child.is_none()
    }

    fn exit(&self) -> Exit {
        Exit { status: self.status, stopped: self.stopped }
    }
}

impl Supervision {
    /// Of a program that was started, or (without a child) of what an earlier process of ours has left.
    pub(super) fn new(members: Members, census: Arc<Census>, child: Option<Child>) -> (Self, Control) {
        let members = Arc::new(members);
        let (orders, inbox) = watch::channel(None);
        let (state, seen) = watch::channel(State::Running);
        let leader = Leader { child, status: None, stopped: false };
        let control = Control { members: members.clone(), orders: Arc::new(orders), state: seen };
        (Self { members, census, leader, orders: inbox, state }, control)
    }

    /// Until nothing of it lives; what is called then is done before anybody is told.
    pub(super) async fn run(mut self, over: impl FnOnce()) {
        let ours = self.leader.child.is_some();
        let ordered = {
            let orders = &mut self.orders;
            let order = async move {
                // Every handle may be gone: then only the program itself ends it.
                let order = orders.wait_for(Option::is_some).await.ok().and_then(|order| *order);
                match order {
                    Some(order) => Some(order),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.leader.exited(), if ours => None,
                order = order => order,
            }
        };
        self.leader.stopped = ordered.is_some() && !(ours && self.leader.has_exited());
        let stop = ordered.filter(|_| self.leader.stopped).unwrap_or(Stop::LEFT_BEHIND);
        self.end(stop).await;
        self.tidy().await;
        over();
        self.state.send_replace(State::Ended(self.leader.exit()));
    }

    /// Asks with growing emphasis, then does not ask any more; returns once nothing lives.
    async fn end(&mut self, stop: Stop) {
        if self.leader.has_exited() && self.nobody_else_lives().await {
            return;
        }
        for (signal, grace) in stop.steps() {
            if *self.orders.borrow() == Some(Stop::NOW) {
                break;
            }
            let until = Instant::now() + grace;
            let alive = self.alive().await;
            self.members.signal(&alive, signal.raw());
            if self.emptied_by(until, true).await {
                return;
            }
        }
        let mut pause = FIRST_LOOK;
        loop {
            // Whatever was forked while we looked is caught by the next look.
            let alive = self.alive().await;
            self.members.signal(&alive, Signal::KILL);
            if self.emptied_by(Instant::now() + pause, false).await {
                return;
            }
            pause = (pause * 2).min(LAST_LOOK);
        }
    }

    /// Removes its control group: the dead leave it a moment after they have ended.
    async fn tidy(&self) {
        let until = Instant::now() + TIDY_WITHIN;
        let mut pause = FIRST_LOOK;
        while !self.members.tidy() && Instant::now() < until {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_LOOK);
        }
    }

    /// Whether nothing lives by then. An order to stop now can cut it short.
    async fn emptied_by(&mut self, until: Instant, can_be_hurried: bool) -> bool {
        let mut orders = self.orders.clone();
        let hurried = async move {
            let now = can_be_hurried && orders.wait_for(|order| *order == Some(Stop::NOW)).await.is_ok();
            if !now {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = self.emptied() => true,
            () = hurried => false,
            () = tokio::time::sleep_until(until) => false,
        }
    }

    /// Waits until nothing of it lives.
    async fn emptied(&mut self) {
        self.leader.exited().await;
        let mut pause = FIRST_LOOK;
        while !self.nobody_else_lives().await {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_LOOK);
        }
    }

    /// Whether nothing lives but, maybe, the process that was started.
    async fn nobody_else_lives(&mut self) -> bool {
        let exit = self.leader.exit();
        self.state.send_if_modified(|state| {
            let first = *state == State::Running;
            if first {
                *state = State::Exited(exit);
            }
            first
        });
        self.alive().await.is_empty()
    }

    /// Those that live. Where they cannot be looked at it looks again: what is not seen has not ended by that.
    async fn alive(&self) -> Vec<Identity> {
        loop {
            let look = async {
                let (snapshot, members) = (self.census.take().await?, self.members.clone());
                tokio::task::spawn_blocking(move || members.alive(&snapshot)).await?
            };
            match look.await {
                Ok(alive) => return alive,
                Err(error) => {
                    tracing::warn!(leader = ?self.members.leader, "failed to look for the processes of a program: {error}");
                    tokio::time::sleep(LAST_LOOK).await;
                }
            }
        }
    }
}
