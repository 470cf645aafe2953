//! Cancels of a request whose body is half sent: case 6.

use crate::{
    over_all,
    points::until,
    points_early::{bound, connected},
    stage::{Caller, Door, Stage},
};
use serde_json::json;
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::AsyncReadExt as _,
    net::{TcpListener, TcpStream},
};

/// How `/proc/net/tcp` calls a connection that is open, or not yet quite closed.
const OPEN: &[&str] = &["01", "04", "05"];

/// An upstream that reads as little as it is told: its window stays shut, so that a long body cannot all be sent.
fn short_of_breath() -> (TcpListener, SocketAddr) {
    let socket = bound();
    socket.set_recv_buffer_size(4096).unwrap();
    let listener = socket.listen(16).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// More than all buffers on its way: the kernel takes 4 MiB at most.
const LONG: usize = 8 << 20;

/// A stage with an upload of a long body, which gets stuck at its upstream's receive buffer.
async fn with_upload(address: SocketAddr) -> Stage {
    let upstream = format!(
        "  stuck: {{ http: {{ base_url: \"http://{address}\", read_timeout: 3s }} }}\nlimits: {{ message: 16MiB }}\n"
    );
    let tool = "
  upload: { input: *input, upstream: stuck, http: { request: POST /upload, effect: none, body: \"${args.tag}\" } }
";
    Stage::with_more(&upstream, tool).await
}

/// Accepts the upload, and reads no more than the beginning of its body.
async fn half_sent(listener: &TcpListener) -> (TcpStream, Vec<u8>) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut received = Vec::new();
    while !received.ends_with(b"xxx") {
        stream.read_buf(&mut received).await.unwrap();
    }
    (stream, received)
}

over_all! {
    /// Case 6: hyper flushes a connection before it closes it, so a body that it was given whole would all be sent.
    async fn a_body_that_is_half_sent_is_not_sent_to_its_end(door) {
        let (listener, address) = short_of_breath();
        let stage = with_upload(address).await;
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "upload", json!({ "tag": "x".repeat(LONG) })).await;
        let (mut stream, mut received) = half_sent(&listener).await;
        caller.cancel_and_listen(pending).await;
        caller.barrier().await;
        // Up to its end, which is a FIN behind what the kernel had already taken, or a RST.
        let ended = async { while stream.read_buf(&mut received).await.unwrap_or(0) > 0 {} };
        tokio::time::timeout(Duration::from_secs(10), ended).await.expect("the connection is broken off");
        assert!(received.len() < LONG, "{} bytes of the body came", received.len());
        caller.works().await;
        stage.finish(caller, &[1]).await;
    }
}

over_all! {
    /// Case 6, C: the upstream reads nothing more, ever.
    async fn a_half_sent_request_whose_upstream_hangs_does_not_keep_its_connection(door) {
        let (listener, address) = short_of_breath();
        let stage = with_upload(address).await;
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "upload", json!({ "tag": "x".repeat(LONG) })).await;
        let (_stream, _received) = half_sent(&listener).await;
        caller.cancel_and_listen(pending).await;
        caller.barrier().await;
        until("the connection is gone", || !connected(address, OPEN)).await;
        caller.works().await;
        stage.finish(caller, &[1]).await;
    }
}
