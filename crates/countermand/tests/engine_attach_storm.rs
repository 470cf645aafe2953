//! Many identical calls at once, on real threads and a real ledger: they start, join, cancel, leave and return as they
//! like, and at no moment do two jobs of one kind run that nobody has cancelled.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod common;

use common::{created, policy, running};
use countermand::{
    clock::SystemClock,
    core::{
        CallId, Cause, Desired, Dice, Key, NewRow, OnDisconnect, OperationId, Owner, Policy, Principal, Row,
        event::{CancelAnswer, End, FindAnswer, RequestAnswer, StatusAnswer, Trouble},
        ports::{BoxFuture, Clock as _, Created, Definition, Ledger, Payload, Permit, Query, Read, Upstream},
    },
    engine::{Engine, Healths, Parts},
    ledger::{OpenMode, SqliteLedger},
};
use serde_json::{Map, json};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

/// How a job of the upstream is.
#[derive(Clone, Copy, PartialEq)]
enum Job {
    Running { polls: u32 },
    Cancelled,
}

/// An upstream with jobs by key, each of which ends by itself after a few polls.
struct Jobs {
    ledger: Arc<SqliteLedger>,
    jobs: Mutex<HashMap<Key, Job>>,
    twice: Mutex<Vec<Row>>,
}

fn done<T: Send + 'static>(value: T) -> BoxFuture<'static, T> {
    Box::pin(std::future::ready(value))
}

impl Upstream for Jobs {
    fn admit(&self) -> BoxFuture<'_, Permit> {
        done(Permit(Box::new(())))
    }

    fn create<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, Created> {
        Box::pin(async {
            let identical = Query { unsettled: true, identity: Some(row.identity()), ..Query::default() };
            let others = self.ledger.list(identical).await.expect("lists");
            let wanted =
                others.into_iter().filter(|other| other.id != row.id && other.desired == Desired::Run);
            self.twice.lock().unwrap().extend(wanted);
            self.jobs.lock().unwrap().insert(row.key, Job::Running { polls: 0 });
            let common::Answer::Create(answer) = created() else { unreachable!("a create's answer") };
            Created { answer, payload: None }
        })
    }

    fn find<'a>(&'a self, _row: &'a Row) -> BoxFuture<'a, FindAnswer> {
        done(FindAnswer::Miss)
    }

    fn status<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, Read> {
        let ended = |end| StatusAnswer::Ended { end, error: None, saved: Map::new() };
        let mut jobs = self.jobs.lock().unwrap();
        let answer = match jobs.get_mut(&row.key).expect("was created") {
            Job::Cancelled => ended(End::Cancelled),
            Job::Running { polls } if *polls >= 5 => ended(End::Completed),
            Job::Running { polls } => {
                *polls += 1;
                let common::Answer::Status(answer) = running() else { unreachable!("a status") };
                answer
            }
        };
        done(Read { answer, progress: None, payload: None })
    }

    fn cancel<'a>(&'a self, row: &'a Row, _force: bool) -> BoxFuture<'a, CancelAnswer> {
        let mut jobs = self.jobs.lock().unwrap();
        let job = jobs.get_mut(&row.key).expect("was created");
        if matches!(job, Job::Running { polls } if *polls < 5) {
            *job = Job::Cancelled;
        }
        done(CancelAnswer::Accepted { how: "202".into() })
    }

    fn mark<'a>(&'a self, _row: &'a Row) -> BoxFuture<'a, RequestAnswer> {
        done(RequestAnswer::Done)
    }

    fn undo<'a>(&'a self, _row: &'a Row) -> BoxFuture<'a, RequestAnswer> {
        done(RequestAnswer::Done)
    }

    fn result<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, Result<Payload, Trouble>> {
        done(match row.inputs.values() {
            Some(_) => Ok(Payload::Json(json!("done"))),
            None => Err(Trouble::new("the inputs are sealed")),
        })
    }
}

struct Storm {
    engine: Engine,
    upstream: Arc<Jobs>,
    definition: Definition,
    clock: Arc<SystemClock>,
}

impl Storm {
    fn row(&self, args: usize, on_disconnect: OnDisconnect) -> Row {
        let now = self.clock.now();
        let new = NewRow {
            id: OperationId(uuid::Uuid::now_v7()),
            call: CallId(uuid::Uuid::now_v7()),
            session: None,
            request_id: None,
            principal: Principal::from("p"),
            tool: "t".into(),
            args_hash: format!("{args}"),
            inputs: Map::new(),
            definition: "d".into(),
            policy: self.definition.policy.clone(),
            upstream: "u".into(),
            key: Dice(*uuid::Uuid::new_v4().as_bytes()).key(),
            on_disconnect,
            owner: Owner::from("test"),
            epoch: 1,
        };
        Row::new(new, now.at)
    }

    /// One call, which does something of its own.
    async fn call(&self, n: usize) {
        let grace = OnDisconnect::Grace(Duration::from_millis(20));
        let on_disconnect = [OnDisconnect::Cancel, grace, OnDisconnect::Detach][n % 3];
        let row = self.row(n % 4, on_disconnect);
        let mut operation =
            self.engine.start_or_attach(row, &self.definition, None).await.expect("starts or attaches");
        // What is over changes no more.
        for _ in 0..n % 7 {
            if operation.view().is_over() {
                break;
            }
            operation.changed().await;
        }
        match n % 6 {
            0 => operation.cancel(Cause::ClientCancelled, None),
            1 => drop(operation),
            2 => {
                operation.client_away(Cause::ClientDisconnected);
                tokio::task::yield_now().await;
                operation.client_returned();
                operation.client_left(Cause::SessionEnded);
            }
            _ => {
                while !operation.view().is_over() && operation.changed().await.is_some() {}
                let view = operation.view();
                if view.has_completed() {
                    operation.result().await.expect("has a result");
                }
                operation.delivered();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identical_calls_never_run_twice_whatever_they_do() {
    let directory = tempfile::tempdir().expect("makes a directory");
    let ledger = SqliteLedger::open(directory.path().join("ledger.db"), OpenMode::Gateway).expect("opens");
    let ledger = Arc::new(ledger);
    let upstream = Arc::new(Jobs { ledger: ledger.clone(), jobs: Mutex::default(), twice: Mutex::default() });
    let (performer, clock) = (upstream.clone(), Arc::new(SystemClock::new()));
    let engine = Engine::new(Parts {
        ledger: ledger.clone(),
        performers: Arc::new(move |_| Ok(performer.clone())),
        clock: clock.clone(),
        owner: Owner::from("test"),
        epoch: ledger.epoch(),
        retention: Duration::from_secs(3600),
        healths: Healths::default(),
    });
    engine.reconcile();
    let poll = Duration::from_millis(2);
    let policy = Policy { poll_every: poll, poll_max: poll, ..policy() };
    let body = json!({ "upstream": { "name": "u" } });
    let definition = Definition { hash: "d".into(), policy: Arc::new(policy), body };
    let storm = Arc::new(Storm { engine, upstream, definition, clock });
    let calls: tokio::task::JoinSet<()> = (0..400)
        .map(|n| {
            let storm = storm.clone();
            async move { storm.call(n).await }
        })
        .collect();
    calls.join_all().await;

    let settled = async {
        let unsettled = Query { unsettled: true, ..Query::default() };
        while !storm.engine.list(unsettled.clone()).await.expect("lists").is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), settled).await.expect("all of it is settled");
    assert_eq!(*storm.upstream.twice.lock().unwrap(), []);
    let rows = storm.engine.list(Query { limit: 1_000, ..Query::default() }).await.expect("lists");
    println!("400 calls, {} operations", rows.len());
    assert!(rows.len() < 400, "nothing was joined");
    storm.engine.shutdown(Duration::ZERO).await;
}
