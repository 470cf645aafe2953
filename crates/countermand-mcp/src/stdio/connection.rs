//! One client on one pair of streams: its revision, its ids in flight, and what each of its messages means.

use super::output::{Outbox, Sink};
use crate::calls::{Admission, Calls, InFlight, Presence};
use crate::handler::{self, Call, Delivery, Handler};
use crate::message::{self, Id, Message, Request};
use crate::methods::{self, Method};
use crate::params::{self, Params};
use crate::progress::Progress;
use crate::{Level, Log, Revision, RpcError, TransportKind};
use countermand_core::Cause;
use std::sync::Arc;
use tokio_util::task::TaskTracker;

pub(super) struct Connection<H> {
    handler: Arc<H>,
    calls: Arc<Calls>,
    principal: String,
    outbox: Outbox,
    /// What `initialize` settled. Requests that name a stateless revision need none.
    revision: Option<Revision>,
    /// What `logging/setLevel` set.
    level: Option<Level>,
    in_flight: InFlight,
    /// The supervisors of this connection's calls.
    pub(super) tasks: TaskTracker,
}

impl<H: Handler> Connection<H> {
    pub(super) fn new(handler: Arc<H>, calls: Arc<Calls>, principal: String, outbox: Outbox) -> Self {
        let (in_flight, tasks) = (InFlight::default(), TaskTracker::new());
        Self { handler, calls, principal, outbox, revision: None, level: None, in_flight, tasks }
    }

    /// Cancels every call of this client. It is gone.
    pub(super) fn leave(&self) {
        self.in_flight.leave(Cause::ClientDisconnected);
    }

    /// Does what a message asks for. What has to be answered at once is returned.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Option<String> {
        match message::parse(bytes) {
            Err(malformed) => Some(message::write_error(malformed.id.as_deref(), &malformed.error)),
            Ok(Message::Response(_)) => None,
            Ok(Message::Notification { method, params }) => {
                // A cancel that is malformed means nothing.
                if method == "notifications/cancelled"
                    && let Some((id, reason)) = params::cancelled(params)
                {
                    self.in_flight.cancel(&id, reason);
                }
                None
            }
            Ok(Message::Request(request)) => match self.serve(&request) {
                Ok(answer) => answer.map(|result| message::write_result(request.id, &result)),
                Err(error) => Some(message::write_error(Some(request.id), &error)),
            },
        }
    }

    /// The result of a simple request; `None` for a call, whose answer comes later.
    fn serve(&mut self, request: &Request<'_>) -> Result<Option<String>, RpcError> {
        let params = Params::of(request.params)?;
        let revision = self.revision_of(request, &params)?;
        let method = Method::find(&request.method, revision)?;
        if method != Method::Initialize {
            params.require_metadata(revision)?;
        }
        match method {
            Method::Initialize => {
                if self.revision.is_some() {
                    return Err(RpcError::invalid_request(
                        "Invalid request: this client is initialized already",
                    ));
                }
                let (revision, result) = methods::initialize(&params, &self.handler.server_info())?;
                self.revision = Some(revision);
                Ok(Some(result))
            }
            Method::SetLevel => {
                self.level = Some(params.level()?);
                Ok(Some("{}".to_owned()))
            }
            Method::CallTool => self.call(request, &params, revision).map(|()| None),
            method => methods::answer_at_once(method, &params, &*self.handler, revision),
        }
    }

    /// Under which revision a request is served: the stateless one that it names, or the one that was initialized.
    fn revision_of(&self, request: &Request<'_>, params: &Params<'_>) -> Result<Revision, RpcError> {
        if request.method == "initialize" {
            return Ok(Revision::NEWEST_WITH_INITIALIZE);
        }
        if let Some(named) = params.revision() {
            return match Revision::from_date(&named) {
                Some(revision) if revision.is_stateless() || self.revision == Some(revision) => Ok(revision),
                _ => Err(RpcError::unsupported_revision(&named, &Revision::ALL)),
            };
        }
        match self.revision {
            Some(revision) => Ok(revision),
            // Nothing but a ping may come before.
            None if request.method == "ping" => Ok(Revision::NEWEST_WITH_INITIALIZE),
            None => Err(RpcError::invalid_request(
                "Invalid request: not initialized; send `initialize` first, or name the revision in `_meta`",
            )),
        }
    }

    fn call(&self, request: &Request<'_>, params: &Params<'_>, revision: Revision) -> Result<(), RpcError> {
        let called = params.tool_call()?;
        let id = Id::of(request.id).ok_or_else(|| RpcError::invalid_request("Invalid request: no id"))?;
        let level = if revision.is_stateless() { params.log_level()? } else { self.level };
        let admission = self.in_flight.admit(&self.calls, &self.principal, &id)?;
        let handle = admission.handle.clone();
        let sink = || Arc::new(Sink(self.outbox.clone()));
        let call = Call {
            handle: handle.clone(),
            tool: called.name.into_owned(),
            arguments: called.arguments.map(ToOwned::to_owned),
            meta: params.meta().map(ToOwned::to_owned),
            extra: called.extra,
            progress: params.progress_token().map(|token| Progress::new(handle.clone(), token, sink())),
            log: level.map(|level| Log::new(handle, level, sink())),
            presence: Presence::constant(),
            principal: self.principal.clone(),
            session: None,
            request_id: request.id.to_owned(),
            revision,
            transport: TransportKind::Stdio,
        };
        let tasks = admission.tasks();
        let supervised =
            supervise(self.handler.clone(), call, id, self.in_flight.clone(), self.outbox.clone(), admission);
        tasks.spawn(self.tasks.track_future(supervised));
        Ok(())
    }
}

/// Lives as long as the call: runs its handler, then races its answer against the client's cancel.
async fn supervise<H: Handler>(
    handler: Arc<H>,
    call: Call,
    id: Id,
    in_flight: InFlight,
    outbox: Outbox,
    admission: Admission,
) {
    let (raw, revision, handle) = (call.request_id.clone(), call.revision, call.handle.clone());
    let mut answer = handler::run(handler, call).await;
    let encoded = answer.encode(&raw, revision);
    let room = tokio::select! {
        biased;
        cause = handle.silenced() => Err(cause),
        room = outbox.reserve() => room.map_err(|_| Cause::ClientDisconnected),
    };
    let settled = room.and_then(|room| {
        handle.settle(|| {
            // Free before the client can see the answer, and use the id again.
            in_flight.remove(&id, &handle);
            room.send(encoded.json);
        })
    });
    in_flight.remove(&id, &handle);
    if let Some(delivered) = answer.delivered.take() {
        // A handler that does not listen does not want to know.
        let _unheard = delivered.send(match settled {
            Ok(()) => Delivery::Sent,
            Err(cause) => Delivery::Suppressed(cause),
        });
    }
    drop(admission);
}
