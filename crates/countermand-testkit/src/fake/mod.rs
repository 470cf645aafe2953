//! The recording fake upstream: a job API on a raw socket that writes down what reaches it and what it does.
//!
//! A test places a [hold](FakeUpstream::hold) at a [`Gate`], waits until a request is there, cancels, and reads the
//! [record](FakeUpstream::events): connections opened and closed early, jobs created, polled and cancelled, rows written
//! and deleted. Nothing waits for a while; everything waits for an event. [`Fault`]s replace the right answer.
//!
//! ```
//! use countermand_testkit::fake::{FakeUpstream, Filter, Gate};
//! use tokio::io::AsyncWriteExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let fake = FakeUpstream::start().await;
//! let held = fake.hold(Gate::CreateCommitted, Filter::default());
//! let mut client = tokio::net::TcpStream::connect(fake.addr()).await?;
//! client.write_all(b"POST /jobs?tag=t HTTP/1.1\r\nidempotency-key: k\r\n\r\n").await?;
//! held.reached().await;
//! drop(client);
//! fake.wait_for("closed_early", 1).await;
//! assert_eq!(fake.books().live, 1, "nobody cancelled it");
//! assert_eq!(fake.rows("t"), 1);
//! # Ok(())
//! # }
//! ```
//!
//! [`run_process`] runs the same in a process of its own, and [`FakeControl`] is its handle.

use std::sync::{Mutex, MutexGuard, PoisonError};

mod account;
mod answer;
mod conn;
mod control;
mod control_client;
mod fault;
mod gate;
mod held;
mod jobs;
mod process;
mod record;
mod respond;
mod route;
mod routes;
mod server;
mod state;
mod wire;
mod world;

pub use account::{Books, JobEntry, connections_open, counts, jobs, live_jobs, rows};
pub use control_client::{ControlError, FakeControl, RemoteHold};
pub use fault::Fault;
pub use gate::{Filter, Gate};
pub use held::HeldGate;
pub use process::run_process;
pub use record::{Close, Event, EventKind};
pub use route::Route;
pub use server::FakeUpstream;
pub use world::JobState;

/// A panic of a test's closure under a lock must not hide behind a second one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
