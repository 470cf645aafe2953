//! Against whole servers, ours and those of `rmcp`, in every revision.

use crate::http_support::Server;
use crate::stdio_support::Bed;
use crate::support::http::{Between, target};
use crate::support::{ask, call, introduction, lost, next, result, soon};
use crate::theirs;
use countermand_core::Cause;
use countermand_mcp::{CancelFate, Happened, HttpOptions, Lost, Peer, PeerOptions, Revision, Target};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

async fn connect(target: Target, prefer: Revision) -> Peer {
    let connecting = Peer::connect(target, introduction(prefer), PeerOptions::default());
    let (peer, _heard) = soon("a connection", connecting).await.unwrap();
    assert_eq!(peer.hello().revision, prefer);
    peer
}

async fn on_streams(
    read: impl AsyncRead + Send + Unpin + 'static,
    write: impl AsyncWrite + Send + Unpin + 'static,
    prefer: Revision,
) -> Peer {
    connect(Target::Streams { read: Box::new(read), write: Box::new(write) }, prefer).await
}

async fn over_http(address: SocketAddr, prefer: Revision) -> Peer {
    connect(Target::Http(target(address)), prefer).await
}

/// What a cancel comes to over HTTP in that revision.
fn fate(revision: Revision) -> CancelFate {
    if revision.is_stateless() { CancelFate::StreamClosed } else { CancelFate::Acknowledged }
}

#[tokio::test]
async fn our_own_server_on_streams_is_listed_called_and_cancelled() {
    for revision in Revision::ALL {
        let mut bed = Bed::new();
        let (spare, _) = tokio::io::duplex(1);
        let read = std::mem::replace(&mut bed.output, tokio::io::BufReader::new(spare)).into_inner();
        let peer = on_streams(read, bed.input.take().unwrap(), revision).await;
        assert!(peer.hello().server_info.as_ref().unwrap().get().contains("bench"));
        let tools = result(&mut peer.request(ask("tools/list", &[]))).await;
        assert!(tools.contains(r#""name":"held""#), "{tools}");

        let mut pending = peer.request(call("held"));
        let held = bed.next_held().await;
        assert_eq!(held.call.arguments.as_ref().unwrap().get(), r#"{"a" : 1.0}"#);
        assert_eq!(held.call.client.revision, revision);
        held.call.progress.as_ref().unwrap().send(1.0, Some(2.0), None);
        let Happened::Progress(note) = next(&mut pending).await else { panic!("no progress") };
        assert_eq!((note.progress, note.total), (1.0, Some(2.0)));
        held.answer("yes").await;
        assert!(result(&mut pending).await.contains(r#""text":"yes""#));

        let mut pending = peer.request(call("held"));
        let held = bed.next_held().await;
        let mut receipt = pending.cancel(Some("enough"));
        assert_eq!(held.cancelled().await, (Cause::ClientCancelled, Some("enough".into())));
        assert_eq!(receipt.fate().await, CancelFate::Written);
        held.release("late");

        let pending = peer.request(call("held"));
        let held = bed.next_held().await;
        drop(pending);
        assert_eq!(held.cancelled().await, (Cause::ClientCancelled, None));
        held.release("late");
        assert!(result(&mut peer.request(call("quick"))).await.contains("quick"));
        soon("the close", peer.close(Duration::from_secs(10))).await;
        bed.end().await;
    }
}

#[tokio::test]
async fn our_own_server_over_http_is_listed_called_and_cancelled() {
    for revision in Revision::ALL {
        let mut server = Server::start(HttpOptions::default()).await;
        let peer = over_http(server.address, revision).await;
        let tools = result(&mut peer.request(ask("tools/list", &[]))).await;
        assert!(tools.contains(r#""name":"mirrored""#), "{tools}");

        let mut pending = peer.request(call("held"));
        let held = server.held().await;
        assert_eq!(
            (held.client.revision, held.client.session.is_some()),
            (revision, !revision.is_stateless())
        );
        held.progress.as_ref().unwrap().send(1.0, None, Some("on"));
        let Happened::Progress(note) = next(&mut pending).await else { panic!("no progress") };
        assert_eq!((note.progress, note.message.as_deref()), (1.0, Some("on")));
        held.answer("yes", false).await;
        assert!(result(&mut pending).await.contains(r#""text":"yes""#));

        let mut pending = peer.request(call("held"));
        let held = server.held().await;
        let mut receipt = pending.cancel(None);
        let cause = if revision.is_stateless() { Cause::ClientDisconnected } else { Cause::ClientCancelled };
        assert_eq!(held.cancelled().await, cause);
        assert_eq!(soon("a fate", receipt.fate()).await, fate(revision));
        held.answer("late", false).await;
        let lost = lost(&mut pending).await;
        assert_eq!(lost, if revision.is_stateless() { Lost::Cancelled } else { Lost::Ended });

        let pending = peer.request(call("held"));
        let held = server.held().await;
        drop(pending);
        assert_eq!(held.cancelled().await, cause);
        held.answer("late", false).await;

        let pending = peer.request(call("held"));
        let held = server.held().await;
        soon("the close", peer.close(Duration::from_secs(10))).await;
        held.cancelled().await;
        held.answer("late", false).await;
        drop(pending);
        server.idle().await;
        server.stop.cancel();
        server.ended().await;
    }
}

#[tokio::test]
async fn a_mirrored_argument_is_sent_in_its_header() {
    let server = Server::start(HttpOptions::default()).await;
    let peer = over_http(server.address, Revision::V2026_07_28).await;
    let mut mirrored =
        ask("tools/call", &[("name", "\"mirrored\""), ("arguments", "{\"region\":\"Gr\u{fc}n \"}")]);
    mirrored.headers = vec![("Mcp-Param-Region".into(), "Gr\u{fc}n ".into()), ("Host".into(), "evil".into())];
    // The tool does not exist for the handler; the headers were good, or it would not have been asked.
    let error = crate::support::answer(&mut peer.request(mirrored.clone())).await.unwrap_err();
    assert_eq!(error.message, "Unknown tool: mirrored");
    mirrored.headers.clear();
    let error = crate::support::answer(&mut peer.request(mirrored)).await.unwrap_err();
    assert_eq!(error.code, countermand_mcp::RpcError::HEADER_MISMATCH);
    server.stop.cancel();
}

#[tokio::test]
async fn a_server_of_rmcp_on_streams_is_called_and_cancelled() {
    for revision in Revision::ALL {
        let tasks = TaskTracker::new();
        let (read, write, mut calls) = theirs::on_streams(&tasks);
        let peer = on_streams(read, write, revision).await;
        rounds(&peer, &mut calls, CancelFate::Written).await;
        soon("the close", peer.close(Duration::from_secs(10))).await;
        tasks.close();
        soon("the end of the server", tasks.wait()).await;
    }
}

#[tokio::test]
async fn a_server_of_rmcp_over_http_is_called_and_cancelled() {
    for revision in Revision::ALL {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let (address, mut calls) = theirs::over_http(&tasks, &stop, true).await;
        let peer = over_http(address, revision).await;
        rounds(&peer, &mut calls, fate(revision)).await;
        soon("the close", peer.close(Duration::from_secs(10))).await;
        stop.cancel();
    }
}

#[tokio::test]
async fn a_server_of_rmcp_without_sessions_hears_a_cancel_of_each_revision() {
    for revision in Revision::ALL {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let (address, mut calls) = theirs::over_http(&tasks, &stop, false).await;
        let peer = over_http(address, revision).await;
        rounds(&peer, &mut calls, fate(revision)).await;
        soon("the close", peer.close(Duration::from_secs(10))).await;
        stop.cancel();
    }
}

#[tokio::test]
async fn over_http_2_a_cancel_resets_the_one_stream() {
    let mut server = Server::start(HttpOptions::default()).await;
    let mut target = target(server.address);
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).http2_prior_knowledge();
    target.client = client.build().unwrap();
    let peer = connect(Target::Http(target), Revision::V2026_07_28).await;
    let mut pendings = Vec::new();
    let mut held = Vec::new();
    for _ in 0..3 {
        pendings.push(peer.request(call("held")));
        held.push(server.held().await);
    }
    let mut receipt = pendings[1].cancel(None);
    assert_eq!(held[1].cancelled().await, Cause::ClientDisconnected);
    assert_eq!(soon("a fate", receipt.fate()).await, CancelFate::StreamClosed);
    for (nth, held) in held.into_iter().enumerate() {
        held.answer("yes", false).await;
        if nth != 1 {
            assert!(result(&mut pendings[nth]).await.contains("yes"));
        }
    }
    server.stop.cancel();
}

#[tokio::test]
async fn a_connection_that_breaks_loses_nothing_of_a_session_and_cancels_what_stands_alone() {
    for revision in Revision::ALL {
        let mut server = Server::start(HttpOptions::default()).await;
        let between = Between::start(server.address).await;
        let peer = over_http(between.address, revision).await;
        let mut pending = peer.request(call("held"));
        let held = server.held().await;
        let mut steps = 1..;
        let mut step = |held: &crate::http_support::Held| {
            let at = steps.next().unwrap();
            held.progress.as_ref().unwrap().send(f64::from(at), None, None);
            at
        };
        for _ in 0..3 {
            let at = step(&held);
            let Happened::Progress(note) = next(&mut pending).await else { panic!("no progress") };
            assert_eq!(note.progress, f64::from(at));
            between.cut();
            if revision.is_stateless() {
                break;
            }
            // While nobody is there.
            let at = step(&held);
            let Happened::Progress(note) = next(&mut pending).await else { panic!("no progress") };
            assert_eq!(note.progress, f64::from(at));
        }
        if revision.is_stateless() {
            assert!(matches!(lost(&mut pending).await, Lost::Broken(_) | Lost::Ended));
            assert_eq!(held.cancelled().await, Cause::ClientDisconnected);
            held.answer("late", false).await;
        } else {
            between.cut();
            held.answer("yes", false).await;
            assert!(result(&mut pending).await.contains("yes"));
        }
        server.stop.cancel();
    }
}

async fn rounds(peer: &Peer, calls: &mut theirs::Calls, fate: CancelFate) {
    let mut pending = peer.request(call("quick"));
    assert!(matches!(next(&mut pending).await, Happened::Progress(_)));
    assert!(result(&mut pending).await.contains("done"));
    soon("a call", calls.recv()).await;

    // Three at once: the cancel of one is the cancel of that one.
    let mut pendings = Vec::new();
    let mut tokens = Vec::new();
    for _ in 0..3 {
        pendings.push(peer.request(call("held")));
        tokens.push(soon("a call", calls.recv()).await.unwrap());
    }
    let mut receipt = pendings[1].cancel(Some("enough"));
    soon("the cancel", tokens[1].cancelled()).await;
    assert_eq!(soon("a fate", receipt.fate()).await, fate);
    assert!(result(&mut peer.request(call("quick"))).await.contains("done"));
    soon("a call", calls.recv()).await;
    assert!(!tokens[0].is_cancelled() && !tokens[2].is_cancelled());
    drop(pendings);
    for token in &tokens {
        soon("the cancel", token.cancelled()).await;
    }
}
