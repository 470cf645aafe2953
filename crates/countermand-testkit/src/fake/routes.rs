//! What a request does when nothing keeps it from it, by route.

use std::time::Duration;

use serde_json::{Value, json};

use super::answer::Answer;
use super::conn::{Connection, End, Exchange};
use super::fault::Fault;
use super::gate::Gate;
use super::jobs::{Cancel, Spec};
use super::record::EventKind;
use super::route::Route;
use super::world::{JobState, Obedience, View};

impl Connection {
    /// Does what the request asks for, and says what to answer. Only faults of the effect itself come in here.
    pub(crate) async fn commit(&mut self, ex: &mut Exchange, fault: Option<Fault>) -> Result<Answer, End> {
        match ex.target.route {
            Route::CreateJob => {
                let answer = self.create(ex);
                if answer.status < 300 {
                    self.pass(ex, Gate::CreateCommitted).await?;
                }
                Ok(answer)
            }
            Route::Order => {
                let answer = self.order(ex);
                if answer.status < 300 {
                    self.pass(ex, Gate::OrderCommitted).await?;
                }
                Ok(answer)
            }
            Route::JobStatus => self.status(ex).await,
            Route::JobResult => self.result(ex).await,
            Route::CancelJob => self.cancel(ex, false, fault).await,
            Route::ForceJob => self.cancel(ex, true, fault).await,
            Route::FindJobs => self.find(ex, fault == Some(Fault::StaleList)).await,
            Route::DeleteRows => Ok(self.delete_rows(ex)),
            Route::Label => {
                let body = String::from_utf8_lossy(&ex.body).into_owned();
                self.note(self.about(ex), EventKind::Marked { target: ex.head.target.clone(), body });
                Ok(Answer::no_content())
            }
            Route::Slow => self.slow(ex).await,
            Route::Quick => Ok(Answer::json(200, &json!({ "quick": true, "tag": ex.tag }))),
            Route::Echo => Ok(echo(ex)),
            Route::Control | Route::Other => Ok(Answer::error(404, "nothing is here")),
        }
    }

    /// The effect alone, when there is nobody to answer any more.
    pub(crate) fn commit_late(&self, ex: &Exchange) {
        match ex.target.route {
            Route::CreateJob => drop(self.create(ex)),
            Route::Order => drop(self.order(ex)),
            _ => {}
        }
    }

    fn create(&self, ex: &Exchange) -> Answer {
        let spec: Spec = match serde_json::from_slice(&ex.body) {
            Ok(spec) => spec,
            Err(_) if ex.body.iter().all(u8::is_ascii_whitespace) => Spec::default(),
            Err(error) => return Answer::error(400, &error.to_string()),
        };
        let (job, new) = self.state.jobs.create(self.about(ex), ex.key(), ex.tag.clone(), &spec);
        let status = if new { 201 } else { 200 };
        Answer::json(status, &json!(job)).with("location", format!("/jobs/{}", job.id))
    }

    fn order(&self, ex: &Exchange) -> Answer {
        let (order, new) = self.state.jobs.order(self.about(ex), ex.key());
        Answer::json(if new { 201 } else { 200 }, &json!({ "order": order }))
    }

    async fn status(&mut self, ex: &mut Exchange) -> Result<Answer, End> {
        let id = job_id(ex);
        let n = self.state.jobs.count_poll(&id);
        self.pass(ex, Gate::PollN(n)).await?;
        Ok(match self.state.jobs.status(self.about(ex), &id, n) {
            Some(job) => Answer::json(200, &json!(job)),
            None => no_such_job(),
        })
    }

    async fn result(&mut self, ex: &mut Exchange) -> Result<Answer, End> {
        let id = job_id(ex);
        self.pass(ex, Gate::Result).await?;
        Ok(match self.state.jobs.view(&id) {
            None => no_such_job(),
            Some(job) if job.status == JobState::Done => {
                self.note(self.about(ex), EventKind::ResultRead { job: id });
                Answer::json(200, &json!({ "rows": job.rows, "tag": job.tag }))
            }
            Some(job) => conflict("the job has no result", &job),
        })
    }

    async fn cancel(&mut self, ex: &mut Exchange, forced: bool, fault: Option<Fault>) -> Result<Answer, End> {
        let id = job_id(ex);
        self.note(self.about(ex), EventKind::CancelReceived { job: id.clone(), forced });
        self.pass(ex, Gate::CancelReceived).await?;
        let obedience = match fault {
            Some(Fault::CancelIgnored) => Obedience::Ignore,
            Some(Fault::CancelledThenDone) => Obedience::PretendThenDone,
            Some(Fault::CancelledThenRunning) => Obedience::PretendThenRun,
            _ => Obedience::Obey,
        };
        let answer = match self.state.jobs.cancel(&id, forced, obedience) {
            Cancel::Accepted(job) => Answer::json(202, &json!(job)),
            Cancel::AlreadyOver(job) => conflict("the job has ended", &job),
            Cancel::Unknown => no_such_job(),
        };
        self.pass(ex, Gate::CancelResponse).await?;
        Ok(answer)
    }

    async fn find(&mut self, ex: &mut Exchange, stale: bool) -> Result<Answer, End> {
        self.pass(ex, Gate::Find).await?;
        let (key, tag) = (ex.target.param("key"), ex.target.param("tag"));
        let jobs = self.state.jobs.list(self.about(ex), key, tag, stale);
        Ok(Answer::json(200, &json!({ "jobs": jobs })))
    }

    fn delete_rows(&self, ex: &Exchange) -> Answer {
        match ex.target.param("tag") {
            Some(tag) => {
                self.state.jobs.delete_rows(self.about(ex), tag);
                Answer::no_content()
            }
            None => Answer::error(400, "say whose rows: ?tag="),
        }
    }

    async fn slow(&mut self, ex: &mut Exchange) -> Result<Answer, End> {
        let secs = ex.target.param("secs").and_then(|secs| secs.parse().ok());
        let takes = secs.and_then(|secs| Duration::try_from_secs_f64(secs).ok());
        let released = self.state.slow_started(ex.number(), ex.tag.clone());
        self.note(self.about(ex), EventKind::SlowStarted);
        let time_is_up = async {
            match takes {
                Some(takes) => tokio::time::sleep(takes).await,
                None => std::future::pending().await,
            }
        };
        // Either the peer's leaving, or whether it was released.
        let end = tokio::select! {
            biased;
            () = self.state.stop.cancelled() => return Err(End::Stopped),
            how = self.wire.gone() => Err(End::PeerLeft(how, Some(Gate::Body))),
            _ = released => Ok(true),
            () = time_is_up => Ok(false),
        };
        self.state.slow_ended(ex.number());
        self.note(self.about(ex), EventKind::SlowEnded { released: matches!(end, Ok(true)) });
        end.map(|_| Answer::json(200, &json!({ "slow": true, "tag": ex.tag })))
    }
}

fn job_id(ex: &Exchange) -> String {
    ex.target.job.clone().unwrap_or_default()
}

fn no_such_job() -> Answer {
    Answer::error(404, "no such job")
}

fn conflict(why: &str, job: &View) -> Answer {
    Answer::json(409, &json!({ "error": why, "id": job.id, "status": job.status }))
}

fn echo(ex: &Exchange) -> Answer {
    let headers: Vec<Value> = ex.head.headers.iter().map(|(name, value)| json!([name, value])).collect();
    let body = String::from_utf8_lossy(&ex.body);
    let (method, target) = (&ex.head.method, &ex.head.target);
    Answer::json(200, &json!({ "method": method, "target": target, "headers": headers, "body": body }))
}
