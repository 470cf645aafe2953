//! One request of 2026-07-28 and its response. Every request stands alone.

use super::body::{Body, Gone};
use super::call::{Asked, headed};
use super::guard::{self, Shape};
use super::{Door, headers};
use crate::message::{self, Message, Request};
use crate::methods::{self, Method};
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
enum Refusal {
    Plain(StatusCode, &'static str),
    Rpc(Option<Box<RawValue>>, RpcError),
    Gone,
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
        Err(Refusal::Rpc(id, error)) => Ok(failed(id.as_deref(), &error)),
    }
}

async fn respond<H: Handler>(
    door: &Door<H>,
    closed: CancellationToken,
    parts: &request::Parts,
    body: Incoming,
) -> Result<Response<Body>, Refusal> {
    guard::admit(&parts.uri, &parts.headers, door.on_loopback, &door.options)?;
    if parts.uri.path() != door.options.path {
        return Err(Refusal::Plain(StatusCode::NOT_FOUND, "MCP is served at another path"));
    }
    if parts.method != Verb::POST {
        return Err(Refusal::Plain(StatusCode::METHOD_NOT_ALLOWED, "only POST is served here"));
    }
    guard::is_json(&parts.headers)?;
    let shape = guard::shape(&parts.headers, door.options.json)?;
    let bytes = read(&parts.headers, body, door.calls.limits().message, door.options.read_timeout).await?;
    let request = match message::parse(&bytes) {
        Err(malformed) => return Err(Refusal::Rpc(malformed.id, malformed.error)),
        // The only one there is, a cancel, has no meaning here: closing the response is the cancel.
        Ok(Message::Notification { .. }) => return Ok(accepted()),
        Ok(Message::Response) => {
            let why = "Invalid request: this server asks nothing, so nothing can be answered";
            return Err(Refusal::Rpc(None, RpcError::invalid_request(why)));
        }
        Ok(Message::Request(request)) => request,
    };
    let refuse = |error| Refusal::Rpc(Some(request.id.to_owned()), error);
    let params = Params::of(request.params).map_err(refuse)?;
    let revision = headers::check(&parts.headers, &request, &params).map_err(refuse)?;
    let exchange =
        Exchange { door, headers: &parts.headers, request: &request, params: &params, revision, shape };
    match exchange.result().map_err(refuse)? {
        Some(result) => {
            let json = message::write_result(request.id, &result);
            Ok(headed(StatusCode::OK, Shape::Json, Body::Whole(Some(Bytes::from(json)))))
        }
        None if closed.is_cancelled() => Err(Refusal::Gone),
        None => {
            let asked = Asked::admit(&exchange).map_err(refuse)?;
            let (early, keep_alive) = (door.options.early_headers, door.options.keep_alive);
            let handler = door.handler.clone();
            asked.respond(handler, closed, early, keep_alive, shape).await.map_err(|Gone| Refusal::Gone)
        }
    }
}

impl<H: Handler> Exchange<'_, H> {
    /// The result of a method that is answered at once; `None` for a call.
    fn result(&self) -> Result<Option<String>, RpcError> {
        let (door, info) = (self.door, || self.door.handler.server_info());
        match Method::find(&self.request.method, self.revision)? {
            Method::CallTool => Ok(None),
            Method::Discover => Ok(Some(methods::discover(&info(), &headers::SUPPORTED))),
            Method::ListTools => {
                methods::list_tools(self.params, &door.handler.tools(), &info(), self.revision).map(Some)
            }
            Method::Initialize | Method::Ping => Err(RpcError::method_not_found(&self.request.method)),
        }
    }
}

/// Reads a body of bounded length, in bounded time.
async fn read(
    headers: &HeaderMap,
    mut body: Incoming,
    limit: usize,
    patience: Duration,
) -> Result<Bytes, Refusal> {
    let too_large =
        Refusal::Plain(StatusCode::PAYLOAD_TOO_LARGE, "the message is longer than this server takes");
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|announced| announced > limit as u64) {
        return Err(too_large);
    }
    let whole = async {
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| Refusal::Gone)?.into_data() else { continue };
            if bytes.len() + data.len() > limit {
                return Err(too_large);
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
fn failed(id: Option<&RawValue>, error: &RpcError) -> Response<Body> {
    let status = status_of(error.code, StatusCode::BAD_REQUEST);
    let json = message::write_error(id, error);
    let mut response = headed(status, Shape::Json, Body::Whole(Some(Bytes::from(json))));
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

fn accepted() -> Response<Body> {
    let mut response = Response::new(Body::Whole(None));
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

fn plain(status: StatusCode, why: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::Whole(Some(Bytes::from_static(why.as_bytes()))));
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
