//! Two servers with the same tool, `echo`: ours, and one of `rmcp`.

use countermand_mcp::{Answer, Call, Calls, Handler, HttpOptions, HttpServer, Limits, RpcError, ServerInfo};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

fn tool() -> Value {
    json!({
        "name": "echo",
        "description": "Says it again.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "text": { "type": "string" },
                "region": { "type": "string", "x-mcp-header": "Region" }
            }
        }
    })
}

fn said(arguments: &Value) -> String {
    arguments.get("text").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Ours.
pub(crate) struct Ours;

impl Handler for Ours {
    fn server_info(&self) -> ServerInfo {
        ServerInfo {
            name: "pair".into(),
            title: None,
            version: "1".into(),
            instructions: Some("Echo.".into()),
        }
    }

    fn tools(&self) -> Vec<Arc<RawValue>> {
        vec![serde_json::value::to_raw_value(&tool()).unwrap().into()]
    }

    async fn call(&self, call: Call) -> Answer {
        if call.tool != "echo" {
            return Answer::error(RpcError::invalid_params(format!("Unknown tool: {}", call.tool)));
        }
        let arguments = call.arguments.map_or(Value::Null, |raw| serde_json::from_str(raw.get()).unwrap());
        if let Some(progress) = &call.progress {
            progress.send(1.0, None, None);
        }
        let result = json!({ "content": [{ "type": "text", "text": said(&arguments) }], "isError": false });
        Answer::result(serde_json::value::to_raw_value(&result).unwrap())
    }
}

/// The one of `rmcp`.
#[derive(Clone)]
pub(crate) struct Theirs;

impl rmcp::ServerHandler for Theirs {
    #[expect(deprecated, reason = "logging is deprecated in the newest revision, and there in all")]
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_logging().enable_tools().build())
            .with_server_info(Implementation::new("pair", "1"))
            .with_instructions("Echo.")
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        (name == "echo").then(|| serde_json::from_value(tool()).unwrap())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, rmcp::ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![serde_json::from_value(tool()).unwrap()]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, rmcp::ErrorData> {
        if request.name != "echo" {
            return Err(rmcp::ErrorData::invalid_params(format!("Unknown tool: {}", request.name), None));
        }
        if let Some(token) = context.meta.get_progress_token() {
            let progress = rmcp::model::ProgressNotificationParam::new(token, 1.0);
            let _ = context.peer.notify_progress(progress).await;
        }
        let arguments = request.arguments.map_or(Value::Null, Value::Object);
        Ok(CallToolResult::success(vec![ContentBlock::text(said(&arguments))]).into())
    }
}

/// Both over HTTP, until `stop`.
pub(crate) struct Pair {
    pub(crate) ours: SocketAddr,
    pub(crate) theirs: SocketAddr,
    pub(crate) stop: CancellationToken,
    tasks: TaskTracker,
}

impl Pair {
    pub(crate) async fn start() -> Self {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let server = HttpServer::bind("127.0.0.1:0".parse().unwrap(), HttpOptions::default()).await.unwrap();
        let ours = server.local_addr();
        tasks.spawn(server.serve(Arc::new(Ours), Calls::new(Limits::default()), stop.clone()));

        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let theirs = listener.local_addr().unwrap();
        let config = StreamableHttpServerConfig::default()
            .with_cancellation_token(stop.child_token())
            .enforce_origin_validation();
        let sessions = Arc::new(LocalSessionManager::default());
        let service = TowerToHyperService::new(StreamableHttpService::new(|| Ok(Theirs), sessions, config));
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
        Self { ours, theirs, stop, tasks }
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
