//! One call over HTTP: what it is made of, how its response begins, and the supervisor of one that stands alone. It
//! sees the client leave whether or not anybody polls the body.

use super::body::{Body, CallBody, Gone, Head, Outlet};
use super::exchange::{Exchange, status_of};
use super::guard::Shape;
use crate::calls::Admission;
use crate::client::Asks;
use crate::params::Asked as Params;
use crate::{
    Answer, Backchannel, Call, Client, Delivery, Handler, Level, Log, Presence, Progress, RpcError, handler,
};
use countermand_core::Cause;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{Response, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout};
use tokio_util::sync::CancellationToken;

/// A call that has been let in, and its way out.
pub(super) struct Asked {
    pub(super) call: Call,
    pub(super) admission: Admission,
    pub(super) outlet: Arc<Outlet>,
    pub(super) body: CallBody,
}

/// Who calls, and what goes for all calls of that client.
pub(super) struct Caller {
    pub(super) client: Client,
    pub(super) level: Option<Level>,
    pub(super) presence: Presence,
    /// Where its answers to our questions arrive, if it can be asked any.
    pub(super) asks: Option<Arc<Asks>>,
}

impl Asked {
    /// Lets a call in that stands alone.
    pub(super) fn alone<H: Handler>(exchange: &Exchange<'_, H>) -> Result<Self, RpcError> {
        let door = exchange.door;
        let params = exchange.params.asked(&exchange.request.method)?;
        if !params.tool.is_empty() {
            door.annotations.check(door.handler.tools(), &params.tool, params.arguments, exchange.headers)?;
        }
        let level = exchange.params.log_level()?;
        let client = door.alone(exchange.revision, exchange.params);
        let admission = door.calls.admit(&client.principal)?;
        // It is asked by results that require input.
        let caller = Caller { client, level, presence: Presence::constant(), asks: None };
        Ok(Self::of(exchange, params, admission, Outlet::new(exchange.shape), caller))
    }

    pub(super) fn of<H: Handler>(
        exchange: &Exchange<'_, H>,
        asked: Params<'_>,
        admission: Admission,
        (outlet, body): (Arc<Outlet>, CallBody),
        caller: Caller,
    ) -> Self {
        let (request, params) = (exchange.request, exchange.params);
        let handle = admission.handle.clone();
        // One JSON object has no room for notifications.
        let sink = || (exchange.shape == Shape::Events).then(|| Arc::clone(&outlet) as _);
        let progress = params.progress_token().zip(sink());
        let log = caller.level.zip(sink());
        let back = sink().map(|sink| Backchannel::of_call(handle.clone(), sink, caller.asks));
        let call = Call {
            method: request.method.clone().into_owned(),
            tool: asked.tool.into_owned(),
            arguments: asked.arguments.map(ToOwned::to_owned),
            meta: params.meta().map(ToOwned::to_owned),
            extra: asked.extra,
            progress: progress.map(|(token, sink)| Progress::new(handle.clone(), token, sink)),
            log: log.map(|(level, sink)| Log::new(handle.clone(), level, sink)),
            presence: caller.presence,
            back: back.unwrap_or_else(Backchannel::nowhere),
            client: caller.client,
            request_id: request.id.to_owned(),
            handle,
        };
        Self { call, admission, outlet, body }
    }

    /// Starts a call that stands alone, and begins its response.
    pub(super) async fn respond<H: Handler>(
        self,
        exchange: &Exchange<'_, H>,
        closed: CancellationToken,
    ) -> Result<Response<Body>, Gone> {
        let Self { call, admission, outlet, body } = self;
        let (tasks, handler) = (admission.tasks(), exchange.door.handler.clone());
        let reader = Reader { generation: body.generation(), closed };
        tasks.spawn(supervise(handler, call, admission, outlet, reader, exchange.door.options.keep_alive));
        begin(body, exchange.door.options.early_headers, exchange.shape, |code| {
            status_of(code, StatusCode::OK)
        })
        .await
    }
}

/// Waits a moment for what the call has to say, so that a quick failure keeps its status, and begins the response:
/// with headers alone if the call takes its time. `status` is that of an error with such a code.
pub(super) async fn begin(
    mut body: CallBody,
    early: Duration,
    shape: Shape,
    status: impl Fn(i64) -> StatusCode,
) -> Result<Response<Body>, Gone> {
    let _ = timeout(early, body.ready()).await;
    match body.head() {
        Head::Gone => Err(Gone),
        Head::Nothing => Ok(super::exchange::accepted()),
        Head::Stream => Ok(headed(StatusCode::OK, shape, Body::Call(body))),
        Head::Whole(error) => {
            let status = error.map_or(StatusCode::OK, status);
            // A failure that has a status of its own is no stream.
            let shape = if status == StatusCode::OK { shape } else { Shape::Json };
            Ok(headed(status, shape, Body::Whole(body.whole(shape))))
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

/// The connection that a response is read over.
pub(super) struct Reader {
    pub(super) generation: u64,
    /// Trips when the peer has closed it.
    pub(super) closed: CancellationToken,
}

impl Reader {
    /// Waits until nobody can read there any more.
    pub(super) async fn gone(&self, outlet: &Outlet) {
        tokio::select! {
            () = self.closed.cancelled() => {}
            () = outlet.left(self.generation) => {}
        }
    }
}

/// The ticks of signs of life.
pub(super) fn ticks(keep_alive: Duration) -> Interval {
    let mut ticks = interval_at(Instant::now() + keep_alive, keep_alive);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Tells a handler what became of its answer, if it wants to know.
pub(super) fn tell(answer: Answer, delivery: Delivery) {
    if let Some(delivered) = answer.delivered {
        let _unheard = delivered.send(delivery);
    }
}

enum Event {
    Answered(Answer),
    ClientLeft,
    Tick,
}

/// One call that stands alone, from its start to the end of its handler, whatever becomes of the client.
async fn supervise<H: Handler>(
    handler: Arc<H>,
    call: Call,
    admission: Admission,
    outlet: Arc<Outlet>,
    reader: Reader,
    keep_alive: Duration,
) {
    let (id, revision) = (call.request_id.clone(), call.client.revision);
    let mut work = std::pin::pin!(handler::run(handler, call));
    let mut ticks = ticks(keep_alive);
    let mut there = true;
    let answer = loop {
        let event = tokio::select! {
            // A client that has left is noticed before an answer that it will not read.
            biased;
            () = reader.gone(&outlet), if there => Event::ClientLeft,
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
    let delivery = outlet.answer(&admission.handle, answer.encode(&id, revision), || ());
    tell(answer, delivery);
}
