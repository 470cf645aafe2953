//! Performs remote jobs.

use super::{
    HttpFailure, UpstreamError,
    classify::{cancelled, not_created},
    common::Common,
    extract::{Path, Pick, Picks, id_of},
    payload::{payload, whole},
    state::{Seen, StateReader},
};
use crate::definition::{CancelDefinition, IdSource, JobDefinition};
use countermand_core::{
    Row,
    event::{CancelAnswer, CreateAnswer, FindAnswer, RequestAnswer, StatusAnswer, Trouble},
    ports::{BoxFuture, Created, Payload, Permit, Read, Upstream},
};

/// The performer of a job's definition.
#[derive(Debug)]
pub struct HttpJob {
    common: Common,
    job: JobDefinition,
    /// Where the id is, unless we make it.
    id: Option<Pick>,
    save: Picks,
    state: StateReader,
    value: Option<Path>,
}

impl HttpJob {
    pub(super) fn new(common: Common, job: JobDefinition) -> Result<Self, UpstreamError> {
        let wrong =
            |problem: String| UpstreamError { upstream: common.client.upstream.name.clone(), problem };
        let id = match &job.create.id {
            IdSource::Response(extract) => Some(Pick::new(extract).map_err(wrong)?),
            IdSource::Ours(_) => None,
        };
        Ok(Self {
            id,
            save: Picks::new(&job.create.save).map_err(wrong)?,
            state: StateReader::new(&job.status).map_err(wrong)?,
            value: job.result.as_ref().map(|result| Path::new(&result.value)).transpose().map_err(wrong)?,
            common,
            job,
        })
    }

    async fn create(&self, row: &Row) -> CreateAnswer {
        self.try_create(row).await.unwrap_or_else(not_created)
    }

    async fn try_create(&self, row: &Row) -> Result<CreateAnswer, HttpFailure> {
        let scope = self.common.create_scope(row);
        let ours = self.common.own_id(&scope);
        let head = self.common.client.send(&self.job.create.request, &scope, &|_| false).await?;
        if !head.status.is_success() {
            return Err(head.glance().await.failure());
        }
        let Some(pick) = self.id.as_ref().filter(|pick| pick.needs_body()) else {
            // The head alone says what it is called: no body can make us forget it.
            let answer = head.glance().await;
            let id = match &self.id {
                Some(pick) => pick.of(&answer, None).as_ref().and_then(id_of),
                None => ours,
            };
            let body = answer.json().ok();
            return Ok(CreateAnswer::Created { id, saved: self.save.of(&answer, body.as_ref()) });
        };
        let answer = head.whole().await?;
        let body = answer.json()?;
        let id = pick.of(&answer, Some(&body)).as_ref().and_then(id_of);
        Ok(CreateAnswer::Created { id, saved: self.save.of(&answer, Some(&body)) })
    }

    async fn look(&self, row: &Row) -> Seen {
        let scope = self.common.scope(row);
        let keep = |status| self.state.lists(status);
        match self.common.client.send(&self.job.status.request, &scope, &keep).await {
            Ok(head) => self.state.read(head).await,
            Err(failure) => Seen::failed(failure.into_trouble()),
        }
    }

    async fn status(&self, row: &Row) -> Read {
        let Seen { answer, progress, whole: body } = self.look(row).await;
        let is_result = self.job.result.is_none() && matches!(answer, StatusAnswer::Ended { .. });
        let payload = body.filter(|_| is_result).and_then(|body| whole(&body).ok());
        Read { answer, progress, payload }
    }

    async fn cancel(&self, row: &Row, force: bool) -> CancelAnswer {
        match &self.job.cancel {
            CancelDefinition::Request { request, force: forced } => {
                let request = forced.as_ref().filter(|_| force).unwrap_or(request);
                cancelled(self.common.tell(request, &self.common.scope(row)).await)
            }
            CancelDefinition::Unsupported(reason) => {
                CancelAnswer::NotAccepted(Trouble::new(format!("the upstream has no cancel: {reason}")))
            }
        }
    }

    async fn result(&self, row: &Row) -> Result<Payload, HttpFailure> {
        let (request, value) = match (&self.job.result, &self.value) {
            (Some(result), Some(value)) => (&result.request, Some(value)),
            _ => (&self.job.status.request, None),
        };
        let answer = self.common.ask(request, &self.common.scope(row)).await?;
        if !answer.status.is_success() {
            return Err(answer.failure());
        }
        value.map_or_else(|| whole(&answer), |value| payload(&answer, value))
    }
}

impl Upstream for HttpJob {
    fn admit(&self) -> BoxFuture<'_, Permit> {
        Box::pin(self.common.client.admit())
    }

    fn create<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, Created> {
        Box::pin(async move { Created { answer: self.create(row).await, payload: None } })
    }

    fn find<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, FindAnswer> {
        Box::pin(self.common.find(self.job.find.as_ref(), row, &self.save))
    }

    fn status<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, Read> {
        Box::pin(self.status(row))
    }

    fn cancel<'a>(&'a self, row: &'a Row, force: bool) -> BoxFuture<'a, CancelAnswer> {
        Box::pin(self.cancel(row, force))
    }

    fn mark<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, RequestAnswer> {
        Box::pin(self.common.mark(row))
    }

    fn undo<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, RequestAnswer> {
        Box::pin(self.common.undo(row))
    }

    fn result<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, Result<Payload, Trouble>> {
        Box::pin(async move { self.result(row).await.map_err(HttpFailure::into_trouble) })
    }
}
