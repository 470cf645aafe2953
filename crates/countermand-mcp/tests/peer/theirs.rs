//! A server of `rmcp` whose calls tell the test what happens to them.

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use rmcp::ServiceExt as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ProgressNotificationParam, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A call that is being served: trips when `rmcp` says that it is cancelled.
pub(crate) type Calls = mpsc::UnboundedReceiver<CancellationToken>;

#[derive(Clone)]
struct Theirs(mpsc::UnboundedSender<CancellationToken>);

impl rmcp::ServerHandler for Theirs {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("theirs", "1"))
    }

    /// `held` waits for its cancel; anything else is answered after one step of progress.
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, rmcp::ErrorData> {
        if let Some(token) = context.meta.get_progress_token() {
            let _ = context.peer.notify_progress(ProgressNotificationParam::new(token, 1.0)).await;
        }
        let _ = self.0.send(context.ct.clone());
        if request.name == "held" {
            context.ct.cancelled().await;
        }
        Ok(CallToolResult::success(vec![ContentBlock::text("done")]).into())
    }
}

/// One on a pair of streams.
pub(crate) fn on_streams(tasks: &TaskTracker) -> (DuplexStream, DuplexStream, Calls) {
    let (write, input) = tokio::io::duplex(64 * 1024);
    let (output, read) = tokio::io::duplex(64 * 1024);
    let (sender, calls) = mpsc::unbounded_channel();
    tasks.spawn(async move {
        if let Ok(running) = Theirs(sender).serve((input, output)).await {
            let _ = running.waiting().await;
        }
    });
    (read, write, calls)
}

/// One over HTTP, until `stop`. With sessions, or without for any revision.
pub(crate) async fn over_http(
    tasks: &TaskTracker,
    stop: &CancellationToken,
    sessions: bool,
) -> (SocketAddr, Calls) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = StreamableHttpServerConfig::default()
        .with_cancellation_token(stop.child_token())
        .with_legacy_session_mode(sessions);
    let (sender, calls) = mpsc::unbounded_channel();
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(Theirs(sender.clone())), sessions, config);
    let service = TowerToHyperService::new(service);
    let connections = tasks.clone();
    tasks.spawn(stop.clone().run_until_cancelled_owned(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service.clone();
            connections.spawn(async move {
                let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }));
    (address, calls)
}
