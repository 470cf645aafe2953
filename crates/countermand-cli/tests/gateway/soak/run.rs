//! A soak from its start to its balance.

use super::{
    TOOLS,
    act::{Clients, pause},
    dice::Dice,
};
use crate::stage::{Stage, Times};
use countermand_testkit::fake::EventKind;
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    time::Duration,
};
use tokio::time::Instant;

/// Actions that are shown where it fails.
const SHOWN: usize = 60;

/// How long what is unsettled may take to settle, once nothing fails any more: a grace, a horizon, a retry of a minute.
const SETTLES_WITHIN: Duration = Duration::from_secs(90);

pub struct Soak {
    stage: Stage,
    dice: Dice,
    did: Did,
}

/// The last actions; shown where a claim fails.
struct Did {
    seed: u64,
    number: u64,
    last: VecDeque<String>,
}

impl Did {
    fn note(&mut self, what: String) {
        self.number += 1;
        self.last.push_back(format!("{} {what}", self.number));
        if self.last.len() > SHOWN {
            self.last.pop_front();
        }
    }
}

impl Drop for Did {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let last: Vec<_> = self.last.iter().map(String::as_str).collect();
            println!("seed {}; the last actions of {}:\n{}", self.seed, self.number, last.join("\n"));
        }
    }
}

impl Soak {
    pub async fn new(dice: Dice) -> Self {
        let times = Times { shield: "2s", horizon: "1s" };
        let stage = Stage::with_config(times, |config| {
            config.replace("read_timeout: 20s", "read_timeout: 2s") + TOOLS
        })
        .await;
        let did = Did { seed: dice.seed, number: 0, last: VecDeque::new() };
        Self { stage, dice, did }
    }

    /// Two thirds of the time with restarts, the rest with one gateway, whose end is held against its beginning.
    pub async fn run(mut self, lasts: Duration) {
        let started = Instant::now();
        let mut restarts = 0;
        while started.elapsed() < lasts * 2 / 3 {
            let mut clients = Clients::start(&self.stage).await;
            let until = started.elapsed() + Duration::from_secs(2 + self.dice.below(6) as u64);
            while started.elapsed() < until {
                self.act(&mut clients).await;
            }
            restarts += 1;
            self.end(clients).await;
        }
        let mut clients = Clients::start(&self.stage).await;
        clients.warm_up().await;
        let before = Held::by(clients.pid());
        while started.elapsed() < lasts {
            self.act(&mut clients).await;
        }
        clients.leave_all().await;
        self.stage.fake.clear_faults();
        let rows = self.settle(&mut clients).await;
        self.balance(&rows).await;
        let after = self.calm(&mut clients, before).await;
        let books = self.stage.fake.books();
        println!("rows by phase: {:?}", by_phase(&rows));
        println!(
            "{} actions, {restarts} restarts, {} operations, {books:?}; held: {before:?} → {after:?}",
            self.did.number,
            rows.len()
        );
        once_each(&clients.end(false).await);
    }

    async fn act(&mut self, clients: &mut Clients) {
        let what = clients.act(&self.stage, &mut self.dice).await;
        self.did.note(what);
        pause(&mut self.dice).await;
    }

    async fn end(&mut self, clients: Clients) {
        let panicked = clients.stdio.stderr().contains("panicked");
        assert!(!panicked, "the gateway panicked: {}", clients.stdio.stderr());
        match self.dice.below(4) {
            0 | 1 => {
                self.did.note("SIGKILL".into());
                clients.kill().await;
            }
            2 => {
                self.did.note("SIGTERM".into());
                once_each(&clients.end(true).await);
            }
            _ => {
                self.did.note("the end of stdin".into());
                once_each(&clients.end(false).await);
            }
        }
    }

    /// Nothing fails any more, and every job ends: whatever is not settled then is a visible orphan.
    async fn settle(&mut self, clients: &mut Clients) -> Vec<Value> {
        let since = Instant::now();
        loop {
            self.stage.fake.release_slow(None);
            for job in self.stage.fake.live_jobs() {
                self.stage.fake.finish(&job.id);
            }
            let rows = self.stage.operations().await;
            let left: Vec<_> = rows.iter().filter(|row| !is_accounted_for(row)).collect();
            if left.is_empty() {
                println!("settled after {:.1} s", since.elapsed().as_secs_f64());
                return rows;
            }
            assert!(since.elapsed() <= SETTLES_WITHIN, "neither settled nor orphans: {left:#?}");
            clients.stdio.barrier().await;
            // The ledger has no events for other processes: it is read again.
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn balance(&self, rows: &[Value]) {
        let books = self.stage.agree().await;
        assert_eq!(books.live, 0, "all were ended: {books:?}");
        let known: HashSet<_> = rows.iter().filter_map(|row| row["upstream_id"].as_str()).collect();
        let keys: HashSet<_> = rows.iter().filter_map(|row| row["key"].as_str()).collect();
        let lost = self.stage.fake.jobs().into_iter().filter(|job| {
            !known.contains(job.id.as_str()) && !job.key.as_deref().is_some_and(|key| keys.contains(key))
        });
        let orphans = rows.iter().filter(|row| row["phase"] == "orphaned" && row["upstream_id"].is_null());
        let (lost, orphans) = (lost.count(), orphans.count());
        assert!(
            lost <= orphans,
            "{lost} jobs without an id or a key, and only {orphans} orphans that say so"
        );
        let mut ordered = HashSet::new();
        for event in self.stage.fake.events() {
            if let EventKind::OrderCommitted { key: Some(key), .. } = event.kind {
                assert!(ordered.insert(key.clone()), "two orders for the key {key}");
                assert!(keys.contains(key.as_str()), "an order that is in no row: {key}");
            }
        }
    }

    /// Waits until the gateway holds about as much as at its beginning.
    async fn calm(&mut self, clients: &mut Clients, before: Held) -> Held {
        let since = Instant::now();
        loop {
            let now = Held::by(clients.pid());
            // As many connections as a pool may keep idle, and some threads that wait for work.
            let calm = now.descriptors <= before.descriptors + 64 + 16
                && now.threads <= before.threads + 16
                && now.kib <= before.kib + 64 * 1024;
            if calm {
                return now;
            }
            assert!(since.elapsed() <= Duration::from_secs(60), "held: {before:?} → {now:?}");
            clients.stdio.barrier().await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

fn by_phase(rows: &[Value]) -> BTreeMap<&str, usize> {
    let mut phases = BTreeMap::new();
    for row in rows {
        *phases.entry(row["phase"].as_str().unwrap()).or_default() += 1;
    }
    phases
}

/// Settled, or in sight of an operator.
fn is_accounted_for(row: &Value) -> bool {
    let seen = ["orphaned", "needs_intervention", "compensation_failed"];
    row["settled"] == true || seen.iter().any(|phase| row["phase"] == *phase)
}

/// No request was answered twice.
fn once_each(said: &[Value]) {
    let mut ids = HashSet::new();
    for message in said.iter().filter(|message| message.get("method").is_none()) {
        assert!(ids.insert(message["id"].to_string()), "a second answer: {message}");
    }
}

/// What a process holds.
#[derive(Debug, Clone, Copy)]
struct Held {
    descriptors: usize,
    threads: usize,
    kib: u64,
}

impl Held {
    fn by(pid: u32) -> Self {
        let count = |what: &str| std::fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        let kib = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        Self { descriptors: count("fd"), threads: count("task"), kib }
    }
}
