//! The cancel of a request to an MCP server: recorded first, then forwarded, then followed until it is settled.

use super::link::{Link, Voice};
use crate::config::{McpServer, Then};
use countermand::core::{
    Kind, Policy, Row, WhenCompleted,
    event::{CancelAnswer, CreateAnswer, End, FindAnswer, RequestAnswer, StatusAnswer, Trouble},
    ports::{BoxFuture, Created, Definition, Payload, Permit, Read, Upstream},
    row::hash_json,
};
use countermand::engine::Unperformable;
use countermand_mcp::{CancelFate, Happened, Lost, Pending};
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};
use tokio::sync::Mutex;

/// How long one look for a late answer lasts.
const LOOK: Duration = Duration::from_secs(1);

/// How long the end of a process may take to be verified after it was killed.
const KILL_WITHIN: Duration = Duration::from_secs(5);

/// The definition of cancels that are forwarded to this server.
pub(super) fn definition(server: &McpServer) -> Definition {
    let unconfirmed = server.unconfirmed;
    let forced = unconfirmed.then != Then::Leave;
    let more = if forced { unconfirmed.after } else { Duration::ZERO };
    let policy = Policy {
        kind: Kind::Mcp,
        can_cancel: true,
        confirm_within: unconfirmed.after + more,
        force_after: forced.then_some(unconfirmed.after),
        find: None,
        key_window: None,
        shield: Duration::ZERO,
        horizon: Duration::ZERO,
        poll_every: LOOK,
        poll_max: LOOK,
        lifetime: server.timeout,
        undo_steps: 0,
        when_completed: WhenCompleted::Keep,
        mark: false,
    };
    let body = json!({ "forwarded": true, "upstream": { "name": server.name }, "policy": &policy });
    Definition { hash: hash_json(&body).into(), policy: Arc::new(policy), body }
}

/// Whether a stored definition is one of those.
pub(crate) fn is_forwarded(definition: &Definition) -> bool {
    definition.body.get("forwarded").and_then(Value::as_bool).unwrap_or(false)
}

/// Performs the cancel of one request.
pub(super) struct Forwarded {
    pending: Mutex<Pending>,
    link: Arc<Link>,
    /// Its place among the requests in flight, until it is settled.
    _voice: Voice,
    reason: Option<String>,
    then: Then,
    /// What is known of its end already.
    known: std::sync::Mutex<Option<StatusAnswer>>,
}

impl Forwarded {
    pub(super) fn new(
        pending: Pending,
        link: Arc<Link>,
        voice: Voice,
        reason: Option<String>,
        then: Then,
    ) -> Self {
        let known = std::sync::Mutex::default();
        Self { pending: Mutex::new(pending), link, _voice: voice, reason, then, known }
    }

    /// Tells the server.
    pub(super) async fn tell(&self) -> CancelAnswer {
        let mut receipt = self.pending.lock().await.cancel(self.reason.as_deref());
        let how = match receipt.fate().await {
            CancelFate::Written => "notifications/cancelled was written to the server",
            CancelFate::Acknowledged => "notifications/cancelled was acknowledged",
            CancelFate::StreamClosed => "the response was closed, which is the cancel",
            CancelFate::Needless => "it had been answered or lost before",
            CancelFate::NeverSent => {
                self.know(ended(End::Cancelled, Some("it had not been sent".to_owned())));
                "it had not been sent, and never will be"
            }
            CancelFate::Failed(why) => {
                return CancelAnswer::NotAccepted(Trouble::new(format!(
                    "the cancel did not reach the server: {why}"
                )));
            }
        };
        CancelAnswer::Accepted { how: how.to_owned() }
    }

    /// Ends the server's process, where that is wanted and hurts nobody else.
    async fn force(&self) -> CancelAnswer {
        let others = self.link.in_flight().saturating_sub(1);
        if self.then == Then::Restart && others > 0 {
            let why = format!("the server is not restarted while {others} other calls are in flight there");
            return CancelAnswer::NotAccepted(Trouble::new(why));
        }
        let Some(program) = self.link.program() else {
            return CancelAnswer::NotAccepted(Trouble::new("the server's process is not ours to end"));
        };
        self.link.kill();
        match tokio::time::timeout(KILL_WITHIN, program.ended()).await {
            Ok(_) => {
                self.know(ended(End::Cancelled, None));
                CancelAnswer::Accepted {
                    how: "the server's process was ended, with all that it had started".to_owned(),
                }
            }
            Err(_) => CancelAnswer::NotAccepted(Trouble::new("the server's process does not end")),
        }
    }

    /// Waits a moment for what shows how it ended.
    async fn look(&self) -> StatusAnswer {
        let until = tokio::time::Instant::now() + LOOK;
        match self.known() {
            // An error shows nothing, and nothing more is answered; but the process may end.
            Some(said @ StatusAnswer::Running { .. }) => return self.only_ended(said, until).await,
            Some(known) => return known,
            None => {}
        }
        let mut pending = self.pending.lock().await;
        loop {
            let Ok(happened) = tokio::time::timeout_at(until, pending.next()).await else {
                return running("silent", true);
            };
            match happened {
                // What it still says on the way shows nothing, and is for nobody.
                Happened::Progress(_) | Happened::Noted { .. } | Happened::Asked(_) => {}
                Happened::Answered(Ok(_)) => return ended(End::Completed, None),
                // "Cancelled" as well: many say so and run on.
                Happened::Answered(Err(error)) => {
                    let said = format!("an error: {} (code {})", error.message, error.code);
                    self.know(running(&said, false));
                    return running(&said, false);
                }
                Happened::Lost(lost) => {
                    drop(pending);
                    return self.lost(&lost, until).await;
                }
            }
        }
    }

    /// Nothing more is said: all that can be learnt is that the process has ended, if that was ours.
    async fn only_ended(&self, said: StatusAnswer, until: tokio::time::Instant) -> StatusAnswer {
        let over = async {
            match self.link.program() {
                Some(program) => program.ended().await,
                None => std::future::pending().await,
            }
        };
        match tokio::time::timeout_at(until, over).await {
            Ok(_) => ended(End::Cancelled, None),
            Err(_) => said,
        }
    }

    /// The connection ended. With its process everything has, if that was ours: the kernel's word.
    async fn lost(&self, lost: &Lost, until: tokio::time::Instant) -> StatusAnswer {
        // Nothing more will come: the next look need not be at once.
        self.only_ended(running(&format!("nothing more: {lost}"), false), until).await
    }

    fn know(&self, answer: StatusAnswer) {
        *self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(answer);
    }

    fn known(&self) -> Option<StatusAnswer> {
        self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

fn ended(end: End, error: Option<String>) -> StatusAnswer {
    StatusAnswer::Ended { end, error, saved: Map::new() }
}

fn running(state: &str, listed: bool) -> StatusAnswer {
    StatusAnswer::Running { state: state.to_owned(), listed, retry_after: None, saved: Map::new() }
}

fn unasked() -> Trouble {
    Trouble::new("a request to an MCP server is not sent again")
}

impl Upstream for Forwarded {
    fn admit(&self) -> BoxFuture<'_, Permit> {
        Box::pin(async { Permit(Box::new(())) })
    }

    fn create<'a>(&'a self, _: &'a Row) -> BoxFuture<'a, Created> {
        Box::pin(async { Created { answer: CreateAnswer::Refused(unasked()), payload: None } })
    }

    fn find<'a>(&'a self, _: &'a Row) -> BoxFuture<'a, FindAnswer> {
        Box::pin(async { FindAnswer::Failed(unasked()) })
    }

    fn status<'a>(&'a self, _: &'a Row) -> BoxFuture<'a, Read> {
        Box::pin(async { Read { answer: self.look().await, progress: None, payload: None } })
    }

    fn cancel<'a>(&'a self, _: &'a Row, force: bool) -> BoxFuture<'a, CancelAnswer> {
        Box::pin(async move { if force { self.force().await } else { self.tell().await } })
    }

    fn mark<'a>(&'a self, _: &'a Row) -> BoxFuture<'a, RequestAnswer> {
        Box::pin(async { RequestAnswer::Refused(unasked()) })
    }

    fn undo<'a>(&'a self, _: &'a Row) -> BoxFuture<'a, RequestAnswer> {
        Box::pin(async { RequestAnswer::Refused(unasked()) })
    }

    fn result<'a>(&'a self, _: &'a Row) -> BoxFuture<'a, Result<Payload, Trouble>> {
        Box::pin(async { Err(unasked()) })
    }
}

/// Performs what an earlier process of ours has left of such a cancel: its connection ended with that process.
pub(crate) fn gone() -> Unperformable {
    Unperformable::new(
        "its connection to the MCP server ended with the gateway that had it; resolve it by hand",
    )
}
