//! The control API from outside: the same handle for a fake in another process.

use std::net::SocketAddr;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::account::{self, Books, JobEntry};
use super::fault::Fault;
use super::gate::{Filter, Gate};
use super::record::Event;
use super::route::Route;
use super::server::PATIENCE;

/// Why a control request failed.
#[derive(Debug, Error)]
pub enum ControlError {
    /// The URL is not `http://IP:PORT`.
    #[error("failed to read the fake's URL {0:?}: it must be http://IP:PORT")]
    Url(String),
    /// The fake is not there, or went away.
    #[error("failed to reach the fake upstream at {addr}; see whether its process runs")]
    Unreachable {
        /// Where it should be.
        addr: SocketAddr,
        /// What the socket says.
        source: std::io::Error,
    },
    /// The fake answered with an error.
    #[error("failed to {command}: the fake upstream says {status} {body}")]
    Refused {
        /// The command.
        command: String,
        /// The HTTP status.
        status: u16,
        /// The body.
        body: String,
    },
    /// Its answer is not what this client understands.
    #[error("failed to understand the fake upstream's answer to {command}: {body}")]
    NotUnderstood {
        /// The command.
        command: String,
        /// The body.
        body: String,
    },
    /// What was waited for did not happen in time.
    #[error("failed to see {what} in {patience:?}: there were only {seen}")]
    NotInTime {
        /// What, and how many.
        what: String,
        /// How long it was waited for.
        patience: Duration,
        /// How many there were.
        seen: u64,
    },
}

type Result<T> = std::result::Result<T, ControlError>;

/// A handle on a fake upstream in another process. Each call is one request on a connection of its own, which the fake
/// does not count. A call that is dropped may or may not have taken effect.
#[derive(Clone, Debug)]
pub struct FakeControl {
    addr: SocketAddr,
}

/// A hold at a remote fake. Unlike that in process it must be released by name: nothing can be sent on a drop.
#[derive(Debug)]
pub struct RemoteHold {
    control: FakeControl,
    gate: Gate,
    id: u64,
}

impl FakeControl {
    /// Finds the fake at `http://IP:PORT`, and sees that it answers.
    ///
    /// # Errors
    /// If it is no such URL, or no fake is there.
    pub async fn connect(url: &str) -> Result<FakeControl> {
        let host = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        let addr =
            host.and_then(|host| host.parse().ok()).ok_or_else(|| ControlError::Url(url.to_owned()))?;
        let control = FakeControl { addr };
        control.books().await?;
        Ok(control)
    }

    /// `http://IP:PORT`, without a slash at its end.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Stops whoever reaches `gate` and matches `filter`, until the hold is released.
    pub async fn hold(&self, gate: Gate, filter: Filter) -> Result<RemoteHold> {
        let answer = self.post("hold", &json!({ "gate": gate, "filter": filter })).await?;
        let id = field(&answer, "hold", "id")?;
        Ok(RemoteHold { control: self.clone(), gate, id })
    }

    /// See [`FakeUpstream::fault`](super::FakeUpstream::fault).
    pub async fn fault(&self, route: Route, fault: Fault, times: Option<u32>) -> Result<()> {
        self.post("fault", &json!({ "route": route, "fault": fault, "times": times })).await.map(drop)
    }

    /// See [`FakeUpstream::clear_faults`](super::FakeUpstream::clear_faults).
    pub async fn clear_faults(&self) -> Result<()> {
        self.post("clear_faults", &json!({})).await.map(drop)
    }

    /// See [`FakeUpstream::expect`](super::FakeUpstream::expect).
    pub async fn expect(&self, marker: &str) -> Result<()> {
        self.post("expect", &json!({ "marker": marker })).await.map(drop)
    }

    /// See [`FakeUpstream::set_cancel_delay`](super::FakeUpstream::set_cancel_delay); in whole milliseconds.
    pub async fn set_cancel_delay(&self, delay: Duration) -> Result<()> {
        let ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.post("config", &json!({ "cancel_delay_ms": ms })).await.map(drop)
    }

    /// Completes a job.
    pub async fn finish(&self, job: &str) -> Result<()> {
        self.post("finish", &json!({ "job": job })).await.map(drop)
    }

    /// Lets a job fail.
    pub async fn fail(&self, job: &str) -> Result<()> {
        self.post("finish", &json!({ "job": job, "fail": true })).await.map(drop)
    }

    /// Answers the slow requests of this tag, or all, and says how many were waiting.
    pub async fn release_slow(&self, tag: Option<&str>) -> Result<u64> {
        field(&self.post("finish", &json!({ "slow": tag })).await?, "finish", "released")
    }

    /// The record up to now.
    pub async fn events(&self) -> Result<Vec<Event>> {
        field(&self.get("record").await?, "record", "events")
    }

    /// All jobs, as they really are.
    pub async fn jobs(&self) -> Result<Vec<JobEntry>> {
        Ok(account::jobs(&self.events().await?))
    }

    /// The jobs that have not ended.
    pub async fn live_jobs(&self) -> Result<Vec<JobEntry>> {
        Ok(account::live_jobs(&self.events().await?))
    }

    /// How many rows there are under `tag`.
    pub async fn rows(&self, tag: &str) -> Result<u64> {
        Ok(account::rows(&self.events().await?, tag))
    }

    /// How many upstream connections are open.
    pub async fn connections_open(&self) -> Result<usize> {
        Ok(account::connections_open(&self.events().await?))
    }

    /// How many jobs there were, and what became of them.
    pub async fn books(&self) -> Result<Books> {
        read(self.get("books").await?, "books")
    }

    /// Waits until `n` events of this kind are in the record, and returns it.
    ///
    /// # Errors
    /// [`ControlError::NotInTime`] after 10 s and 10 ms for each event.
    pub async fn wait_for(&self, kind: &str, n: usize) -> Result<Vec<Event>> {
        let patience = PATIENCE + Duration::from_millis(10) * u32::try_from(n).unwrap_or(u32::MAX);
        let ms = patience.as_millis();
        let answer = self.get(&format!("wait?kind={kind}&count={n}&timeout_ms={ms}")).await?;
        if field(&answer, "wait", "happened")? {
            return self.events().await;
        }
        let seen = field(&answer, "wait", "count")?;
        Err(ControlError::NotInTime { what: format!("{n} × {kind}"), patience, seen })
    }

    async fn get(&self, command: &str) -> Result<Value> {
        self.send("GET", command, "").await
    }

    async fn post(&self, command: &str, body: &Value) -> Result<Value> {
        self.send("POST", command, &body.to_string()).await
    }

    async fn send(&self, method: &str, command: &str, body: &str) -> Result<Value> {
        let addr = self.addr;
        let exchange = async {
            let mut stream = TcpStream::connect(addr).await?;
            let length = body.len();
            let head =
                format!("{method} /_control/{command} HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\n");
            let request = format!("{head}content-length: {length}\r\n\r\n{body}");
            stream.write_all(request.as_bytes()).await?;
            let mut answer = Vec::new();
            // The fake closes behind its answer.
            stream.read_to_end(&mut answer).await?;
            Ok(String::from_utf8_lossy(&answer).into_owned())
        };
        let answer = exchange.await.map_err(|source| ControlError::Unreachable { addr, source })?;
        let not_understood =
            || ControlError::NotUnderstood { command: command.to_owned(), body: answer.clone() };
        let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(not_understood)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status: u16 = status.ok_or_else(not_understood)?;
        if status != 200 {
            let (command, body) = (command.to_owned(), body.to_owned());
            return Err(ControlError::Refused { command, status, body });
        }
        serde_json::from_str(body).map_err(|_| not_understood())
    }
}

impl RemoteHold {
    /// Waits until somebody has arrived.
    pub async fn reached(&self) -> Result<()> {
        self.reached_n(1).await
    }

    /// Waits until `n` have arrived.
    ///
    /// # Errors
    /// [`ControlError::NotInTime`] after 10 s and 10 ms for each of them.
    pub async fn reached_n(&self, n: u64) -> Result<()> {
        let patience = PATIENCE + Duration::from_millis(n.saturating_mul(10));
        let (id, ms) = (self.id, patience.as_millis());
        let answer = self.control.get(&format!("reached?id={id}&n={n}&timeout_ms={ms}")).await?;
        if field(&answer, "reached", "reached")? {
            return Ok(());
        }
        let seen = field(&answer, "reached", "arrived")?;
        Err(ControlError::NotInTime { what: format!("{n} at {}", self.gate), patience, seen })
    }

    /// Lets everybody through, for good.
    pub async fn release(self) -> Result<()> {
        self.control.post("release", &json!({ "id": self.id })).await.map(drop)
    }

    /// Lets the first that waits through, or the next that arrives.
    pub async fn release_one(&self) -> Result<()> {
        self.control.post("release", &json!({ "id": self.id, "n": 1 })).await.map(drop)
    }
}

fn field<T: DeserializeOwned>(answer: &Value, command: &str, name: &str) -> Result<T> {
    read(answer.get(name).cloned().unwrap_or_default(), command)
}

fn read<T: DeserializeOwned>(value: Value, command: &str) -> Result<T> {
    let body = value.to_string();
    serde_json::from_value(value)
        .map_err(|_| ControlError::NotUnderstood { command: command.to_owned(), body })
}
