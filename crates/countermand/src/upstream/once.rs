//! Performs single requests that change something: the request is the create, and its answer the result.

use super::{
    HttpFailure, UpstreamError,
    classify::not_created,
    common::Common,
    extract::{Path, Pick, Picks, id_of},
    payload::{payload, whole},
};
use crate::definition::HttpDefinition;
use countermand_core::{
    Row,
    event::{CancelAnswer, CreateAnswer, FindAnswer, RequestAnswer, StatusAnswer, Trouble},
    ports::{BoxFuture, Created, Payload, Permit, Read, Upstream},
};
use serde_json::Map;

/// The performer of a single request's definition.
#[derive(Debug)]
pub struct HttpOnce {
    common: Common,
    http: HttpDefinition,
    id: Option<Pick>,
    value: Path,
}

impl HttpOnce {
    pub(super) fn new(common: Common, http: HttpDefinition) -> Result<Self, UpstreamError> {
        let wrong =
            |problem: String| UpstreamError { upstream: common.client.upstream.name.clone(), problem };
        Ok(Self {
            id: http.id.as_ref().map(Pick::new).transpose().map_err(wrong)?,
            value: Path::new(&http.value).map_err(wrong)?,
            common,
            http,
        })
    }

    async fn create(&self, row: &Row) -> Created {
        match self.try_create(row).await {
            Ok(created) => created,
            Err(failure) => Created { answer: not_created(failure), payload: None },
        }
    }

    async fn try_create(&self, row: &Row) -> Result<Created, HttpFailure> {
        let scope = self.common.create_scope(row);
        let head = self.common.client.send(&self.http.request, &scope, &|_| false).await?;
        if !head.status.is_success() {
            return Err(head.glance().await.failure());
        }
        // A 2xx says that it was done, whatever becomes of the body.
        let done = |id, payload| Created { answer: CreateAnswer::Created { id, saved: Map::new() }, payload };
        let early = self.id.as_ref().and_then(|pick| head.id(pick));
        match head.whole().await {
            Ok(answer) => {
                let body = answer.json().ok();
                let id = self.id.as_ref().and_then(|pick| id_of(&pick.of(&answer, body.as_ref())?));
                // Where `value` is not in it, all of it is still worth more than nothing.
                let payload = payload(&answer, &self.value).or_else(|_| whole(&answer)).ok();
                Ok(done(id, payload))
            }
            // The id was in what broke off: a replay or the look-up may still tell it.
            Err(failure @ HttpFailure::CutOff(..)) if self.id.as_ref().is_some_and(Pick::needs_body) => {
                Err(failure)
            }
            Err(_) => Ok(done(early, None)),
        }
    }
}

impl Upstream for HttpOnce {
    fn admit(&self) -> BoxFuture<'_, Permit> {
        Box::pin(self.common.client.admit())
    }

    fn create<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, Created> {
        Box::pin(self.create(row))
    }

    fn find<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, FindAnswer> {
        Box::pin(async move { self.common.find(self.http.find.as_ref(), row, &Picks::default()).await })
    }

    fn status<'a>(&'a self, _: &'a Row) -> BoxFuture<'a, Read> {
        let answer = StatusAnswer::Failed(Trouble::new("a single request has no status"));
        Box::pin(std::future::ready(Read { answer, progress: None, payload: None }))
    }

    fn cancel<'a>(&'a self, _: &'a Row, _: bool) -> BoxFuture<'a, CancelAnswer> {
        let trouble = Trouble::new("a single request has no cancel: its shield waits for the answer");
        Box::pin(std::future::ready(CancelAnswer::NotAccepted(trouble)))
    }

    fn mark<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, RequestAnswer> {
        Box::pin(self.common.mark(row))
    }

    fn undo<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, RequestAnswer> {
        Box::pin(self.common.undo(row))
    }

    fn result<'a>(&'a self, _: &'a Row) -> BoxFuture<'a, Result<Payload, Trouble>> {
        let max = self.common.client.upstream.limits.max_bytes;
        let message = format!(
            "the request was carried out, but its answer is not here: it broke off, was larger than {max} bytes \
             (`max_bytes`), or arrived before a restart"
        );
        Box::pin(std::future::ready(Err(Trouble::new(message))))
    }
}
