//! What jobs and single requests have in common: their scope, the look-up, the mark and the undo.

use super::{
    HttpFailure, HttpUpstreamClient,
    answer::Answer,
    classify::requested,
    extract::{Path, Picks, id_of},
};
use crate::{
    command::Commands,
    definition::{FindDefinition, IdSource, ToolDefinition, UndoDefinition, Work},
    template::{RequestTemplate, Scope, render_id_path, render_text},
};
use countermand_core::{
    Row, UpstreamId,
    event::{FindAnswer, RequestAnswer, Trouble},
};
use http::StatusCode;
use serde_json::{Map, Value};
use std::{borrow::Cow, sync::Arc};

/// A definition, and the client of its upstream.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) client: Arc<HttpUpstreamClient>,
    /// What runs programs that undo something.
    pub(super) commands: Arc<Commands>,
    pub(super) definition: ToolDefinition,
    /// The call's arguments, for a create that must not be stored whole (`writeOnly`).
    pub(super) arguments: Option<Map<String, Value>>,
}

impl Common {
    /// What the row knows. An id that we make is known from the start.
    pub(super) fn scope<'a>(&'a self, row: &'a Row) -> Scope<'a> {
        let mut scope = Scope::of_row(row);
        if scope.id.is_none() {
            scope.id = self.own_id(&scope).map(|id| Cow::Owned(id.0));
        }
        scope
    }

    /// What the create knows: the row, and the call's own arguments where they are at hand.
    pub(super) fn create_scope<'a>(&'a self, row: &'a Row) -> Scope<'a> {
        let mut scope = self.scope(row);
        if let Some(arguments) = &self.arguments {
            scope.args = Cow::Borrowed(arguments);
        }
        scope
    }

    /// The id, where we make it.
    pub(super) fn own_id(&self, scope: &Scope<'_>) -> Option<UpstreamId> {
        match &self.definition.work {
            Work::Job(job) => match &job.create.id {
                IdSource::Ours(template) => render_text(template, scope).ok().map(UpstreamId),
                IdSource::Response(_) => None,
            },
            Work::Http(_) | Work::Command(_) => None,
        }
    }

    /// Sends a request; the whole body of a 2xx, else the upstream's words.
    pub(super) async fn ask(
        &self,
        request: &RequestTemplate,
        scope: &Scope<'_>,
    ) -> Result<Answer, HttpFailure> {
        self.client.send(request, scope, &|_| false).await?.answer().await
    }

    /// Sends a request of which only the status matters.
    pub(super) async fn tell(
        &self,
        request: &RequestTemplate,
        scope: &Scope<'_>,
    ) -> Result<Answer, HttpFailure> {
        Ok(self.client.send(request, scope, &|_| false).await?.glance().await)
    }

    pub(super) async fn find(&self, find: Option<&FindDefinition>, row: &Row, save: &Picks) -> FindAnswer {
        let Some(find) = find else {
            return FindAnswer::Failed(Trouble::new("the tool has no look-up"));
        };
        let scope = self.scope(row);
        match self.ask(&find.request, &scope).await {
            Ok(answer) => found(&answer, find, &scope, self.own_id(&scope), save)
                .unwrap_or_else(|failure| FindAnswer::Failed(failure.into_trouble())),
            Err(failure) => FindAnswer::Failed(failure.into_trouble()),
        }
    }

    pub(super) async fn mark(&self, row: &Row) -> RequestAnswer {
        match &self.definition.mark {
            Some(mark) => requested(self.tell(mark, &self.scope(row)).await, false),
            None => RequestAnswer::Refused(Trouble::new("the tool has no mark")),
        }
    }

    pub(super) async fn undo(&self, row: &Row) -> RequestAnswer {
        match usize::try_from(row.undo_next).ok().and_then(|next| self.definition.compensate.get(next)) {
            Some(UndoDefinition::Request(undo)) => {
                let deletes = undo.method == "DELETE";
                requested(self.tell(undo, &self.scope(row)).await, deletes)
            }
            Some(UndoDefinition::Program(program)) => {
                self.commands.undo(program, &self.scope(row), row).await
            }
            None => RequestAnswer::Refused(Trouble::new(format!(
                "the tool has no undo request {}",
                row.undo_next + 1
            ))),
        }
    }
}

fn found(
    answer: &Answer,
    find: &FindDefinition,
    scope: &Scope<'_>,
    ours: Option<UpstreamId>,
    save: &Picks,
) -> Result<FindAnswer, HttpFailure> {
    match answer.status {
        StatusCode::NOT_FOUND => return Ok(FindAnswer::Miss),
        status if !status.is_success() => return Err(answer.failure()),
        StatusCode::NO_CONTENT if find.id.is_some() => return Ok(FindAnswer::Miss),
        _ => {}
    }
    let Some(template) = &find.id else {
        let body = answer.json().ok();
        return Ok(FindAnswer::Hit { id: ours, saved: save.of(answer, body.as_ref()) });
    };
    let body = answer.json()?;
    let path =
        render_id_path(template, scope).map_err(|error| error.to_string()).and_then(|path| Path::new(&path));
    let path = path.map_err(|problem| answer.unusable(&problem))?;
    Ok(match path.first(&body).and_then(id_of) {
        Some(id) => FindAnswer::Hit { id: Some(id), saved: save.of(answer, Some(&body)) },
        None => FindAnswer::Miss,
    })
}
