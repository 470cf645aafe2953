//! HTTP/2 by prior knowledge: a stream that the client resets is a call that it has left; its connection lives on.

mod http_support;

use countermand_core::Cause;
use countermand_mcp::{Delivery, HttpOptions};
use h2::RecvStream;
use h2::client::SendRequest;
use http::{Request, Response};
use http_support::client::Post;
use http_support::{Server, soon};
use tokio::net::TcpStream;
use tokio_util::bytes::Bytes;
use tokio_util::sync::CancellationToken;

struct Client {
    requests: SendRequest<Bytes>,
    /// Closes the connection without a word.
    close: CancellationToken,
}

impl Client {
    async fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address).await.unwrap();
        let (requests, connection) = soon("a handshake", h2::client::handshake(stream)).await.unwrap();
        let (close, closed) = (CancellationToken::new(), CancellationToken::new());
        let asked = close.clone();
        server.tasks.spawn(async move {
            tokio::select! {
                _ = connection => {}
                () = asked.cancelled() => {}
            }
            closed.cancel();
        });
        Self { requests, close }
    }

    async fn send(&mut self, post: &Post) -> h2::client::ResponseFuture {
        let mut request = Request::post("http://localhost/mcp");
        for (name, value) in post.headers.iter().filter(|(name, _)| *name != "Host") {
            request = request.header(*name, value);
        }
        let mut requests = soon("room for a stream", self.requests.clone().ready()).await.unwrap();
        let (response, mut body) = requests.send_request(request.body(()).unwrap(), false).unwrap();
        body.send_data(Bytes::from(post.body.clone()), true).unwrap();
        response
    }

    async fn start(&mut self, post: &Post) -> Response<RecvStream> {
        let response = self.send(post).await;
        soon("headers", response).await.unwrap()
    }
}

async fn text_of(response: Response<RecvStream>) -> String {
    let (mut body, mut text) = (response.into_body(), String::new());
    while let Some(data) = soon("more of a body", body.data()).await {
        text.push_str(std::str::from_utf8(&data.unwrap()).unwrap());
    }
    text
}

#[tokio::test]
async fn a_reset_cancels_its_call_only_and_the_connection_lives_on() {
    for json in [false, true] {
        let mut server = Server::start(HttpOptions { json, ..HttpOptions::default() }).await;
        let mut client = Client::connect(&server).await;
        let left = client.start(&Post::call("held")).await;
        let first = server.held().await;
        let stays = client.start(&Post::call("held")).await;
        let second = server.held().await;
        // Dropping what is received of a stream resets it.
        drop(left);
        assert_eq!(first.cancelled().await, Cause::ClientDisconnected);
        assert_eq!(first.answer("late", false).await, Delivery::Suppressed(Cause::ClientDisconnected));
        assert_eq!(second.handle.cause(), None);
        let handle = second.handle.clone();
        assert_eq!(second.answer("mine", false).await, Delivery::Sent);
        assert!(text_of(stays).await.contains("mine"));
        assert_eq!(handle.cause(), None);
        assert_eq!(client.start(&Post::call("quick")).await.status(), 200);
    }
}

#[tokio::test]
async fn a_reset_before_the_headers_are_sent_cancels_the_call() {
    let mut server = Server::start(HttpOptions::default()).await;
    let mut client = Client::connect(&server).await;
    let response = client.send(&Post::call("held")).await;
    let call = server.held().await;
    drop(response);
    assert_eq!(call.cancelled().await, Cause::ClientDisconnected);
    assert_eq!(call.answer("late", false).await, Delivery::Suppressed(Cause::ClientDisconnected));
}

#[tokio::test]
async fn the_close_of_a_connection_cancels_all_of_its_calls() {
    let mut server = Server::start(HttpOptions::default()).await;
    let mut client = Client::connect(&server).await;
    let mut open = Vec::new();
    for _ in 0..5 {
        let response = client.start(&Post::call("held")).await;
        open.push((response, server.held().await));
    }
    client.close.cancel();
    for (_response, call) in open {
        assert_eq!(call.cancelled().await, Cause::ClientDisconnected);
        assert_eq!(call.answer("late", false).await, Delivery::Suppressed(Cause::ClientDisconnected));
    }
    server.idle().await;
}

#[tokio::test]
async fn a_stop_lets_the_answers_out_and_ends_the_connection() {
    let mut server = Server::start(HttpOptions::default()).await;
    let mut client = Client::connect(&server).await;
    let response = client.start(&Post::call("held")).await;
    let call = server.held().await;
    server.calls.cancel_all(Cause::Shutdown);
    assert_eq!(call.cancelled().await, Cause::Shutdown);
    server.stop.cancel();
    assert_eq!(call.answer("going down", true).await, Delivery::Sent);
    assert!(text_of(response).await.contains("going down"));
    server.ended().await;
}
