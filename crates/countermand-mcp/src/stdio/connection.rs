//! One client on one pair of streams: its revision, its ids in flight, and what each of its messages means.

use super::output::{Outbox, Sink};
use crate::calls::{Admission, Calls};
use crate::handler::{self, Call, Delivery, Handler};
use crate::message::{self, Id, Message, Request};
use crate::methods::{self, Method};
use crate::params::{self, Params};
use crate::progress::Progress;
use crate::{CallHandle, Revision, RpcError, TransportKind};
use countermand_core::Cause;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::task::TaskTracker;

pub(super) struct Connection<H> {
    handler: Arc<H>,
    calls: Arc<Calls>,
    principal: String,
    outbox: Outbox,
    /// What `initialize` settled. Requests that name a stateless revision need none.
    revision: Option<Revision>,
    open: Open,
    /// The supervisors of this connection's calls.
    pub(super) tasks: TaskTracker,
}

/// The ids in flight of one connection. Another connection's are other ids.
#[derive(Clone, Default)]
struct Open(Arc<Mutex<HashMap<Id, CallHandle>>>);

impl Open {
    fn lock(&self) -> MutexGuard<'_, HashMap<Id, CallHandle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes an id, unless it names another call by now.
    fn remove(&self, id: &Id, call: &CallHandle) {
        let mut open = self.lock();
        if open.get(id).is_some_and(|there| there.id() == call.id()) {
            open.remove(id);
        }
    }
}

impl<H: Handler> Connection<H> {
    pub(super) fn new(handler: Arc<H>, calls: Arc<Calls>, principal: String, outbox: Outbox) -> Self {
        let (open, tasks) = (Open::default(), TaskTracker::new());
        Self { handler, calls, principal, outbox, revision: None, open, tasks }
    }

    /// Cancels every call of this client. It is gone.
    pub(super) fn leave(&self) {
        let open: Vec<CallHandle> = self.open.lock().drain().map(|(_, call)| call).collect();
        for call in open {
            call.cancel(Cause::ClientDisconnected, None);
        }
    }

    /// Does what a message asks for. What has to be answered at once is returned.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Option<String> {
        match message::parse(bytes) {
            Err(malformed) => Some(message::write_error(malformed.id.as_deref(), &malformed.error)),
            Ok(Message::Response) => None,
            Ok(Message::Notification { method, params }) => {
                if method == "notifications/cancelled" {
                    self.cancelled(params);
                }
                None
            }
            Ok(Message::Request(request)) => match self.serve(&request) {
                Ok(answer) => answer.map(|result| message::write_result(request.id, &result)),
                Err(error) => Some(message::write_error(Some(request.id), &error)),
            },
        }
    }

    /// A cancel of an id that is unknown, malformed or answered means nothing.
    fn cancelled(&self, params: Option<&RawValue>) {
        let Some((id, reason)) = params::cancelled(params) else { return };
        // The id is free at once: nothing will be sent under it any more.
        let call = self.open.lock().remove(&id);
        if let Some(call) = call {
            call.cancel(Cause::ClientCancelled, reason);
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
        let info = || self.handler.server_info();
        match method {
            Method::Initialize => {
                if self.revision.is_some() {
                    return Err(RpcError::invalid_request(
                        "Invalid request: this client is initialized already",
                    ));
                }
                let (revision, result) = methods::initialize(&params, &info())?;
                self.revision = Some(revision);
                Ok(Some(result))
            }
            Method::Ping => Ok(Some("{}".to_owned())),
            Method::Discover => Ok(Some(methods::discover(&info(), &Revision::ALL))),
            Method::ListTools => {
                methods::list_tools(&params, &self.handler.tools(), &info(), revision).map(Some)
            }
            Method::CallTool => self.call(request, &params, revision).map(|()| None),
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
        let admission = {
            // Under one lock, so that of two equal ids one is refused.
            let mut open = self.open.lock();
            if open.contains_key(&id) {
                return Err(RpcError::invalid_request("Invalid request: a call with this id is in flight"));
            }
            let admission = self.calls.admit(&self.principal)?;
            open.insert(id.clone(), admission.handle.clone());
            admission
        };
        let handle = admission.handle.clone();
        let sink = || Arc::new(Sink(self.outbox.clone()));
        let call = Call {
            handle: handle.clone(),
            tool: called.name.into_owned(),
            arguments: called.arguments.map(ToOwned::to_owned),
            meta: params.meta().map(ToOwned::to_owned),
            extra: called.extra,
            progress: params.progress_token().map(|token| Progress::new(handle, token, sink())),
            principal: self.principal.clone(),
            session: None,
            request_id: request.id.to_owned(),
            revision,
            transport: TransportKind::Stdio,
        };
        let tasks = admission.tasks();
        let supervised =
            supervise(self.handler.clone(), call, id, self.open.clone(), self.outbox.clone(), admission);
        tasks.spawn(self.tasks.track_future(supervised));
        Ok(())
    }
}

/// Lives as long as the call: runs its handler, then races its answer against the client's cancel.
async fn supervise<H: Handler>(
    handler: Arc<H>,
    call: Call,
    id: Id,
    open: Open,
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
            open.remove(&id, &handle);
            room.send(encoded.json);
        })
    });
    open.remove(&id, &handle);
    if let Some(delivered) = answer.delivered.take() {
        // A handler that does not listen does not want to know.
        let _unheard = delivered.send(match settled {
            Ok(()) => Delivery::Sent,
            Err(cause) => Delivery::Suppressed(cause),
        });
    }
    drop(admission);
}
