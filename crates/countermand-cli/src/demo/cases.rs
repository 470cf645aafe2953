//! The cases of the demo: when the client cancels, and what the upstream's record must show.

use super::theatre::Theatre;
use anyhow::{Result, ensure};
use countermand_testkit::{
    client::message,
    fake::{Event, Fault, Filter, Gate, Route},
};
use serde_json::{Value, json};
use std::{future::Future, pin::Pin};
use tokio::time::Instant;

type Told<'a> = Pin<Box<dyn Future<Output = Result<String>> + 'a>>;

/// One case: when the cancel comes, and how it is played. What it returns is what happened upstream.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) play: fn(&mut Theatre) -> Told<'_>,
}

/// All of them, in the order of a call's life.
pub(super) fn all() -> Vec<Case> {
    vec![
        Case { name: "before anything was sent", play: |theatre| Box::pin(before(theatre)) },
        Case { name: "while the create was in flight", play: |theatre| Box::pin(in_flight(theatre)) },
        Case { name: "while the job was polled", play: |theatre| Box::pin(polled(theatre)) },
        Case { name: "with a cancel endpoint that fails", play: |theatre| Box::pin(failing_cancel(theatre)) },
        Case { name: "by a client that vanished", play: |theatre| Box::pin(vanished(theatre)) },
        Case { name: "with the gateway killed meanwhile", play: |theatre| Box::pin(killed(theatre)) },
    ]
}

fn call(id: u64, tag: &str) -> Value {
    message::call(id, "run_report", json!({ "tag": tag }))
}

fn cancel(id: u64) -> Value {
    message::cancelled(id, Some("the user pressed stop"))
}

/// Waits until something of this kind has happened so many times in one case.
async fn happened(theatre: &Theatre, tag: &str, kind: &str, times: usize) -> Result<Vec<Event>> {
    loop {
        let events = theatre.upstream.events().await?;
        let all = events.iter().filter(|event| event.is(kind)).count();
        let ours: Vec<Event> = events.into_iter().filter(|event| event.tagged(tag)).collect();
        if ours.iter().filter(|event| event.is(kind)).count() >= times {
            return Ok(ours);
        }
        theatre.upstream.wait_for(kind, all + 1).await?;
    }
}

/// The one job of a case, which must have been cancelled.
async fn the_stopped_job(theatre: &Theatre, tag: &str) -> Result<String> {
    happened(theatre, tag, "job_cancelled", 1).await?;
    let jobs: Vec<_> =
        theatre.upstream.jobs().await?.into_iter().filter(|job| job.tag.as_deref() == Some(tag)).collect();
    ensure!(jobs.len() == 1, "{} jobs were created instead of one", jobs.len());
    let state = serde_json::to_value(jobs[0].state)?;
    ensure!(state == "cancelled", "{} is {state}", jobs[0].id);
    Ok(jobs[0].id.clone())
}

async fn before(theatre: &mut Theatre) -> Result<String> {
    let id = theatre.id();
    theatre.client.send_at_once(&[call(id, "before"), cancel(id)]).await;
    theatre.client.barrier().await;
    // Whatever was started has reached the upstream, or has settled, once the gateway says so.
    loop {
        let status = status(theatre).await;
        let operations = status["operations"].as_array().cloned().unwrap_or_default();
        if operations.iter().all(|operation| operation["settled"] == true) {
            break;
        }
    }
    let jobs = theatre.upstream.jobs().await?;
    match jobs.iter().find(|job| job.tag.as_deref() == Some("before")) {
        None => Ok("no job was created".to_owned()),
        Some(_) => Ok(format!(
            "{} was created in that moment, and cancelled",
            the_stopped_job(theatre, "before").await?
        )),
    }
}

/// What the gateway's own tool says of our operations.
async fn status(theatre: &mut Theatre) -> Value {
    let id = theatre.id();
    theatre.client.send(&message::call(id, "cancellation_status", json!({}))).await;
    theatre.client.response(&json!(id)).await["result"]["structuredContent"].clone()
}

async fn in_flight(theatre: &mut Theatre) -> Result<String> {
    let id = theatre.id();
    let tagged = Filter { tag: Some("in_flight".to_owned()), ..Filter::default() };
    let held = theatre.upstream.hold(Gate::CreateCommitted, tagged).await?;
    theatre.client.send(&call(id, "in_flight")).await;
    held.reached().await?;
    theatre.client.send(&cancel(id)).await;
    theatre.client.barrier().await;
    let released = Instant::now();
    held.release().await?;
    happened(theatre, "in_flight", "job_cancelled", 1).await?;
    let after = ms(released);
    let job = the_stopped_job(theatre, "in_flight").await?;
    Ok(format!("{job} came to be all the same, and was cancelled by its id {after} after its answer"))
}

async fn polled(theatre: &mut Theatre) -> Result<String> {
    let id = theatre.id();
    theatre.client.send(&call(id, "polled")).await;
    happened(theatre, "polled", "job_polled", 2).await?;
    let cancelled = Instant::now();
    theatre.client.send(&cancel(id)).await;
    happened(theatre, "polled", "job_cancelled", 1).await?;
    let after = ms(cancelled);
    happened(theatre, "polled", "rows_deleted", 1).await?;
    let job = the_stopped_job(theatre, "polled").await?;
    let rows = theatre.upstream.rows("polled").await?;
    ensure!(rows == 0, "{rows} rows remain");
    Ok(format!("{job} was cancelled {after} after the cancel, and its rows were deleted"))
}

async fn failing_cancel(theatre: &mut Theatre) -> Result<String> {
    let id = theatre.id();
    theatre.upstream.fault(Route::CancelJob, Fault::Status(503, None), Some(2)).await?;
    theatre.client.send(&call(id, "failing")).await;
    happened(theatre, "failing", "job_polled", 1).await?;
    let cancelled = Instant::now();
    theatre.client.send(&cancel(id)).await;
    let events = happened(theatre, "failing", "job_cancelled", 1).await?;
    let after = ms(cancelled);
    let refused = events.iter().filter(|event| event.is("fault_applied")).count();
    ensure!(refused == 2, "the cancel was refused {refused} times instead of twice");
    let job = the_stopped_job(theatre, "failing").await?;
    Ok(format!("503, 503, then accepted: {job} was cancelled {after} after the cancel"))
}

async fn vanished(theatre: &mut Theatre) -> Result<String> {
    let exchange = theatre.http().call(1, "run_report", json!({ "tag": "vanished" })).await;
    happened(theatre, "vanished", "job_polled", 1).await?;
    let gone = Instant::now();
    exchange.reset();
    happened(theatre, "vanished", "job_cancelled", 1).await?;
    let after = ms(gone);
    let job = the_stopped_job(theatre, "vanished").await?;
    Ok(format!("{job} was cancelled {after} after its connection broke"))
}

async fn killed(theatre: &mut Theatre) -> Result<String> {
    let id = theatre.id();
    theatre.client.send(&call(id, "killed")).await;
    happened(theatre, "killed", "job_polled", 1).await?;
    theatre.kill_gateway().await;
    let restarted = Instant::now();
    theatre.restart_gateway().await?;
    happened(theatre, "killed", "job_cancelled", 1).await?;
    let after = ms(restarted);
    let job = the_stopped_job(theatre, "killed").await?;
    Ok(format!("{job} was found in the ledger, and cancelled {after} after the restart"))
}

pub(super) fn ms(since: Instant) -> String {
    let elapsed = since.elapsed();
    if elapsed.as_millis() < 1_000 {
        format!("{} ms", elapsed.as_millis())
    } else {
        format!("{:.1} s", elapsed.as_secs_f64())
    }
}
