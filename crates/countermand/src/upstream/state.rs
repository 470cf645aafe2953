//! What a status read says of a job.

use super::{
    HttpFailure,
    answer::{Answer, Head},
    extract::{Path, Picks},
};
use crate::definition::{StateClass, StateSource, States, StatusDefinition};
use countermand_core::event::{End, StatusAnswer, Trouble};
use http::StatusCode;
use serde_json::Value;

/// How much of a failure's message is kept, in bytes.
const MESSAGE: usize = 1_000;

/// Reads states as a definition says.
#[derive(Debug)]
pub(super) struct StateReader {
    /// JSONPaths, or `None` where the HTTP status is the state.
    paths: Option<Vec<Path>>,
    states: States,
    absent: Option<StateClass>,
    progress: Option<Path>,
    error: Option<Path>,
    save: Picks,
}

/// A status read that was understood, with the answer that it was in.
pub(super) struct Seen {
    pub(super) answer: StatusAnswer,
    pub(super) progress: Option<f64>,
    /// The answer, where all of it arrived.
    pub(super) whole: Option<Answer>,
}

impl Seen {
    fn only(answer: StatusAnswer) -> Self {
        Self { answer, progress: None, whole: None }
    }

    pub(super) fn failed(trouble: Trouble) -> Self {
        Self::only(StatusAnswer::Failed(trouble))
    }
}

impl StateReader {
    pub(super) fn new(status: &StatusDefinition) -> Result<Self, String> {
        let paths = match &status.state {
            StateSource::Paths(paths) => Some(paths.iter().map(|p| Path::new(p)).collect::<Result<_, _>>()?),
            StateSource::HttpStatus => None,
        };
        Ok(Self {
            paths,
            states: status.states.clone(),
            absent: status.absent,
            progress: status.progress.as_deref().map(Path::new).transpose()?,
            error: status.error.as_deref().map(Path::new).transpose()?,
            save: Picks::new(&status.save)?,
        })
    }

    /// Whether this HTTP status is itself a listed state: it is then neither followed nor a failure.
    pub(super) fn lists(&self, status: StatusCode) -> bool {
        self.paths.is_none() && self.listed(status.as_str()).is_some()
    }

    /// Reads what an answer says.
    pub(super) async fn read(&self, head: Head) -> Seen {
        let status = head.status;
        if !status.is_success() && !self.lists(status) {
            return match status {
                StatusCode::NOT_FOUND | StatusCode::GONE => Seen::only(StatusAnswer::Missing),
                _ => Seen::failed(head.glance().await.trouble()),
            };
        }
        match (head.whole().await, &self.paths) {
            (Ok(answer), None) => self.seen(answer, Some(status.as_str())),
            (Ok(answer), Some(_)) => self.seen(answer, None),
            // The state is known; only what it carries is not.
            (Err(HttpFailure::TooLarge(..)), None) => {
                Seen::only(self.classified(Some(status.as_str().into()), None))
            }
            (Err(failure), _) => Seen::failed(failure.into_trouble()),
        }
    }

    fn seen(&self, answer: Answer, http_status: Option<&str>) -> Seen {
        let body = match (answer.json(), http_status) {
            (Ok(body), _) => Some(body),
            (Err(_), Some(_)) => None,
            (Err(failure), None) => return Seen::failed(failure.into_trouble()),
        };
        let state = match http_status {
            Some(status) => Some(status.to_owned()),
            None => body.as_ref().and_then(|body| self.state_in(body)),
        };
        let progress = body.as_ref().and_then(|body| number(self.progress.as_ref()?.first(body)?));
        let classified = self.classified(state, Some((&answer, body.as_ref())));
        Seen { answer: classified, progress, whole: Some(answer) }
    }

    /// The first node that is not null, as text.
    fn state_in(&self, body: &Value) -> Option<String> {
        self.paths.iter().flatten().find_map(|path| path.first(body)).map(text)
    }

    fn classified(&self, state: Option<String>, answer: Option<(&Answer, Option<&Value>)>) -> StatusAnswer {
        let class = match &state {
            Some(state) => self.listed(state).or_else(|| self.listed("*")),
            // `*` is for values; where there is none it may only mean that nothing has ended.
            None => self.absent.or_else(|| self.listed("*").filter(|class| *class == StateClass::Running)),
        };
        let saved = answer.map(|(answer, body)| self.save.of(answer, body)).unwrap_or_default();
        let end = match class {
            Some(StateClass::Succeeded) => End::Completed,
            Some(StateClass::Failed) => End::Failed,
            Some(StateClass::Cancelled) => End::Cancelled,
            Some(StateClass::Running) | None => {
                let state = state.unwrap_or_else(|| "no state".to_owned());
                return StatusAnswer::Running {
                    state: answer.map_or(state.clone(), |(answer, _)| answer.say(&state)),
                    listed: class.is_some(),
                    retry_after: answer.and_then(|(answer, _)| answer.retry_after),
                    saved,
                };
            }
        };
        let error = answer.filter(|_| end != End::Completed).and_then(|(answer, body)| {
            let said = text(self.error.as_ref()?.first(body?)?);
            Some(answer.say_at_most(&said, MESSAGE)).filter(|said| !said.is_empty())
        });
        StatusAnswer::Ended { end, error, saved }
    }

    fn listed(&self, state: &str) -> Option<StateClass> {
        let States { running, succeeded, failed, cancelled } = &self.states;
        [
            (running, StateClass::Running),
            (succeeded, StateClass::Succeeded),
            (failed, StateClass::Failed),
            (cancelled, StateClass::Cancelled),
        ]
        .into_iter()
        .find(|(states, _)| states.iter().any(|listed| listed == state))
        .map(|(_, class)| class)
    }
}

/// Values compare as strings.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok()).filter(|number| number.is_finite())
}
