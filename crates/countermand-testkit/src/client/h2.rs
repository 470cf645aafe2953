//! The raw client over HTTP/2 with prior knowledge: many exchanges on one connection, each of which can be reset alone.

use super::{HttpClient, message, soon};
use bytes::Bytes;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// One HTTP/2 connection.
pub struct H2Client {
    requests: h2::client::SendRequest<Bytes>,
    endpoint: HttpClient,
    _connection: AbortOnDropHandle<()>,
}

/// One exchange on it. Dropping it resets its stream with CANCEL, and leaves the connection.
pub struct H2Exchange {
    _sending: h2::SendStream<Bytes>,
    response: Option<h2::client::ResponseFuture>,
    body: Option<h2::RecvStream>,
}

impl H2Client {
    /// Connects.
    ///
    /// # Panics
    /// Where there is no connection, or it speaks no HTTP/2.
    pub async fn connect(url: &str) -> Self {
        let endpoint = HttpClient::new(url);
        let stream = match soon("a connection", TcpStream::connect(endpoint.address())).await {
            Ok(stream) => stream,
            Err(error) => panic!("no connection to {url}: {error}"),
        };
        let (requests, connection) = match soon("an HTTP/2 handshake", h2::client::handshake(stream)).await {
            Ok(connected) => connected,
            Err(error) => panic!("{url} speaks no HTTP/2: {error}"),
        };
        let driver = TaskTracker::new().spawn(async move {
            let _ended = connection.await;
        });
        Self { requests, endpoint, _connection: AbortOnDropHandle::new(driver) }
    }

    /// Sends a request of 2026-07-28.
    ///
    /// # Panics
    /// Where the connection is gone.
    pub async fn request(&mut self, request: &Value) -> H2Exchange {
        let request = message::stateless(request.clone());
        let uri = format!("http://{}{}", self.endpoint.address(), self.endpoint.path());
        let mut head = http::Request::post(uri)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", request["method"].as_str().unwrap_or_default());
        if let Some(name) = request["params"]["name"].as_str() {
            head = head.header("mcp-name", name);
        }
        let sent = async {
            let mut ready = self.requests.clone().ready().await.ok()?;
            let (response, mut sending) = ready.send_request(head.body(()).ok()?, false).ok()?;
            sending.send_data(Bytes::from(request.to_string()), true).ok()?;
            Some((response, sending))
        };
        match soon("room for a request", sent).await {
            Some((response, sending)) => {
                H2Exchange { _sending: sending, response: Some(response), body: None }
            }
            None => panic!("the HTTP/2 connection is gone"),
        }
    }
}

impl H2Exchange {
    /// The status code of the response.
    ///
    /// # Panics
    /// Where the stream ends before it.
    pub async fn status(&mut self) -> u16 {
        let Some(response) = self.response.take() else { panic!("the status was read before") };
        match soon("a response", response).await {
            Ok(response) => {
                let status = response.status().as_u16();
                self.body = Some(response.into_body());
                status
            }
            Err(error) => panic!("the stream ended without a response: {error}"),
        }
    }

    /// The whole body, as text.
    pub async fn text(&mut self) -> String {
        let mut text = Vec::new();
        if let Some(body) = &mut self.body {
            while let Some(Ok(data)) = soon("more of a body", body.data()).await {
                let _window = body.flow_control().release_capacity(data.len());
                text.extend_from_slice(&data);
            }
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Resets the stream (CANCEL).
    pub fn reset(mut self) {
        self._sending.send_reset(h2::Reason::CANCEL);
    }
}
