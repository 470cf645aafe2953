//! One call through the lives of its gateways, and what became of it.

use super::cast::{Client, Operator, Plot, Tool};
use crate::stage::{Caller, Gateway, Stage};
use countermand::{
    core::{
        Phase, Row, Verdict,
        ports::{Action, Ledger as _, Query, Request},
    },
    crash::{self, CrashPoint},
    ledger::{OpenMode, SqliteLedger},
};
use countermand_testkit::{
    client::StdioClient,
    fake::{FakeUpstream, Filter},
};
use serde_json::json;
use std::{
    net::SocketAddr,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::ExitStatus,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use tokio::process::Command;

/// What a gateway's life is armed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arm {
    /// Writes down the points that it passes.
    Trace,
    /// Dies there, the so-manieth time that it passes.
    At(CrashPoint, u32),
    /// Nothing.
    No,
}

/// One play: a plot with its cast.
#[derive(Debug, Clone, Copy)]
pub struct Play {
    pub plot: Plot,
    pub tool: Tool,
    pub client: Client,
    pub http: bool,
}

/// What became of it.
#[derive(Debug, Default)]
pub struct Seen {
    /// The points that each traced life passed.
    pub traces: Vec<Vec<CrashPoint>>,
    /// What the last life made of it.
    pub outcome: String,
}

struct Scene {
    play: Play,
    stage: Stage,
    ledger: Option<SqliteLedger>,
    /// Keeps a port on which nobody listens, until somebody does.
    reserved: Option<(tokio::net::TcpSocket, SocketAddr)>,
    late: Option<FakeUpstream>,
    asked: AtomicBool,
    life: usize,
}

impl Play {
    /// Plays it; a gateway whose life is over is followed by the next.
    pub async fn lives(self, arms: &[Arm]) -> Seen {
        let mut scene = Scene::set(self).await;
        let mut seen = Seen::default();
        for (n, arm) in arms.iter().enumerate() {
            let mark = scene.stage.dir.path().join(format!("mark-{n}"));
            scene.life = n;
            let ended = if n == 0 { scene.first(*arm, &mark).await } else { scene.next(*arm, &mark).await };
            let marks = std::fs::read_to_string(&mark).unwrap_or_default();
            let marks: Vec<CrashPoint> = marks.lines().map(|line| line.parse().unwrap()).collect();
            match arm {
                Arm::At(point, _) => {
                    assert_eq!(marks, [*point], "it did not die there, but ended: {ended:?}");
                    assert_eq!(ended.and_then(|status| status.signal()), Some(9));
                }
                Arm::Trace => seen.traces.push(marks),
                Arm::No => {}
            }
        }
        seen.outcome = scene.judge().await;
        seen
    }
}

impl Scene {
    async fn set(play: Play) -> Self {
        let stage = play.plot.stage().await;
        let mut scene = Self {
            play,
            stage,
            ledger: None,
            reserved: None,
            late: None,
            asked: AtomicBool::new(false),
            life: 0,
        };
        if play.plot.nowhere {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.set_reuseaddr(true).unwrap();
            socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let address = socket.local_addr().unwrap();
            let base = scene.stage.fake.base_url();
            scene.stage.configure(|config| config.replace(&base, &format!("http://{address}")));
            scene.reserved = Some((socket, address));
        }
        scene
    }

    fn command(&self, arm: Arm, mark: &Path) -> Command {
        let more: &[&str] = if self.play.http { &["--http", "127.0.0.1:0"] } else { &[] };
        let mut command = self.stage.serve(more);
        match arm {
            Arm::Trace => drop(command.env(crash::POINT, "trace").env(crash::MARK, mark)),
            Arm::At(point, nth) => {
                command.env(crash::POINT, format!("{point}:{nth}")).env(crash::MARK, mark);
            }
            Arm::No => {}
        }
        command
    }

    async fn open(&mut self, arm: Arm, mark: &Path) -> Caller {
        let command = self.command(arm, mark);
        if self.play.http {
            return Caller::Http(Box::new(Gateway::start(command).await));
        }
        Caller::Stdio(Box::new(StdioClient::spawn(command).unwrap()))
    }

    /// The life in which the call is made. How it ended, where it did by itself.
    async fn first(&mut self, arm: Arm, mark: &Path) -> Option<ExitStatus> {
        let (gate, route) = self.play.plot.cue.gate(self.play.tool);
        let filter = Filter { route: Some(route), ..Filter::default() };
        let held = self.stage.fake.hold(gate, filter);
        let mut caller = self.open(arm, mark).await;
        if let Caller::Stdio(client) = &mut caller {
            client.initialize("2025-11-25").await;
        }
        let path = self.stage.ledger_file();
        self.ledger = Some(SqliteLedger::open(path, OpenMode::Operator).unwrap());
        let pending = caller.call(1, self.play.tool.name(), json!({ "tag": "t" })).await;
        let at_cue = async {
            match self.play.plot.nowhere {
                true => self.until_over().await,
                false => held.reached().await,
            }
        };
        if let Err(status) = unless_dead(&mut caller, at_cue).await {
            return Some(status);
        }
        let mut pending = Some(pending);
        match self.play.client {
            Client::Stays => {}
            Client::Cancels => caller.cancel(pending.take().unwrap()).await,
            Client::Disconnects => match &mut caller {
                Caller::Stdio(client) => client.close_input(),
                _ => pending = None,
            },
        }
        if let Some(operator @ Operator::Cancels) = self.play.plot.operator {
            self.ask(operator).await;
        }
        let moved = async {
            if self.play.client != Client::Stays || self.play.plot.operator == Some(Operator::Cancels) {
                self.until(|rows| rows.iter().any(|row| row.cancel_wanted() || row.phase.is_settled())).await;
            }
        };
        let died = unless_dead(&mut caller, moved).await.err();
        held.release();
        if died.is_some() {
            return died;
        }
        let went_on = unless_dead(&mut caller, self.until_over()).await;
        drop(pending);
        if let Err(status) = went_on {
            return Some(status);
        }
        Some(end(&mut caller).await)
    }

    /// A life that finds what the one before has left.
    async fn next(&mut self, arm: Arm, mark: &Path) -> Option<ExitStatus> {
        self.stage.fake.clear_faults();
        if let Some((socket, address)) = self.reserved.take() {
            drop(socket);
            self.late = Some(FakeUpstream::listen(address).await.unwrap());
        }
        let mut caller = self.open(arm, mark).await;
        if arm == Arm::No
            && let Caller::Stdio(client) = &mut caller
        {
            client.initialize("2025-11-25").await;
        }
        if self.rows().await.is_empty() {
            caller.barrier().await;
            return None;
        }
        let over = unless_dead(&mut caller, self.until_over()).await;
        match over {
            Err(status) => Some(status),
            Ok(()) if arm == Arm::No => None,
            Ok(()) => Some(end(&mut caller).await),
        }
    }

    /// The upstream that answers now.
    fn fake(&self) -> &FakeUpstream {
        self.late.as_ref().unwrap_or(&self.stage.fake)
    }

    fn ledger(&self) -> &SqliteLedger {
        self.ledger.as_ref().unwrap()
    }

    async fn rows(&self) -> Vec<Row> {
        self.ledger().list(Query::default()).await.unwrap()
    }

    /// Waits until the ledger's rows fit. It has no events for other processes: it is read again.
    async fn until(&self, fit: impl Fn(&[Row]) -> bool) {
        let waited = async {
            while !fit(&self.rows().await) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(30), waited).await.is_err() {
            panic!("it did not happen: {:#?}", self.rows().await);
        }
    }

    /// Waits until nothing more happens by itself, and does what the play needs for that: the upstream ends a job that
    /// is waited for, an operator does what is due.
    async fn until_over(&self) {
        let waited = async {
            loop {
                let waiting = self.ledger().requests().await.unwrap();
                let rows = self.rows().await;
                if waiting.is_empty() && !rows.is_empty() && rows.iter().all(|row| self.is_over(row)) {
                    return;
                }
                for row in &rows {
                    self.help(row).await;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(30), waited).await.is_err() {
            panic!("it did not end: {:#?}", self.rows().await);
        }
    }

    fn is_over(&self, row: &Row) -> bool {
        let lost = row.phase == Phase::Orphaned && row.upstream_id.is_none();
        row.phase.is_settled()
            || (lost && self.play.tool == Tool::Keyless)
            || (row.phase.awaits_operator() && !self.operator_comes())
    }

    fn operator_comes(&self) -> bool {
        !self.asked.load(Ordering::SeqCst)
            && matches!(self.play.plot.operator, Some(Operator::Retries | Operator::Resolves))
    }

    async fn help(&self, row: &Row) {
        if let Some(operator) = self.play.plot.operator
            && row.phase.awaits_operator()
            && self.operator_comes()
        {
            self.ask(operator).await;
        }
        // In a later life the client is gone.
        let stays = self.play.client == Client::Stays && self.life == 0 && !self.play.plot.endless;
        let events = self.fake().events();
        // A few reads later: the ones at which a gateway dies are over.
        let seen_running = events.iter().filter(|event| event.is("job_polled")).count() >= 3;
        let marked = events.iter().any(|event| event.is("marked"));
        let drains = matches!(row.phase, Phase::Draining | Phase::Orphaned) && marked;
        if (row.phase == Phase::Running && stays && seen_running && !row.cancel_wanted()) || drains {
            self.fake().finish("job-1");
        }
    }

    /// What `countermand ops` does: leaves a request for whoever drives the operation.
    async fn ask(&self, operator: Operator) {
        let action = match operator {
            Operator::Cancels => Action::Cancel { note: None },
            Operator::Retries => Action::Retry,
            Operator::Resolves => Action::Resolve { verdict: Verdict::Stopped, note: "seen".into() },
        };
        let operation = self.rows().await[0].id;
        self.ledger().file_request(Request { operation, action }).await.unwrap();
        // Not before: a death may end this play's waiting here, and then nobody has been asked.
        self.asked.store(true, Ordering::SeqCst);
    }

    /// What the ledger and the upstream's own record say in the end; they must agree.
    async fn judge(&self) -> String {
        let books = self.stage.agree_with(self.fake()).await;
        let rows = self.rows().await;
        let orphans = rows.iter().filter(|row| row.phase == Phase::Orphaned).count() as u64;
        let ended = books.completed + books.failed + books.cancelled;
        assert!(books.live <= orphans, "a live job that is no visible orphan: {books:?} {rows:#?}");
        assert!(books.created <= ended + orphans, "{books:?}");
        assert!(books.created <= 1, "one call, one job: {books:?}");
        let events = self.fake().events();
        let orders = events.iter().filter(|event| event.is("order_committed")).count();
        assert!(orders <= 1, "one call, one order");
        let row = match rows.as_slice() {
            [] => return "nothing was recorded, nothing was sent".into(),
            [row] => row,
            rows => panic!("one call, one row: {rows:#?}"),
        };
        match row.phase {
            Phase::Compensated => assert_eq!(self.fake().rows("t"), 0, "it says that it was undone"),
            Phase::NeverCreated => assert_eq!((books.created, orders), (0, 0), "{row:#?}"),
            Phase::Cancelled => assert_eq!(books.cancelled, 1, "{row:#?}"),
            _ => {}
        }
        row.phase.to_string()
    }
}

/// Does the work, unless the gateway dies over it.
async fn unless_dead(caller: &mut Caller, work: impl Future<Output = ()>) -> Result<(), ExitStatus> {
    tokio::select! {
        biased;
        status = caller.died() => Err(status),
        () = work => Ok(()),
    }
}

/// Ends a gateway whose operation is over by what the ledger says. A point may come after that.
async fn end(caller: &mut Caller) -> ExitStatus {
    match caller {
        Caller::Stdio(client) => client.close_input(),
        Caller::Http(gateway) | Caller::Session(gateway, _) => {
            if gateway.process.id().is_some() {
                gateway.terminate();
            }
        }
    }
    caller.died().await
}
