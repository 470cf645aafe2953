//! One call in a session: its supervisor, and whoever reads its response.

use super::{Busy, Session};
use crate::calls::Admission;
use crate::http::body::{Body, Gone, Outlet};
use crate::http::call::{Asked, Caller, Reader, begin, tell, ticks};
use crate::http::exchange::Exchange;
use crate::message::Id;
use crate::{Call, Handler, RpcError, handler};
use http::{Response, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A call that has been let in, and its place in the session.
pub(super) struct InSession {
    asked: Asked,
    place: Place,
}

struct Place {
    session: Arc<Session>,
    id: Id,
    stream: u64,
    _busy: Busy,
}

impl InSession {
    /// Lets a call in.
    pub(super) fn admit<H: Handler>(
        exchange: &Exchange<'_, H>,
        session: &Arc<Session>,
    ) -> Result<Self, RpcError> {
        let id =
            Id::of(exchange.request.id).ok_or_else(|| RpcError::invalid_request("Invalid request: no id"))?;
        let client = session.client();
        // Before it has a place: a call that is none takes none.
        let params = exchange.params.asked(&exchange.request.method)?;
        let admission = session.in_flight.admit(&exchange.door.calls, &client.principal, &id)?;
        let (stream, outlet, body) = session.keep(exchange.shape);
        let caller = Caller {
            client,
            level: session.level(),
            presence: outlet.presence(),
            asks: Some(Arc::clone(&session.asks)),
        };
        let place = Place { session: Arc::clone(session), id, stream, _busy: session.busy() };
        Ok(Self { asked: Asked::of(exchange, params, admission, (outlet, body), caller), place })
    }

    /// Starts it, and begins its response.
    pub(super) async fn respond<H: Handler>(
        self,
        exchange: &Exchange<'_, H>,
        closed: CancellationToken,
    ) -> Result<Response<Body>, Gone> {
        let Self { asked: Asked { call, admission, outlet, body }, place } = self;
        let (tasks, handler) = (admission.tasks(), exchange.door.handler.clone());
        let reader = Reader { generation: body.generation(), closed };
        attend(&tasks, Arc::clone(&outlet), reader, exchange.door.options.keep_alive);
        tasks.spawn(supervise(handler, call, admission, outlet, place));
        // An error is an answer: see `Refusal::Answered`.
        begin(body, exchange.door.options.early_headers, exchange.shape, |_| StatusCode::OK).await
    }
}

/// Follows one reader of a response: sends it signs of life, and notices that it has gone.
pub(super) fn attend(tasks: &TaskTracker, outlet: Arc<Outlet>, reader: Reader, keep_alive: Duration) {
    tasks.spawn(async move {
        let mut ticks = ticks(keep_alive);
        loop {
            tokio::select! {
                () = reader.gone(&outlet) => break,
                _ = ticks.tick() => outlet.keep_alive(),
            }
        }
        outlet.leave(reader.generation);
    });
}

/// One call from its start to the end of its handler.
async fn supervise<H: Handler>(
    handler: Arc<H>,
    call: Call,
    admission: Admission,
    outlet: Arc<Outlet>,
    place: Place,
) {
    let (raw, revision, handle) = (call.request_id.clone(), call.client.revision, call.handle.clone());
    let mut work = std::pin::pin!(handler::run(handler, call));
    let answer = tokio::select! {
        biased;
        // Its client has ended it: the response ends now, however long the handler takes to clean up.
        _ = handle.silenced() => {
            outlet.abort();
            work.await
        }
        answer = work.as_mut() => answer,
    };
    let free = || place.session.in_flight.remove(&place.id, &handle);
    let delivery = outlet.answer(&handle, answer.encode(&raw, revision), free);
    // Also where the client had ended it, or its handler had.
    place.session.in_flight.remove(&place.id, &handle);
    place.session.ended(place.stream);
    tell(answer, delivery);
    drop(admission);
}
