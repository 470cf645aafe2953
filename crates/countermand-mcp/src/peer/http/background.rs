//! What goes on besides requests: the messages that get no answer, the stream of what belongs to no request, and the
//! end of a session.

use super::Link;
use super::headers::Manner;
use super::sse::Events;
use super::stream::{Got, cause};
use super::upload::Upload;
use crate::peer::words::Lost;
use reqwest::Body;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The first pause before the stream is opened again; it doubles.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Sends notifications, in order, and answers to the server. At the end of the connection it ends the session.
pub(super) async fn courier(link: Arc<Link>) {
    let connection = Arc::clone(&link.connection);
    let posting = async {
        while let Some(letters) = connection.letters(1).await {
            for letter in letters {
                if letter.in_order {
                    deliver(&link, letter.json).await;
                } else {
                    let link = Arc::clone(&link);
                    connection.spawn(async move {
                        let stop = link.connection.stop.clone();
                        let _or_stopped = stop.run_until_cancelled(deliver(&link, letter.json)).await;
                    });
                }
            }
        }
        connection.stop.cancelled().await;
    };
    let _or_stopped = connection.stop.run_until_cancelled(posting).await;
    connection.end(Lost::Closed);
    link.end_session().await;
}

async fn deliver(link: &Link, json: String) {
    if let Err(lost) = link.control(json).await {
        tracing::warn!("a message to an MCP server did not reach it: {lost}");
    }
}

/// Listens to what belongs to no request, where the server offers it, until the connection ends.
pub(super) async fn listen(link: Arc<Link>) {
    let stop = link.connection.stop.clone();
    let listening = async {
        let mut events = Events::new(link.connection.options.message);
        let mut pause = PAUSE;
        loop {
            let last_id = events.last_id().map(ToOwned::to_owned);
            match link.get(last_id.as_deref()).await {
                Got::Events(response) => {
                    pause = PAUSE;
                    let lost = link.pump(&mut events, *response, None).await;
                    tracing::debug!(
                        "the stream of an MCP server's own messages is to be opened again: {lost}"
                    );
                }
                Got::Nothing(405) => return,
                Got::Nothing(status) => {
                    tracing::debug!(status, "an MCP server offers no stream of its own messages");
                    return;
                }
                Got::Missing => {
                    let _told_if_not = link.is_alive().await;
                    return;
                }
                Got::Failed(lost) => {
                    tracing::debug!("the stream of an MCP server's own messages was not to be had: {lost}");
                }
            }
            tokio::time::sleep(events.retry().unwrap_or(pause).min(LONGEST_PAUSE)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    };
    let _or_stopped = stop.run_until_cancelled(listening).await;
}

impl Link {
    /// Sends what gets no answer but an acknowledgement, in bounded time.
    pub(super) async fn control(&self, json: String) -> Result<(), Lost> {
        let patience = self.target.patience;
        let sent = async {
            let manner = self.manner_of_control();
            let request = self.target.client.post(self.url.clone()).headers(self.headers(&manner)?);
            let response = request.body(Body::wrap(Upload::new(json, None))).send().await;
            let response = response.map_err(|error| Lost::Broken(cause(error)))?;
            match response.status().as_u16() {
                200..=299 => Ok(()),
                404 if self.session.get().is_some() => {
                    self.gone();
                    Err(Lost::SessionGone)
                }
                status => Err(Lost::Refused { status }),
            }
        };
        let late = || Lost::Broken(format!("no acknowledgement within {patience:?}"));
        tokio::time::timeout(patience, sent).await.unwrap_or_else(|_| Err(late()))
    }

    fn manner_of_control(&self) -> Manner {
        match self.connection.spoken.get() {
            Some(spoken) if spoken.revision.is_stateless() => Manner::alone(&Default::default()),
            _ => Manner::InSession,
        }
    }

    /// The server has ended the session.
    pub(super) fn gone(&self) {
        self.session_ended.store(true, Ordering::Release);
        self.connection.end(Lost::SessionGone);
    }

    /// Ends the session, once, in bounded time. A server that does not let its clients do that is left alone.
    pub(super) async fn end_session(&self) {
        if self.session.get().is_none() || self.session_ended.swap(true, Ordering::AcqRel) {
            return;
        }
        let Ok(headers) = self.headers(&Manner::InSession) else { return };
        let sent = self.target.client.delete(self.url.clone()).headers(headers).send();
        match tokio::time::timeout(self.target.patience, sent).await {
            Ok(Ok(response)) => {
                tracing::debug!(
                    status = response.status().as_u16(),
                    "the session of an MCP server was ended"
                );
            }
            Ok(Err(error)) => tracing::debug!("a session was not ended: {}", cause(error)),
            Err(_) => tracing::debug!("a session was not ended: no acknowledgement"),
        }
    }
}
