//! One HTTP request: what it is, who serves it, and those that stand alone (2026-07-28).

use super::body::{Body, Gone};
use super::call::{Asked, headed};
use super::guard::{self, Shape};
use super::{Door, headers, session};
use crate::message::{self, Message, Request};
use crate::methods::{self, Method, Served};
use crate::params::Params;
use crate::{Handler, Revision, RpcError};
use bytes::{Bytes, BytesMut};
use http::header::{ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Method as Verb, Response, StatusCode, request};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::value::RawValue;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// One request that has been read.
pub(super) struct Exchange<'a, H> {
    pub(super) door: &'a Door<H>,
    pub(super) headers: &'a HeaderMap,
    pub(super) request: &'a Request<'a>,
    pub(super) params: &'a Params<'a>,
    pub(super) revision: Revision,
    pub(super) shape: Shape,
}

/// Why there is no result.
pub(super) enum Refusal {
    Plain(StatusCode, &'static str),
    /// The message is longer than so many bytes.
    TooLarge(usize),
    Rpc(Option<Box<RawValue>>, RpcError),
    /// There is no such session.
    Absent(Option<Box<RawValue>>, RpcError),
    /// A session's client gets every error of a request of its own as an answer: to it a 404 would mean that the
    /// session has ended, and any other status that something between us has failed.
    Answered(Box<RawValue>, RpcError),
    Gone,
}

impl Refusal {
    /// The refusal of the request with that id.
    pub(super) fn of(id: Option<&RawValue>) -> impl Fn(RpcError) -> Self {
        move |error| Self::Rpc(id.map(ToOwned::to_owned), error)
    }
}

impl From<guard::Refused> for Refusal {
    fn from((status, why): guard::Refused) -> Self {
        Self::Plain(status, why)
    }
}

/// Answers one HTTP request. `closed` trips when the peer has closed its connection.
///
/// # Errors
///
/// [`Gone`] if the client has left: the connection, or the stream of it, is to be broken off without a word.
pub(super) async fn serve<H: Handler>(
    door: &Door<H>,
    closed: CancellationToken,
    request: http::Request<Incoming>,
) -> Result<Response<Body>, Gone> {
    let (parts, body) = request.into_parts();
    match respond(door, closed, &parts, body).await {
        Ok(response) => Ok(response),
        Err(Refusal::Gone) => Err(Gone),
        Err(Refusal::Plain(status, why)) => Ok(plain(status, why)),
        Err(Refusal::TooLarge(limit)) => {
            let why = format!("the message is above the limit of {limit} bytes");
            Ok(plain(StatusCode::PAYLOAD_TOO_LARGE, why))
        }
        Err(Refusal::Rpc(id, error)) => {
            Ok(failed(status_of(error.code, StatusCode::BAD_REQUEST), id.as_deref(), &error))
        }
        Err(Refusal::Absent(id, error)) => Ok(failed(StatusCode::NOT_FOUND, id.as_deref(), &error)),
        Err(Refusal::Answered(id, error)) => Ok(failed(StatusCode::OK, Some(&id), &error)),
    }
}

/// Finds out what a request is, and leaves it to a session, or serves it by itself.
async fn respond<H: Handler>(
    door: &Door<H>,
    closed: CancellationToken,
    parts: &request::Parts,
    body: Incoming,
) -> Result<Response<Body>, Refusal> {
    let headers = &parts.headers;
    guard::admit(&parts.uri, headers, door.on_loopback, &door.options)?;
    if parts.uri.path() != door.options.path {
        return Err(Refusal::Plain(StatusCode::NOT_FOUND, "MCP is served at another path"));
    }
    let session = headers::single(headers, headers::SESSION).map_err(Refusal::of(None))?;
    match (&parts.method, session) {
        (&Verb::POST, _) => {}
        (&Verb::GET, Some(session)) => return session::get(door, headers, session, closed),
        (&Verb::DELETE, Some(session)) => return session::delete(door, headers, session),
        (&Verb::GET | &Verb::DELETE, None) => {
            let why = "only POST is served here without an Mcp-Session-Id";
            return Err(Refusal::Plain(StatusCode::METHOD_NOT_ALLOWED, why));
        }
        _ => {
            let why = "only POST, and GET and DELETE in a session, are served here";
            return Err(Refusal::Plain(StatusCode::METHOD_NOT_ALLOWED, why));
        }
    }
    guard::is_json(headers)?;
    let shape = guard::shape(headers, door.options.json)?;
    let bytes = read(headers, body, door.calls.limits().message, door.options.read_timeout).await?;
    let message =
        message::parse(&bytes).map_err(|message::Malformed { id, error }| Refusal::Rpc(id, error))?;
    let params = match &message {
        Message::Request(request) => Params::of(request.params).map_err(Refusal::of(Some(request.id)))?,
        // Malformed ones mean nothing, and are answered by nobody.
        Message::Notification { params, .. } => Params::of(*params).unwrap_or_default(),
        Message::Response(_) => Params::default(),
    };
    match (session, message) {
        (Some(session), message) if !headers::stands_alone(headers, &params) => {
            session::post(door, headers, session, message, shape, closed).await
        }
        (_, Message::Request(request)) => {
            if request.method == "initialize" && !headers::stands_alone(headers, &params) {
                let opened = session::open(door, &request, &params, &closed).await;
                return opened.map_err(Refusal::of(Some(request.id)));
            }
            alone(door, closed, headers, &request, &params, shape).await
        }
        // The only one there is, a cancel, has no meaning here: closing the response is the cancel.
        (_, Message::Notification { .. }) if headers::stands_alone(headers, &params) => Ok(accepted()),
        (_, Message::Notification { .. }) => {
            let why = "Invalid request: a notification belongs to a session; its Mcp-Session-Id is missing";
            Err(Refusal::Rpc(None, RpcError::invalid_request(why)))
        }
        (_, Message::Response(_)) => {
            let why = "Invalid request: an answer belongs to a session; its Mcp-Session-Id is missing";
            Err(Refusal::Rpc(None, RpcError::invalid_request(why)))
        }
    }
}

/// Serves a request that stands alone.
async fn alone<H: Handler>(
    door: &Door<H>,
    closed: CancellationToken,
    headers: &HeaderMap,
    request: &Request<'_>,
    params: &Params<'_>,
    shape: Shape,
) -> Result<Response<Body>, Refusal> {
    let refuse = Refusal::of(Some(request.id));
    let revision = headers::check(headers, request, params).map_err(&refuse)?;
    let exchange = Exchange { door, headers, request, params, revision, shape };
    let result = match Served::find(&request.method, revision, &*door.handler).map_err(&refuse)? {
        Served::ByHandler => None,
        Served::Here(Method::Discover) => {
            let client = door.alone(revision, params);
            let greeting = closed.run_until_cancelled(door.handler.greet(&client)).await;
            let greeting = greeting.ok_or(Refusal::Gone)?.map_err(&refuse)?;
            Some(methods::discover(&greeting, &door.handler.server_info()))
        }
        Served::Here(method) => {
            methods::answer_at_once(method, params, &*door.handler, revision).map_err(&refuse)?
        }
    };
    if let Some(result) = result {
        return Ok(answered(request.id, &result));
    }
    if closed.is_cancelled() {
        return Err(Refusal::Gone);
    }
    let asked = Asked::alone(&exchange).map_err(&refuse)?;
    asked.respond(&exchange, closed).await.map_err(|Gone| Refusal::Gone)
}

/// Reads a body of bounded length, in bounded time.
async fn read(
    headers: &HeaderMap,
    mut body: Incoming,
    limit: usize,
    patience: Duration,
) -> Result<Bytes, Refusal> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|announced| announced > limit as u64) {
        return Err(Refusal::TooLarge(limit));
    }
    let whole = async {
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| Refusal::Gone)?.into_data() else { continue };
            if bytes.len() + data.len() > limit {
                return Err(Refusal::TooLarge(limit));
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes.freeze())
    };
    match tokio::time::timeout(patience, whole).await {
        Ok(read) => read,
        Err(_) => Err(Refusal::Plain(StatusCode::REQUEST_TIMEOUT, "the body took too long")),
    }
}

/// The status that goes with a JSON-RPC error; `otherwise` for those that have none of their own.
pub(super) fn status_of(code: i64, otherwise: StatusCode) -> StatusCode {
    match code {
        RpcError::PARSE_ERROR
        | RpcError::INVALID_REQUEST
        | RpcError::HEADER_MISMATCH
        | RpcError::MISSING_CAPABILITY
        | RpcError::UNSUPPORTED_REVISION => StatusCode::BAD_REQUEST,
        RpcError::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        RpcError::TOO_MANY_CALLS => StatusCode::TOO_MANY_REQUESTS,
        RpcError::SHUTTING_DOWN => StatusCode::SERVICE_UNAVAILABLE,
        _ => otherwise,
    }
}

/// A failure that the wire itself found.
fn failed(status: StatusCode, id: Option<&RawValue>, error: &RpcError) -> Response<Body> {
    let json = message::write_error(id, error);
    let mut response = headed(status, Shape::Json, Body::Whole(Some(Bytes::from(json))));
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// A result that was there at once.
pub(super) fn answered(id: &RawValue, result: &str) -> Response<Body> {
    let json = message::write_result(id, result);
    headed(StatusCode::OK, Shape::Json, Body::Whole(Some(Bytes::from(json))))
}

pub(super) fn accepted() -> Response<Body> {
    let mut response = Response::new(Body::Whole(None));
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

fn plain(status: StatusCode, why: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::Whole(Some(why.into())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    match status {
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(ALLOW, HeaderValue::from_static("POST"));
        }
        // The rest of the body is not read, so nothing can follow it.
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        _ => {}
    }
    response
}
