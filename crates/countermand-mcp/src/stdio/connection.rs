//! One client on one pair of streams: its revision, its ids in flight, and what each of its messages means.

use super::output::{Outbox, Sink};
use crate::calls::{Admission, Calls, InFlight, Presence};
use crate::client::Asks;
use crate::handler::{self, Call, Delivery, Handler};
use crate::message::{self, Id, Message, Request};
use crate::methods::{self, Method, Served};
use crate::params::{self, Params};
use crate::progress::Progress;
use crate::{Backchannel, Client, Level, Log, Revision, RpcError, TransportKind};
use countermand_core::Cause;
use futures_util::FutureExt as _;
use serde_json::value::RawValue;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

pub(super) struct Connection<H> {
    handler: Arc<H>,
    calls: Arc<Calls>,
    principal: String,
    outbox: Outbox,
    /// Who `initialize` introduced. Requests that name a stateless revision need none.
    introduced: Introduced,
    asks: Arc<Asks>,
    gone: CancellationToken,
    /// What `logging/setLevel` set.
    level: Option<Level>,
    in_flight: InFlight,
    /// The supervisors of this connection's calls.
    pub(super) tasks: TaskTracker,
}

/// Who `initialize` introduced. Taken back where it failed.
#[derive(Clone, Default)]
struct Introduced(Arc<Mutex<Option<Client>>>);

impl Introduced {
    fn lock(&self) -> MutexGuard<'_, Option<Client>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn revision(&self) -> Option<Revision> {
        self.lock().as_ref().map(|client| client.revision)
    }
}

impl<H: Handler> Connection<H> {
    pub(super) fn new(handler: Arc<H>, calls: Arc<Calls>, principal: String, outbox: Outbox) -> Self {
        Self {
            handler,
            calls,
            principal,
            outbox,
            introduced: Introduced::default(),
            asks: Arc::default(),
            gone: CancellationToken::new(),
            level: None,
            in_flight: InFlight::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// Cancels every call of this client. It is gone.
    pub(super) fn leave(&self) {
        self.in_flight.leave(Cause::ClientDisconnected);
        self.end();
    }

    /// Nothing can be asked of it any more.
    pub(super) fn end(&self) {
        self.asks.close();
        self.gone.cancel();
    }

    fn client(&self, id: Option<Uuid>, revision: Revision, introduction: Option<&RawValue>) -> Client {
        let back = || Backchannel::beside(Arc::new(Sink(self.outbox.clone())), Arc::clone(&self.asks));
        Client {
            id,
            principal: self.principal.clone(),
            session: None,
            revision,
            transport: TransportKind::Stdio,
            introduction: introduction.map(|params| Arc::from(params.to_owned())),
            back: id.map_or_else(Backchannel::nowhere, |_| back()),
            gone: self.gone.clone(),
        }
    }

    /// The client of a request under that revision: the one that was introduced, or one that stands alone.
    fn client_of(&self, revision: Revision, params: &Params<'_>) -> Client {
        let introduced = self.introduced.lock().clone().filter(|client| client.revision == revision);
        introduced.unwrap_or_else(|| self.client(None, revision, params.meta()))
    }

    /// Does what a message asks for. What has to be answered at once is returned.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Option<String> {
        match message::parse(bytes) {
            Err(malformed) => Some(message::write_error(malformed.id.as_deref(), &malformed.error)),
            Ok(Message::Response(response)) => {
                self.asks.answered(&response);
                None
            }
            Ok(Message::Notification { method, params }) => {
                if method == "notifications/cancelled" {
                    // One that is malformed means nothing.
                    if let Some((id, reason)) = params::cancelled(params) {
                        self.in_flight.cancel(&id, reason);
                    }
                } else if let Some(client) = self.introduced.lock().clone() {
                    self.handler.notified(&client, &method, params);
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
        let served = Served::find(&request.method, revision, &*self.handler)?;
        if served != Served::Here(Method::Initialize) {
            params.require_metadata(revision)?;
        }
        match served {
            Served::Here(Method::Initialize) => self.initialize(request, &params),
            Served::Here(Method::Discover) => {
                let (client, handler) = (self.client_of(revision, &params), self.handler.clone());
                self.soon(request, async move {
                    let greeting = handler.greet(&client).await?;
                    Ok(methods::discover(&greeting, &handler.server_info()))
                })
            }
            Served::Here(Method::SetLevel) => {
                self.level = Some(params.level()?);
                Ok(Some("{}".to_owned()))
            }
            Served::ByHandler => {
                // A handler that takes over the levels knows what its client wants; so do we, for our own messages.
                if request.method == "logging/setLevel" {
                    self.level = Some(params.level()?);
                }
                self.call(request, &params, revision).map(|()| None)
            }
            Served::Here(method) => methods::answer_at_once(method, &params, &*self.handler, revision),
        }
    }

    fn initialize(&self, request: &Request<'_>, params: &Params<'_>) -> Result<Option<String>, RpcError> {
        if self.introduced.revision().is_some() {
            return Err(RpcError::invalid_request("Invalid request: this client is initialized already"));
        }
        let revision = methods::introduced(params)?;
        let client = self.client(Some(Uuid::now_v7()), revision, request.params);
        *self.introduced.lock() = Some(client.clone());
        let (introduced, handler) = (self.introduced.clone(), self.handler.clone());
        self.soon(request, async move {
            match handler.greet(&client).await {
                Ok(greeting) => Ok(methods::initialize(revision, &greeting, &handler.server_info())),
                Err(error) => {
                    introduced.lock().take();
                    Err(error)
                }
            }
        })
    }

    /// The result, if it is there at once; else it is sent when it is, unless the client goes first.
    fn soon(
        &self,
        request: &Request<'_>,
        result: impl Future<Output = Result<String, RpcError>> + Send + 'static,
    ) -> Result<Option<String>, RpcError> {
        let mut result = Box::pin(result);
        if let Some(result) = result.as_mut().now_or_never() {
            return result.map(Some);
        }
        let (id, outbox, gone) = (request.id.to_owned(), self.outbox.clone(), self.gone.clone());
        self.tasks.spawn(async move {
            let Some(result) = gone.run_until_cancelled(result).await else { return };
            let json = match result {
                Ok(result) => message::write_result(&id, &result),
                Err(error) => message::write_error(Some(&id), &error),
            };
            // A client that does not take it has gone.
            let _gone = outbox.send(json).await;
        });
        Ok(None)
    }

    /// Under which revision a request is served: the stateless one that it names, or the one that was initialized.
    fn revision_of(&self, request: &Request<'_>, params: &Params<'_>) -> Result<Revision, RpcError> {
        if request.method == "initialize" {
            return Ok(Revision::NEWEST_WITH_INITIALIZE);
        }
        if let Some(named) = params.revision() {
            return match Revision::from_date(&named) {
                Some(revision) if revision.is_stateless() || self.introduced.revision() == Some(revision) => {
                    Ok(revision)
                }
                _ => Err(RpcError::unsupported_revision(&named, &Revision::ALL)),
            };
        }
        match self.introduced.revision() {
            Some(revision) => Ok(revision),
            // Nothing but a ping may come before.
            None if request.method == "ping" => Ok(Revision::NEWEST_WITH_INITIALIZE),
            None => Err(RpcError::invalid_request(
                "Invalid request: not initialized; send `initialize` first, or name the revision in `_meta`",
            )),
        }
    }

    fn call(&self, request: &Request<'_>, params: &Params<'_>, revision: Revision) -> Result<(), RpcError> {
        let asked = params.asked(&request.method)?;
        let id = Id::of(request.id).ok_or_else(|| RpcError::invalid_request("Invalid request: no id"))?;
        let level = if revision.is_stateless() { params.log_level()? } else { self.level };
        let admission = self.in_flight.admit(&self.calls, &self.principal, &id)?;
        let handle = admission.handle.clone();
        let sink = || Arc::new(Sink(self.outbox.clone()));
        // A client of a stateless revision is asked by results that require input.
        let asks = (!revision.is_stateless()).then(|| Arc::clone(&self.asks));
        let call = Call {
            handle: handle.clone(),
            method: request.method.clone().into_owned(),
            tool: asked.tool.into_owned(),
            arguments: asked.arguments.map(ToOwned::to_owned),
            meta: params.meta().map(ToOwned::to_owned),
            extra: asked.extra,
            progress: params.progress_token().map(|token| Progress::new(handle.clone(), token, sink())),
            log: level.map(|level| Log::new(handle.clone(), level, sink())),
            presence: Presence::constant(),
            back: Backchannel::of_call(handle, sink(), asks),
            client: self.client_of(revision, params),
            request_id: request.id.to_owned(),
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
    let (raw, revision, handle) = (call.request_id.clone(), call.client.revision, call.handle.clone());
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
