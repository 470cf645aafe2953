//! A ledger in memory, for paused time, and an upstream that answers as it is told.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::expect_used, clippy::unwrap_used, missing_docs, unreachable_pub)]

use countermand::{
    clock::SystemClock,
    core::{
        CallId, Dice, Inputs, Key, Kind, NewRow, News, Notice, OnDisconnect, OperationId, Owner, Policy,
        Principal, Row, Timestamp, UpstreamId, WhenCompleted,
        event::{CancelAnswer, CreateAnswer, End, FindAnswer, RequestAnswer, StatusAnswer, Trouble},
        notice::Told,
        ports::{
            BoxFuture, Clock, Created, Definition, Entry, Filed, Ledger, LedgerError, Order, Payload, Permit,
            Query, Read, Request, Upstream,
        },
    },
    engine::{Engine, Healths, Parts},
};
use countermand_testkit::faults::FaultyLedger;
use serde_json::{Map, json};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// A ledger that keeps its rows in memory.
#[derive(Default)]
pub struct MemoryLedger {
    state: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    rows: BTreeMap<OperationId, Row>,
    history: HashMap<OperationId, Vec<Entry>>,
    definitions: HashMap<String, Definition>,
    requests: Vec<Filed>,
    notices: Vec<KeptNotice>,
}

struct KeptNotice {
    notice: Notice,
    next_at: Option<Timestamp>,
}

impl MemoryLedger {
    pub fn row(&self, id: OperationId) -> Row {
        self.state.lock().unwrap().rows[&id].clone()
    }

    pub fn events(&self, id: OperationId) -> Vec<String> {
        self.state.lock().unwrap().history[&id].iter().map(|entry| entry.event.clone()).collect()
    }
}

fn done<T: Send + 'static>(value: T) -> BoxFuture<'static, T> {
    Box::pin(std::future::ready(value))
}

impl Ledger for MemoryLedger {
    fn define(&self, definition: Definition) -> BoxFuture<'_, Result<(), LedgerError>> {
        self.state.lock().unwrap().definitions.insert(definition.hash.0.clone(), definition);
        done(Ok(()))
    }

    fn definition(
        &self,
        hash: countermand::core::DefinitionHash,
    ) -> BoxFuture<'_, Result<Definition, LedgerError>> {
        let found = self.state.lock().unwrap().definitions.get(&hash.0).cloned();
        done(found.ok_or(LedgerError::Absent { what: "definition".into() }))
    }

    fn insert(&self, mut row: Row, entry: Entry) -> BoxFuture<'_, Result<Row, LedgerError>> {
        row.version = 1;
        let mut state = self.state.lock().unwrap();
        state.history.insert(row.id, vec![entry]);
        state.rows.insert(row.id, row.clone());
        done(Ok(row))
    }

    fn update_with_news(
        &self,
        mut row: Row,
        epoch: u64,
        entry: Entry,
        news: Vec<News>,
    ) -> BoxFuture<'_, Result<Row, LedgerError>> {
        let mut state = self.state.lock().unwrap();
        let Some(stored) = state.rows.get(&row.id) else {
            return done(Err(LedgerError::Absent { what: row.id.to_string() }));
        };
        if stored.epoch != epoch || stored.version != row.version {
            let (epoch, version) = (stored.epoch, stored.version);
            return done(Err(LedgerError::Fenced { id: row.id, epoch, version }));
        }
        row.version += 1;
        for news in news {
            let known = state.notices.iter().any(|kept| kept.notice.operation == row.id);
            if news != News::Settled || known {
                let number = state.notices.len() as u64 + 1;
                let notice = Notice { number, operation: row.id, news, at: entry.at, attempts: 0 };
                state.notices.push(KeptNotice { notice, next_at: Some(entry.at) });
            }
        }
        state.history.entry(row.id).or_default().push(entry);
        state.rows.insert(row.id, row.clone());
        done(Ok(row))
    }

    fn notices(&self, due_by: Timestamp, limit: usize) -> BoxFuture<'_, Result<Vec<Notice>, LedgerError>> {
        let state = self.state.lock().unwrap();
        let mut seen = Vec::new();
        let waiting = state.notices.iter().filter(|kept| kept.next_at.is_some());
        let oldest = waiting.filter(|kept| {
            let first = !seen.contains(&kept.notice.operation);
            seen.push(kept.notice.operation);
            first && kept.next_at.is_some_and(|at| at <= due_by)
        });
        done(Ok(oldest.take(limit).map(|kept| kept.notice.clone()).collect()))
    }

    fn told(&self, notice: u64, told: Told) -> BoxFuture<'_, Result<(), LedgerError>> {
        let mut state = self.state.lock().unwrap();
        if let Some(kept) = state.notices.iter_mut().find(|kept| kept.notice.number == notice) {
            kept.notice.attempts += 1;
            kept.next_at = match told {
                Told::Again { at, .. } => Some(at),
                _ => None,
            };
        }
        done(Ok(()))
    }

    fn get(&self, id: OperationId) -> BoxFuture<'_, Result<Row, LedgerError>> {
        let found = self.state.lock().unwrap().rows.get(&id).cloned();
        done(found.ok_or(LedgerError::Absent { what: id.to_string() }))
    }

    fn list(&self, query: Query) -> BoxFuture<'_, Result<Vec<Row>, LedgerError>> {
        let state = self.state.lock().unwrap();
        let mut rows: Vec<Row> = state
            .rows
            .values()
            .filter(|row| !query.unsettled || !row.phase.is_settled())
            .filter(|row| query.identity.as_ref().is_none_or(|identity| row.identity() == *identity))
            .filter(|row| query.other_than_epoch.is_none_or(|epoch| row.epoch != epoch))
            .filter(|row| query.due_by.is_none_or(|by| row.next_at.is_some_and(|at| at <= by)))
            .cloned()
            .collect();
        if query.order == Order::Newest {
            rows.reverse();
        }
        rows.truncate(query.limit);
        done(Ok(rows))
    }

    fn history(&self, id: OperationId) -> BoxFuture<'_, Result<Vec<Entry>, LedgerError>> {
        done(Ok(self.state.lock().unwrap().history.get(&id).cloned().unwrap_or_default()))
    }

    fn file_request(&self, request: Request) -> BoxFuture<'_, Result<(), LedgerError>> {
        let mut state = self.state.lock().unwrap();
        let number = state.requests.last().map_or(1, |filed| filed.number + 1);
        state.requests.push(Filed { number, request });
        done(Ok(()))
    }

    fn requests(&self) -> BoxFuture<'_, Result<Vec<Filed>, LedgerError>> {
        done(Ok(self.state.lock().unwrap().requests.clone()))
    }

    fn answered(&self, request: u64) -> BoxFuture<'_, Result<(), LedgerError>> {
        self.state.lock().unwrap().requests.retain(|filed| filed.number != request);
        done(Ok(()))
    }

    fn prune(&self, _before: Timestamp) -> BoxFuture<'_, Result<u64, LedgerError>> {
        done(Ok(0))
    }
}

/// What the scripted upstream does with one request.
pub enum Say {
    /// Answers.
    Answer(Answer),
    /// Answers when released.
    Hold(Arc<Notify>, Answer),
    /// Never answers.
    Hang,
    /// Breaks the task.
    Panic,
}

#[derive(Clone)]
pub enum Answer {
    Create(CreateAnswer),
    Find(FindAnswer),
    Status(StatusAnswer),
    Cancel(CancelAnswer),
    Done(RequestAnswer),
    Result(Result<Payload, Trouble>),
}

/// An upstream that answers each kind of request from its own script; past its end the last answer repeats where
/// there is one, else it hangs.
#[derive(Default)]
pub struct Script {
    says: Mutex<HashMap<&'static str, VecDeque<Say>>>,
    pub sent: Mutex<Vec<&'static str>>,
    pub seen: Notify,
    pub keys: Mutex<Vec<Key>>,
    /// Whether a result takes a request of its own, which names an input.
    pub separate_result: AtomicBool,
}

impl Script {
    pub fn say(&self, request: &'static str, say: Say) -> &Self {
        self.says.lock().unwrap().entry(request).or_default().push_back(say);
        self
    }

    pub fn count(&self, request: &str) -> usize {
        self.sent.lock().unwrap().iter().filter(|sent| **sent == request).count()
    }

    /// Waits until a request was sent so many times.
    pub async fn sent(&self, request: &str, times: usize) {
        loop {
            let seen = self.seen.notified();
            if self.count(request) >= times {
                return;
            }
            seen.await;
        }
    }

    async fn answer(&self, request: &'static str) -> Answer {
        self.sent.lock().unwrap().push(request);
        self.seen.notify_waiters();
        let say = {
            let mut says = self.says.lock().unwrap();
            let queue = says.entry(request).or_default();
            match queue.front() {
                Some(Say::Answer(answer)) if queue.len() == 1 => Say::Answer(answer.clone()),
                _ => queue.pop_front().unwrap_or(Say::Hang),
            }
        };
        match say {
            Say::Answer(answer) => answer,
            Say::Hold(gate, answer) => {
                gate.notified().await;
                answer
            }
            Say::Hang => std::future::pending().await,
            Say::Panic => panic!("the script says so"),
        }
    }
}

impl Upstream for Script {
    fn admit(&self) -> BoxFuture<'_, Permit> {
        done(Permit(Box::new(())))
    }

    fn create<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, Created> {
        Box::pin(async {
            self.keys.lock().unwrap().push(row.key);
            match self.answer("create").await {
                Answer::Create(answer) => Created { answer, payload: None },
                _ => panic!("no create answer"),
            }
        })
    }

    fn find<'a>(&'a self, _row: &'a Row) -> BoxFuture<'a, FindAnswer> {
        Box::pin(async {
            match self.answer("find").await {
                Answer::Find(answer) => answer,
                _ => panic!("no find answer"),
            }
        })
    }

    fn status<'a>(&'a self, _row: &'a Row) -> BoxFuture<'a, Read> {
        Box::pin(async {
            match self.answer("status").await {
                Answer::Status(answer) => {
                    let inline = !self.separate_result.load(Ordering::SeqCst);
                    Read { answer, progress: None, payload: inline.then(|| Payload::Json(json!("done"))) }
                }
                _ => panic!("no status answer"),
            }
        })
    }

    fn cancel<'a>(&'a self, _row: &'a Row, force: bool) -> BoxFuture<'a, CancelAnswer> {
        Box::pin(async move {
            match self.answer(if force { "force" } else { "cancel" }).await {
                Answer::Cancel(answer) => answer,
                _ => panic!("no cancel answer"),
            }
        })
    }

    fn mark<'a>(&'a self, _row: &'a Row) -> BoxFuture<'a, RequestAnswer> {
        Box::pin(async { self.request("mark").await })
    }

    fn undo<'a>(&'a self, _row: &'a Row) -> BoxFuture<'a, RequestAnswer> {
        Box::pin(async { self.request("undo").await })
    }

    fn result<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, Result<Payload, Trouble>> {
        if self.says.lock().unwrap().contains_key("result") {
            return Box::pin(async {
                match self.answer("result").await {
                    Answer::Result(result) => result,
                    _ => panic!("no result"),
                }
            });
        }
        done(match row.inputs.values() {
            Some(_) => Ok(Payload::Json(json!("done"))),
            None => Err(Trouble::new("the inputs are sealed")),
        })
    }
}

impl Script {
    async fn request(&self, name: &'static str) -> RequestAnswer {
        match self.answer(name).await {
            Answer::Done(answer) => answer,
            _ => panic!("no answer"),
        }
    }
}

pub fn created() -> Answer {
    Answer::Create(CreateAnswer::Created { id: Some(UpstreamId::from("job-1")), saved: Map::new() })
}

pub fn running() -> Answer {
    Answer::Status(StatusAnswer::Running {
        state: "running".into(),
        listed: true,
        retry_after: None,
        saved: Map::new(),
    })
}

pub fn ended(end: End) -> Answer {
    Answer::Status(StatusAnswer::Ended { end, error: None, saved: serde_json::Map::new() })
}

pub fn accepted() -> Answer {
    Answer::Cancel(CancelAnswer::Accepted { how: "202".into() })
}

pub fn refused(message: &str) -> Answer {
    Answer::Cancel(CancelAnswer::NotAccepted(Trouble::new(message)))
}

/// A job API with a key and a look-up.
pub fn policy() -> Policy {
    Policy {
        kind: Kind::Job,
        can_cancel: true,
        confirm_within: Duration::from_secs(30),
        force_after: None,
        find: Some(countermand::core::Lookup::Consistent),
        key_window: Some(Duration::from_secs(24 * 3600)),
        shield: Duration::from_secs(30),
        horizon: Duration::from_secs(60),
        poll_every: Duration::from_millis(500),
        poll_max: Duration::from_secs(10),
        lifetime: Duration::from_secs(3600),
        undo_steps: 0,
        when_completed: WhenCompleted::Keep,
        mark: false,
    }
}

/// An engine over a ledger in memory and a scripted upstream.
pub struct Bench {
    pub engine: Engine,
    pub ledger: Arc<FaultyLedger<MemoryLedger>>,
    pub upstream: Arc<Script>,
    pub clock: Arc<SystemClock>,
    pub definition: Definition,
    pub epoch: u64,
}

impl Bench {
    pub fn new(policy: Policy) -> Self {
        Self::on(Arc::default(), Arc::new(Script::default()), policy, 1)
    }

    pub fn on(
        ledger: Arc<FaultyLedger<MemoryLedger>>,
        upstream: Arc<Script>,
        policy: Policy,
        epoch: u64,
    ) -> Self {
        Self::sharing(Healths::default(), ledger, upstream, policy, epoch)
    }

    /// One that knows what others know of the upstream.
    pub fn sharing(
        healths: Healths,
        ledger: Arc<FaultyLedger<MemoryLedger>>,
        upstream: Arc<Script>,
        policy: Policy,
        epoch: u64,
    ) -> Self {
        let clock = Arc::new(SystemClock::new());
        let performer = upstream.clone();
        let engine = Engine::new(Parts {
            ledger: ledger.clone(),
            performers: Arc::new(move |_| Ok(performer.clone())),
            clock: clock.clone(),
            owner: Owner::from("test"),
            epoch,
            retention: Duration::from_secs(3600),
            healths,
        });
        let definition = Definition {
            hash: "d".into(),
            policy: Arc::new(policy),
            body: json!({ "upstream": { "name": "u" } }),
        };
        Self { engine, ledger, upstream, clock, definition, epoch }
    }

    pub fn row(&self, on_disconnect: OnDisconnect) -> Row {
        let new = NewRow {
            id: OperationId(uuid::Uuid::now_v7()),
            call: CallId(uuid::Uuid::now_v7()),
            session: None,
            request_id: Some("1".into()),
            principal: Principal::from("p"),
            tool: "t".into(),
            args_hash: String::new(),
            inputs: Map::new(),
            definition: "d".into(),
            policy: self.definition.policy.clone(),
            upstream: "u".into(),
            key: Dice(*uuid::Uuid::new_v4().as_bytes()).key(),
            on_disconnect,
            owner: Owner::from("test"),
            epoch: self.epoch,
        };
        Row::new(new, self.clock.now().at)
    }

    pub async fn start(&self) -> countermand::engine::Operation {
        self.engine.start(self.row(OnDisconnect::Cancel), &self.definition, None).await.expect("starts")
    }
}

/// Follows an operation until its view fits.
pub async fn until(operation: &mut countermand::engine::Operation, fits: impl Fn(&Row) -> bool) -> Arc<Row> {
    loop {
        let view = operation.view();
        if fits(&view.row) {
            return view.row;
        }
        if operation.changed().await.is_none() {
            let row = operation.view().row;
            assert!(fits(&row), "the operation ended in {}: {:?}", row.phase, row.last_error);
            return row;
        }
    }
}

pub fn sealed(row: &Row) -> bool {
    matches!(row.inputs, Inputs::Sealed(_))
}
