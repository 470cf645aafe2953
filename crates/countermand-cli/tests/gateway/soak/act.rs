//! What a soak does: one action after the other, with one gateway that serves every door.

use super::{ALL, dice::Dice, faults};
use crate::stage::{Session, Stage};
use countermand_testkit::client::{Exchange, HttpClient, StdioClient, message};
use serde_json::{Value, json};
use std::time::Duration;

/// Calls in flight at the same time; beyond, the oldest is cancelled.
const MOST: usize = 60;

/// A gateway that serves stdin and HTTP, and its clients.
pub struct Clients {
    pub stdio: StdioClient,
    pub http: HttpClient,
    sessions: Vec<Session>,
    calls: Vec<Call>,
    next_id: u64,
}

/// A call in flight, as its client sees it.
enum Call {
    Stdio(u64),
    /// The exchange is its only hold.
    Http(Exchange),
    /// The exchange is gone where the client has left; it may come back.
    Session {
        of: Session,
        id: u64,
        stream: u64,
        exchange: Option<Exchange>,
    },
}

impl Clients {
    pub async fn start(stage: &Stage) -> Self {
        let mut serve = stage.serve(&["--stdio", "--http", "127.0.0.1:0", "--grace", "3s"]);
        serve.env("COUNTERMAND_LOG", "info");
        let mut stdio = StdioClient::spawn(serve).unwrap();
        stdio.initialize("2025-11-25").await;
        let http = HttpClient::new(&stdio.stderr_line("http://").await);
        let mut clients = Self { stdio, http, sessions: Vec::new(), calls: Vec::new(), next_id: 1 };
        for revision in ["2025-11-25", "2025-06-18"] {
            clients.sessions.push(Session::open(&clients.http, revision).await);
        }
        clients
    }

    pub fn pid(&self) -> u32 {
        self.stdio.pid().expect("the gateway runs")
    }

    /// Does something, and says what.
    pub async fn act(&mut self, stage: &Stage, dice: &mut Dice) -> String {
        if self.calls.len() > MOST {
            return self.cancel(0).await;
        }
        match dice.below(100) {
            0..40 => self.call(dice).await,
            40..55 if !self.calls.is_empty() => self.cancel(dice.below(self.calls.len())).await,
            55..63 => self.leave(dice),
            63..71 => self.come_back(dice).await,
            71..80 => end_a_job(stage, dice),
            80..89 => {
                let (route, fault, times) = faults::any(dice);
                let said = format!("fault {route:?} {} × {times}", fault.name());
                stage.fake.fault(route, fault, Some(times));
                said
            }
            89..92 => format!("release {} slow reads", stage.fake.release_slow(None)),
            92..94 => self.replace_a_session(dice).await,
            94..96 => {
                let id = 9_000_000 + dice.below(1_000) as u64;
                self.stdio.send(&message::cancelled(id, Some("unknown"))).await;
                format!("cancel of the unknown id {id}")
            }
            _ => {
                self.answered_at_once(dice).await;
                "barrier".into()
            }
        }
    }

    async fn call(&mut self, dice: &mut Dice) -> String {
        let tool = *dice.one_of(&ALL);
        let id = self.next_id;
        self.next_id += 1;
        // Few tags for what may be shared, else one of its own.
        let tag = if tool == "shared" { format!("s{}", dice.below(3)) } else { format!("t{id}") };
        let arguments = json!({ "tag": tag, "secs": 0.2 + dice.below(40) as f64 / 10.0 });
        let call = if dice.percent(50) {
            message::call_with_progress(id, tool, arguments, id)
        } else {
            message::call(id, tool, arguments)
        };
        match dice.below(3) {
            0 => {
                self.stdio.send(&call).await;
                self.calls.push(Call::Stdio(id));
                format!("call {id} {tool} over stdio")
            }
            1 => {
                let accept = *dice.one_of(&["application/json", "application/json, text/event-stream"]);
                let bytes = self.http.request_bytes(&call, &[("Accept", accept)]);
                self.calls.push(Call::Http(self.http.write(&bytes).await));
                format!("call {id} {tool} over http, {accept}")
            }
            _ => {
                let of = dice.one_of(&self.sessions).clone();
                let exchange = Some(of.send(&call).await);
                let said = format!("call {id} {tool} in a session of {}", of.revision);
                // Its stream's number is not known before it is read; a guess is as good for a soak.
                self.calls.push(Call::Session { of, id, stream: id, exchange });
                said
            }
        }
    }

    async fn cancel(&mut self, at: usize) -> String {
        match self.calls.swap_remove(at) {
            Call::Stdio(id) => {
                self.stdio.send(&message::cancelled(id, Some("enough"))).await;
                format!("cancel {id} over stdio")
            }
            Call::Http(exchange) => {
                exchange.close();
                "close an http call".into()
            }
            Call::Session { of, id, .. } => {
                // The session may have ended: that is 404, and as good.
                let _ended = of.send(&message::cancelled(id, None)).await.head().await;
                format!("cancel {id} in a session")
            }
        }
    }

    /// The client of a call goes away, in one way or another.
    fn leave(&mut self, dice: &mut Dice) -> String {
        let Some(at) = self.any_call(dice) else { return "nobody to leave".into() };
        let reset = dice.percent(50);
        let go = |exchange: Exchange| if reset { exchange.reset() } else { exchange.close() };
        match &mut self.calls[at] {
            Call::Stdio(id) => return format!("{id} cannot leave"),
            Call::Http(_) => {
                if let Call::Http(exchange) = self.calls.swap_remove(at) {
                    go(exchange);
                }
            }
            Call::Session { exchange, .. } => {
                if let Some(exchange) = exchange.take() {
                    go(exchange);
                }
            }
        }
        format!("leave, reset: {reset}")
    }

    async fn come_back(&mut self, dice: &mut Dice) -> String {
        let Some(at) = self.any_call(dice) else { return "nobody to come back".into() };
        match &mut self.calls[at] {
            Call::Session { of, id, stream, exchange } => {
                *stream = 1 + dice.below(40) as u64;
                let last = format!("{stream}-0");
                *exchange = Some(of.get(Some(&last)).await);
                format!("come back for {id} with {last}")
            }
            _ => "come back: not in a session".into(),
        }
    }

    fn any_call(&self, dice: &mut Dice) -> Option<usize> {
        (!self.calls.is_empty()).then(|| dice.below(self.calls.len()))
    }

    async fn replace_a_session(&mut self, dice: &mut Dice) -> String {
        let at = dice.below(self.sessions.len());
        let revision = self.sessions[at].revision;
        let old = std::mem::replace(&mut self.sessions[at], Session::open(&self.http, revision).await);
        self.calls.retain(|call| !matches!(call, Call::Session { of, .. } if of.id == old.id));
        old.delete().await;
        format!("delete a session of {revision}")
    }

    /// Whatever goes on, each door answers at once.
    pub async fn answered_at_once(&mut self, dice: &mut Dice) {
        self.stdio.barrier().await;
        self.http.barrier().await;
        dice.one_of(&self.sessions).barrier().await;
    }

    /// All clients have left: their calls are cancelled, their sessions end.
    pub async fn leave_all(&mut self) {
        while !self.calls.is_empty() {
            self.cancel(0).await;
        }
        for session in self.sessions.drain(..) {
            session.delete().await;
        }
        self.stdio.barrier().await;
    }

    /// What each of them costs when nothing is going on: each door has been used.
    pub async fn warm_up(&mut self) {
        for id in 0..30 {
            let call =
                |kind: u64| message::call(8_000_000 + kind * 100 + id, "quick", json!({ "tag": "warm" }));
            self.stdio.send(&call(0)).await;
            self.http.request(&call(1)).await.response().await;
            self.sessions[0].send(&call(2)).await.response().await;
            self.stdio.response(&call(0)["id"]).await;
        }
    }

    /// Ends the gateway in a way that lets it finish, and returns what it said last on stdout.
    pub async fn end(mut self, by_signal: bool) -> Vec<Value> {
        if by_signal {
            self.stdio.terminate();
        } else {
            self.stdio.close_input();
        }
        let said = self.stdio.read_to_end().await;
        let status = self.stdio.exit().await;
        assert!(status.success(), "{status}: {}", self.stdio.stderr());
        said
    }

    /// Kills it.
    pub async fn kill(mut self) {
        self.stdio.kill().await;
    }
}

fn end_a_job(stage: &Stage, dice: &mut Dice) -> String {
    let live = stage.fake.live_jobs();
    if live.is_empty() {
        return "no job to end".into();
    }
    let job = &dice.one_of(&live).id;
    let ended = if dice.percent(75) { stage.fake.finish(job) } else { stage.fake.fail(job) };
    format!("end {job}: {ended}")
}

/// A pause between two actions: the pace of a soak, which waits for nothing.
pub async fn pause(dice: &mut Dice) {
    tokio::time::sleep(Duration::from_millis(dice.below(40) as u64)).await;
}
