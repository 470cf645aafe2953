//! Responses: what kind each is, and the events of those that are streams.

use super::Link;
use super::headers::{LAST_EVENT_ID, Manner};
use super::sse::{Events, TooLarge};
use crate::peer::slot::Slot;
use crate::peer::words::Lost;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use reqwest::Response;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// How long an answered response may take to end. Then its connection can be used again.
const LINGER: Duration = Duration::from_secs(1);

/// Whether a response is a stream of events.
pub(super) fn is_events(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("text/event-stream")
}

/// A request for events, and what came of it.
pub(super) enum Got {
    Events(Box<Response>),
    /// There are none.
    Nothing(u16),
    /// There is no such thing: the stream, or the session. A server that offers no streams may say so as well.
    Missing,
    /// Nobody answered.
    Failed(Lost),
}

impl Link {
    /// Asks for the events behind that id, or for what belongs to no request.
    pub(super) async fn get(&self, last_id: Option<&str>) -> Got {
        let mut headers = match self.headers(&Manner::InSession) {
            Ok(headers) => headers,
            Err(lost) => return Got::Failed(lost),
        };
        headers.remove(CONTENT_TYPE);
        headers.insert(http::header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(last_id) = last_id {
            let Ok(last_id) = HeaderValue::from_str(last_id) else { return Got::Nothing(0) };
            headers.insert(LAST_EVENT_ID, last_id);
        }
        match self.target.client.get(self.url.clone()).headers(headers).send().await {
            Err(error) => Got::Failed(Lost::Broken(cause(error))),
            Ok(response) if response.status().as_u16() == 404 => Got::Missing,
            Ok(response) if response.status().is_success() && is_events(&response) => {
                Got::Events(Box::new(response))
            }
            Ok(response) if response.status().is_server_error() => {
                Got::Failed(Lost::Refused { status: response.status().as_u16() })
            }
            Ok(response) => Got::Nothing(response.status().as_u16()),
        }
    }

    /// Hands on the messages of a stream until it ends, and says how it did. The stream of a request is not read
    /// much further than its answer.
    pub(super) async fn pump(
        &self,
        events: &mut Events,
        mut response: Response,
        via: Option<&Arc<Slot>>,
    ) -> Lost {
        events.begin();
        let mut found = Vec::new();
        loop {
            let bytes = match self.chunk(&mut response).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return Lost::Ended,
                Err(lost) => return lost,
            };
            let fed = events.feed(&bytes, &mut found);
            for message in found.drain(..) {
                if let Err(why) = self.connection.take(&message, via) {
                    tracing::debug!("an event of an MCP server is no message and was ignored: {why}");
                }
            }
            if let Err(TooLarge) = fed {
                return Lost::TooLarge(self.connection.options.message);
            }
            if via.is_some_and(|slot| slot.is_over()) {
                let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
                let _bounded = tokio::time::timeout(LINGER, rest).await;
                return Lost::Ended;
            }
        }
    }

    /// The next piece of a body, unless it is silent for too long.
    pub(super) async fn chunk(&self, response: &mut Response) -> Result<Option<bytes::Bytes>, Lost> {
        let chunk = async { response.chunk().await.map_err(|error| Lost::Broken(cause(error))) };
        match self.target.idle {
            None => chunk.await,
            Some(idle) => match tokio::time::timeout(idle, chunk).await {
                Ok(chunk) => chunk,
                Err(_) => Err(Lost::Broken(format!("nothing came for {idle:?}"))),
            },
        }
    }

    /// A whole body.
    pub(super) async fn whole(&self, mut response: Response) -> Result<Vec<u8>, Lost> {
        let limit = self.connection.options.message;
        let mut whole = Vec::new();
        while let Some(bytes) = self.chunk(&mut response).await? {
            if whole.len() + bytes.len() > limit {
                return Err(Lost::TooLarge(limit));
            }
            whole.extend_from_slice(&bytes);
        }
        Ok(whole)
    }
}

/// The innermost reason of an error. Never the URL, in which there may be secrets.
pub(super) fn cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let sources = std::iter::successors(Some(&error as &(dyn Error + 'static)), |&error| error.source());
    sources.last().map(ToString::to_string).unwrap_or_default()
}
