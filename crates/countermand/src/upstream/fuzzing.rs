//! The reading of answers without a socket, for fuzzers.

use super::{
    HttpUpstreamClient,
    answer::{Head, Redactor},
    extract::{Pick, Picks, id_of},
    payload::payload,
    shown::Shown,
    state::StateReader,
};
use crate::{
    clock::SystemClock,
    definition::{Extract, HttpLimits, HttpUpstream, StatusDefinition},
    secret::Secrets,
};
use countermand_core::{UpstreamId, event::StatusAnswer};
use std::sync::Arc;

/// Reads answers that nobody sent.
#[derive(Debug)]
pub struct Answers(HttpUpstreamClient);

/// What was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// What it says of the job.
    pub status: StatusAnswer,
    /// The id at the first path of its state, were it one.
    pub id: Option<UpstreamId>,
}

impl Answers {
    /// A reader whose answers have at most so many bytes.
    ///
    /// # Panics
    /// Where no client can be made at all.
    #[expect(clippy::expect_used, reason = "nothing of it comes from outside")]
    pub fn at_most(max_bytes: u64) -> Self {
        let limits = HttpLimits { max_bytes, ..HttpLimits::default() };
        let base_url = "http://127.0.0.1:1".to_owned();
        let upstream = HttpUpstream { name: "fuzz".to_owned(), base_url, headers: Vec::new(), limits };
        let clock = Arc::new(SystemClock::new());
        Self(HttpUpstreamClient::new(upstream, Arc::new(Secrets::new()), clock).expect("a client"))
    }

    /// Reads an answer as a status, and what else is read of answers.
    ///
    /// # Errors
    /// Where the definition is none, as the config would say.
    pub async fn read(
        &self,
        definition: &StatusDefinition,
        path: &str,
        answer: http::Response<Vec<u8>>,
    ) -> Result<Found, String> {
        let reader = StateReader::new(definition)?;
        let pick = Pick::new(&Extract::JsonPath(path.to_owned()))?;
        let picks = Picks::new(&definition.save)?;
        let value = super::extract::Path::new(path)?;
        let mut id = None;
        if let Ok(answer) = self.head(definition, answer.clone()).answer().await {
            let body = answer.json().ok();
            id = pick.of(&answer, body.as_ref()).as_ref().and_then(id_of);
            let _saved = picks.of(&answer, body.as_ref());
            let _payload = payload(&answer, &value);
            let _words = answer.trouble();
        }
        let status = reader.read(self.head(definition, answer)).await.answer;
        Ok(Found { status, id })
    }

    fn head(&self, definition: &StatusDefinition, answer: http::Response<Vec<u8>>) -> Head {
        let shown = Shown::as_configured("fuzz", &definition.request);
        Head::new(answer.into(), shown, Redactor::new(std::iter::empty()), &self.0)
    }
}
