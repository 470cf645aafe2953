//! The HTTP requests of sessions: POST, GET and DELETE.

use super::call::{InSession, attend};
use super::{Busy, STANDING, Session, Sessions};
use crate::http::Door;
use crate::http::body::{Body, Outlet};
use crate::http::call::{Reader, headed};
use crate::http::exchange::{Exchange, Refusal, accepted, answered};
use crate::http::guard::{self, Shape};
use crate::http::headers::{self, SESSION};
use crate::message::{Message, Request};
use crate::methods::{self, Method, Served};
use crate::params::{self, Params};
use crate::{Handler, Revision, RpcError};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::value::RawValue;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const LAST_EVENT_ID: &str = "Last-Event-ID";

/// Answers `initialize`: a session begins, unless the handler refuses its client, or that goes first.
pub(crate) async fn open<H: Handler>(
    door: &Door<H>,
    request: &Request<'_>,
    params: &Params<'_>,
    closed: &CancellationToken,
) -> Result<Response<Body>, RpcError> {
    let revision = methods::introduced(params)?;
    let session = door.sessions.open(revision, request.params.unwrap_or(RawValue::NULL))?;
    let _busy = session.busy();
    let client = session.client();
    let greeting = match closed.run_until_cancelled(door.handler.greet(&client)).await {
        Some(Ok(greeting)) => greeting,
        refused => {
            door.sessions.end(&session);
            let gone = || RpcError::invalid_request("Invalid request: its client has gone");
            return Err(refused.and_then(Result::err).unwrap_or_else(gone));
        }
    };
    let result = methods::initialize(revision, &greeting, &door.handler.server_info());
    tracing::debug!(session = session.name, %revision, "a session has begun");
    let mut response = answered(request.id, &result);
    if let Ok(id) = HeaderValue::from_str(&session.id) {
        response.headers_mut().insert(SESSION, id);
    }
    Ok(response)
}

/// The session that a request belongs to, which shows that its client is there.
fn entered(
    sessions: &Sessions,
    headers: &HeaderMap,
    id: &str,
    request: Option<&RawValue>,
) -> Result<(Arc<Session>, Busy), Refusal> {
    let Some(session) = sessions.find(id) else {
        let why = "Session not found: it has ended or expired; send `initialize` to begin a new one";
        return Err(Refusal::Absent(request.map(ToOwned::to_owned), RpcError::invalid_request(why)));
    };
    // What a client repeats of the revision has to be one of a session's; which one was settled when it began.
    if let Some(version) = headers::single(headers, headers::VERSION).map_err(Refusal::of(request))?
        && Revision::from_date(version).is_none_or(Revision::is_stateless)
    {
        let error = RpcError::unsupported_revision(version, &[session.revision]);
        return Err(Refusal::Rpc(request.map(ToOwned::to_owned), error));
    }
    let busy = session.seen();
    Ok((session, busy))
}

/// Serves one message of a session's client.
pub(crate) async fn post<H: Handler>(
    door: &Door<H>,
    headers: &HeaderMap,
    id: &str,
    message: Message<'_>,
    shape: Shape,
    closed: CancellationToken,
) -> Result<Response<Body>, Refusal> {
    let request = match &message {
        Message::Request(request) => Some(request.id),
        _ => None,
    };
    let (session, _busy) = entered(&door.sessions, headers, id, request)?;
    let request = match message {
        Message::Request(request) => request,
        Message::Notification { method, params } => {
            if method == "notifications/cancelled" {
                // One that is malformed means nothing.
                if let Some((id, reason)) = params::cancelled(params) {
                    session.in_flight.cancel(&id, reason);
                }
            } else {
                door.handler.notified(&session.client(), &method, params);
            }
            return Ok(accepted());
        }
        Message::Response(response) => {
            session.asks.answered(&response);
            return Ok(accepted());
        }
    };
    let refuse = |error| Refusal::Answered(request.id.to_owned(), error);
    let params = Params::of(request.params).map_err(refuse)?;
    let revision = session.revision;
    let exchange = Exchange { door, headers, request: &request, params: &params, revision, shape };
    let served = Served::find(&request.method, revision, &*door.handler).map_err(refuse)?;
    if request.method == "logging/setLevel" {
        session.set_level(params.level().map_err(refuse)?);
    }
    let result = match served {
        Served::ByHandler => None,
        Served::Here(Method::Initialize) => {
            let why = "Invalid request: this session is initialized already";
            return Err(refuse(RpcError::invalid_request(why)));
        }
        Served::Here(Method::SetLevel) => Some("{}".to_owned()),
        Served::Here(method) => {
            methods::answer_at_once(method, &params, &*door.handler, revision).map_err(refuse)?
        }
    };
    if let Some(result) = result {
        return Ok(answered(request.id, &result));
    }
    let call = InSession::admit(&exchange, &session).map_err(refuse)?;
    call.respond(&exchange, closed).await.map_err(|_gone| Refusal::Gone)
}

/// Ends a session, with all that runs in it.
pub(crate) fn delete<H: Handler>(
    door: &Door<H>,
    headers: &HeaderMap,
    id: &str,
) -> Result<Response<Body>, Refusal> {
    let (session, _busy) = entered(&door.sessions, headers, id, None)?;
    door.sessions.end(&session);
    tracing::debug!(session = session.name, "a session was ended by its client");
    let mut response = Response::new(Body::Whole(None));
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// Opens a stream: with `Last-Event-ID` the rest of a response, else one for what the server has to say by itself.
pub(crate) fn get<H: Handler>(
    door: &Door<H>,
    headers: &HeaderMap,
    id: &str,
    closed: CancellationToken,
) -> Result<Response<Body>, Refusal> {
    if guard::shape(headers, false)? != Shape::Events {
        let why = "Accept must list text/event-stream";
        return Err(Refusal::Plain(StatusCode::NOT_ACCEPTABLE, why));
    }
    let last = headers::single(headers, LAST_EVENT_ID).map_err(Refusal::of(None))?;
    let (session, busy) = entered(&door.sessions, headers, id, None)?;
    let (stream, position) = match last {
        None => (Some(STANDING), session.standing.read_to()),
        Some(last) => event(last).map_or((None, 0), |(stream, position)| (Some(stream), position)),
    };
    let Some(outlet) = stream.and_then(|stream| session.stream(stream)) else {
        let why = "Invalid request: no response with that event is kept here; it was read to its end, or is too old";
        return Err(Refusal::Rpc(None, RpcError::invalid_request(why)));
    };
    if !outlet.has_more_after(position) {
        // There is nothing to come back for, which this status says to any client of event streams.
        let mut response = Response::new(Body::Whole(None));
        *response.status_mut() = StatusCode::NO_CONTENT;
        return Ok(response);
    }
    let body = outlet.read_after(position, Shape::Events);
    let reader = Reader { generation: body.generation(), closed };
    if stream == Some(STANDING) {
        end_with(door, &session, Arc::clone(&outlet), reader.generation, busy);
    }
    attend(&door.tasks, outlet, reader, door.options.keep_alive);
    Ok(headed(StatusCode::OK, Shape::Events, Body::Call(body)))
}

/// A stream of what is said beside requests ends with its session, or with us.
fn end_with<H: Handler>(
    door: &Door<H>,
    session: &Arc<Session>,
    outlet: Arc<Outlet>,
    generation: u64,
    busy: Busy,
) {
    let (stop, ended) = (door.stop.clone(), session.ended.clone());
    door.tasks.spawn(async move {
        tokio::select! {
            () = outlet.left(generation) => {}
            () = ended.cancelled() => outlet.abort(),
            () = stop.cancelled() => outlet.abort(),
        }
        drop(busy);
    });
}

/// The two parts of an event's id.
fn event(id: &str) -> Option<(u64, u64)> {
    let (stream, position) = id.split_once('-')?;
    Some((stream.parse().ok()?, position.parse().ok()?))
}
