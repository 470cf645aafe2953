//! What a server says, message by message: to which request each belongs, if to any.

use super::ask::{Ask, Replies, pong};
use super::connection::{ASKS, Connection, Heard, NoAsk};
use super::slot::{Happened, ProgressNote, Slot};
use super::words::Lost;
use crate::RpcError;
use crate::json::{Members, text};
use crate::message::{self, Id, Message, Request, Response};
use serde_json::value::RawValue;
use std::sync::Arc;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

impl Connection {
    /// Takes one message of the server. `via` is the request on whose response it came, where there is one.
    ///
    /// # Errors
    ///
    /// What it is instead of a message.
    pub(super) fn take(self: &Arc<Self>, bytes: &[u8], via: Option<&Arc<Slot>>) -> Result<(), String> {
        match message::parse(bytes).map_err(|malformed| malformed.error.message)? {
            Message::Response(response) => self.answered(&response, via),
            Message::Notification { method, params } => self.noted(&method, params, via),
            Message::Request(request) => self.asked(&request, via),
        }
        Ok(())
    }

    fn answered(&self, response: &Response<'_>, via: Option<&Arc<Slot>>) {
        // An error without an id can only be the one of the request on whose response it came.
        let id = match response.id {
            Some(id) => number(id),
            None => via.map(|slot| slot.id),
        };
        let slot = id.and_then(|id| self.take_slot(id));
        let Some(slot) = slot else {
            let id = response.id.map_or("null", RawValue::get);
            let id: String = id.chars().take(40).collect();
            tracing::debug!(id, "an MCP server answered what is not, or no longer, in flight");
            return;
        };
        slot.answered(match response.outcome {
            Ok(result) => Ok(result.to_owned()),
            Err(error) => Err(RpcError::of(error)),
        });
    }

    /// An answer to that id was above the limit. False if nothing of ours has that id.
    pub(super) fn answered_too_long(&self, id: Option<&str>) -> bool {
        let id = id.and_then(|id| id.parse().ok());
        let slot = id.and_then(|id| self.slot(id));
        if let Some(slot) = &slot {
            self.lose(slot, Lost::TooLarge(self.options.message));
        }
        slot.is_some()
    }

    fn noted(&self, method: &str, params: Option<&RawValue>, via: Option<&Arc<Slot>>) {
        match method {
            "notifications/progress" => self.progressed(params),
            "notifications/cancelled" => self.withdrawn(params),
            _ => {
                let (method, raw) = (method.to_owned(), params.map(ToOwned::to_owned));
                match via.cloned().or_else(|| self.subscription(params)) {
                    Some(slot) => slot.note(Happened::Noted { method, params: raw }),
                    None => self.hear(Heard::Noted { method, params: raw }),
                }
            }
        }
    }

    fn progressed(&self, params: Option<&RawValue>) {
        let read = || {
            let raw = params?;
            let members = Members::of(raw).ok()?;
            let slot = self.slot(number(members.get("progressToken")?)?)?;
            let float = |name| members.given(name)?.get().parse::<f64>().ok();
            let note = ProgressNote {
                progress: float("progress")?,
                total: float("total"),
                message: members.given("message").and_then(text).map(Into::into),
                raw: raw.to_owned(),
            };
            Some((slot, note))
        };
        match read() {
            Some((slot, note)) => slot.note(Happened::Progress(note)),
            None => tracing::debug!("an MCP server told of progress of what is not, or no longer, in flight"),
        }
    }

    /// The server withdraws its own request; or it ends a subscription, which in 2026-07-28 is all that it may.
    fn withdrawn(&self, params: Option<&RawValue>) {
        let id = || {
            let members = Members::of(params?).ok()?;
            Some(members.get("requestId")?.to_owned())
        };
        let Some(id) = id() else { return };
        if self.spoken.get().is_some_and(|spoken| spoken.revision.is_stateless()) {
            if let Some(slot) = number(&id).and_then(|id| self.slot(id)) {
                self.lose(&slot, Lost::Ended);
            }
            return;
        }
        if let Some(id) = Id::of(&id) {
            self.withdraw_ask(&id);
        }
    }

    fn asked(self: &Arc<Self>, request: &Request<'_>, via: Option<&Arc<Slot>>) {
        if request.method == "ping" {
            return self.reply(request.id, pong(request.id));
        }
        let Some(id) = Id::of(request.id) else { return };
        let withdrawn = match self.open_ask(id) {
            Ok(withdrawn) => withdrawn,
            Err(NoAsk::Twice) => {
                return tracing::debug!("an MCP server asked twice under one id; the second was ignored");
            }
            Err(NoAsk::TooMany) => {
                let why = format!("Too many requests are open at this client (limit {ASKS})");
                let error = RpcError::new(RpcError::INTERNAL_ERROR, why);
                return self.reply(request.id, message::write_error(Some(request.id), &error));
            }
        };
        let ask = Ask::new(
            request.method.clone().into_owned(),
            request.params.map(ToOwned::to_owned),
            request.id.to_owned(),
            withdrawn,
            Arc::clone(self) as Arc<dyn Replies>,
        );
        match via {
            Some(slot) => drop(slot.asked(ask)),
            None => self.hear(Heard::Asked(ask)),
        }
    }

    fn subscription(&self, params: Option<&RawValue>) -> Option<Arc<Slot>> {
        let members = Members::of(params?).ok()?;
        let meta = Members::of(members.given("_meta")?).ok()?;
        self.slot(number(meta.get(SUBSCRIPTION)?)?)
    }
}

/// An id of ours: a number in its one spelling.
fn number(raw: &RawValue) -> Option<u64> {
    let id: u64 = raw.get().parse().ok()?;
    (id.to_string() == raw.get()).then_some(id)
}
