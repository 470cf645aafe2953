//! One call over HTTP: its supervisor, which sees the client leave whether or not anybody polls the body.

use super::body::{Body, Gone, Head, Outlet, event};
use super::exchange::{Exchange, status_of};
use super::guard::Shape;
use crate::calls::Admission;
use crate::{Answer, Call, Handler, Progress, RpcError, TransportKind, handler};
use bytes::Bytes;
use countermand_core::Cause;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{Response, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_util::sync::CancellationToken;

/// What one call is made of.
pub(super) struct Asked {
    pub(super) call: Call,
    pub(super) admission: Admission,
    pub(super) outlet: Arc<Outlet>,
    pub(super) body: super::body::CallBody,
}

impl Asked {
    /// Takes the call in and gives it its way out.
    pub(super) fn admit<H: Handler>(exchange: &Exchange<'_, H>) -> Result<Self, RpcError> {
        let (door, request, params) = (exchange.door, exchange.request, exchange.params);
        let tool = params.tool_call()?;
        door.annotations.check(door.handler.tools(), &tool.name, tool.arguments, exchange.headers)?;
        let admission = door.calls.admit(&door.options.principal)?;
        let handle = admission.handle.clone();
        let (outlet, body) = Outlet::new(exchange.shape);
        // One JSON object has no room for notifications.
        let token = params.progress_token().filter(|_| exchange.shape == Shape::Events);
        let progress = token.map(|token| Progress::new(handle.clone(), token, Arc::clone(&outlet) as _));
        let call = Call {
            handle,
            tool: tool.name.into_owned(),
            arguments: tool.arguments.map(ToOwned::to_owned),
            meta: params.meta().map(ToOwned::to_owned),
            extra: tool.extra,
            progress,
            principal: door.options.principal.clone(),
            session: None,
            request_id: request.id.to_owned(),
            revision: exchange.revision,
            transport: TransportKind::Http,
        };
        Ok(Self { call, admission, outlet, body })
    }

    /// Starts the call and answers with whatever it has to say, with early headers if it takes its time.
    pub(super) async fn respond<H: Handler>(
        self,
        handler: Arc<H>,
        closed: CancellationToken,
        early: Duration,
        keep_alive: Duration,
        shape: Shape,
    ) -> Result<Response<Body>, Gone> {
        let Self { call, admission, outlet, body } = self;
        let tasks = admission.tasks();
        tasks.spawn(supervise(handler, call, admission, outlet, closed, keep_alive));
        let _ = timeout(early, body.ready()).await;
        match body.head() {
            Head::Gone => Err(Gone),
            Head::Stream => Ok(headed(StatusCode::OK, shape, Body::Call(body))),
            Head::Whole(answer) => {
                let status = answer.error.map_or(StatusCode::OK, |code| status_of(code, StatusCode::OK));
                // A failure that has a status of its own is no stream.
                let shape = if status == StatusCode::OK { shape } else { Shape::Json };
                let bytes = match shape {
                    Shape::Events => event(&answer.json),
                    Shape::Json => Bytes::from(answer.json),
                };
                Ok(headed(status, shape, Body::Whole(Some(bytes))))
            }
        }
    }
}

/// A response of that shape.
pub(super) fn headed(status: StatusCode, shape: Shape, body: Body) -> Response<Body> {
    use http::HeaderValue;
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let media = match shape {
        Shape::Json => "application/json",
        Shape::Events => "text/event-stream",
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // For JSON as well: a proxy that buffers keeps the spaces of a slow answer to itself.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

enum Event {
    Answered(Answer),
    ClientLeft,
    Tick,
}

/// One call from its start to the end of its handler, whatever becomes of the client.
async fn supervise<H: Handler>(
    handler: Arc<H>,
    call: Call,
    admission: Admission,
    outlet: Arc<Outlet>,
    closed: CancellationToken,
    keep_alive: Duration,
) {
    let (id, revision) = (call.request_id.clone(), call.revision);
    let mut work = std::pin::pin!(handler::run(handler, call));
    let mut ticks = interval_at(Instant::now() + keep_alive, keep_alive);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut there = true;
    let answer = loop {
        let event = tokio::select! {
            // A client that has left is noticed before an answer that it will not read.
            biased;
            () = closed.cancelled(), if there => Event::ClientLeft,
            () = outlet.dropped(), if there => Event::ClientLeft,
            answer = work.as_mut() => Event::Answered(answer),
            _ = ticks.tick(), if there => Event::Tick,
        };
        match event {
            Event::Answered(answer) => break answer,
            Event::Tick => outlet.keep_alive(),
            Event::ClientLeft => {
                there = false;
                admission.handle.cancel(Cause::ClientDisconnected, None);
                outlet.abort();
            }
        }
    };
    let delivery = outlet.answer(&admission.handle, answer.encode(&id, revision));
    if let Some(delivered) = answer.delivered {
        let _ = delivered.send(delivery);
    }
}
