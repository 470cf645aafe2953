//! In front of existing MCP servers: their tools, and whatever else they have, as they are; their cancels forwarded, recorded
//! and followed.
//!
//! A client's request is passed on under an id of ours and answered with the server's words. When it is to be cancelled
//! (by its client, who may only have closed a stream; by its time; by an operator; by our end), the cancel is recorded, the
//! server is told in its own era's way, and what becomes of it is followed. In layer order.

mod raw;
mod start;
mod link;
mod forward;
mod server;
mod rounds;
mod call;
mod listing;
mod listening;
mod mirror;

pub(crate) use forward::{gone, is_forwarded};

use crate::config::McpServer;
use call::{Passed, failed};
use countermand::{clock::SystemClock, engine::Engine, process::Runner};
use countermand_mcp::{Answer, Call, Client, Greeting, Outgoing, RpcError};
use listing::LISTS;
use serde_json::value::RawValue;
use server::Server;
use start::Tools;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// Methods that several servers can be asked by, beside lists: each is answered by the one that it concerns.
const ROUTED: [&str; 6] = [
    "prompts/get",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "completion/complete",
    "logging/setLevel",
];

/// The MCP servers that we stand before.
pub(crate) struct Proxy {
    servers: Vec<Arc<Server>>,
    /// Whether we are nothing but this one server's front: then all of it passes, also what we do not know.
    transparent: bool,
    tools: Arc<Tools>,
    engine: Engine,
    clock: Arc<SystemClock>,
    waiting: rounds::Waiting,
    /// The tools as they were listed last.
    known: Mutex<Vec<Arc<RawValue>>>,
    leaving: CancellationToken,
}

impl Proxy {
    /// In front of these servers; of none for a gateway without any. `transparent` where we are nothing but the front of
    /// one. `home` is the ledger's file.
    ///
    /// # Errors
    /// Where programs or connections cannot be made at all.
    pub(crate) fn new(
        servers: &[McpServer],
        transparent: bool,
        engine: Engine,
        clock: Arc<SystemClock>,
        runner: Option<Runner>,
        home: &Path,
    ) -> anyhow::Result<Arc<Self>> {
        let tools = Arc::new(Tools::new(runner, home)?);
        let servers = servers.iter().map(|config| Arc::new(Server::new(config.clone(), Arc::clone(&tools))));
        Ok(Arc::new(Self {
            servers: servers.collect(),
            transparent,
            tools,
            engine,
            clock,
            waiting: rounds::Waiting::default(),
            known: Mutex::default(),
            leaving: CancellationToken::new(),
        }))
    }

    /// The one server whose front we are.
    fn sole(&self) -> Option<&Arc<Server>> {
        self.servers.first().filter(|_| self.transparent)
    }

    /// The tools of the servers as they were listed last.
    pub(crate) fn known_tools(&self) -> Vec<Arc<RawValue>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a server may have what this method asks for.
    pub(crate) fn serves(&self, method: &str) -> bool {
        match self.servers.len() {
            0 => false,
            _ if self.transparent => true,
            _ => {
                LISTS.iter().any(|(list, _)| *list == method)
                    || ROUTED.contains(&method)
                    || method == rounds::LISTEN
            }
        }
    }

    /// What a client is told when it begins: the one server's words, or what all of them together offer.
    ///
    /// # Errors
    /// Where the one server cannot be reached.
    pub(crate) async fn greet(&self, client: &Client) -> Result<Greeting, RpcError> {
        if let Some(server) = self.sole() {
            let link =
                server.link(client).await.map_err(|why| RpcError::new(RpcError::INTERNAL_ERROR, why))?;
            let hello = link.peer.hello();
            const OURS: [&str; 9] = [
                "protocolVersion",
                "capabilities",
                "serverInfo",
                "instructions",
                "supportedVersions",
                "resultType",
                "ttlMs",
                "cacheScope",
                "_meta",
            ];
            let extra = raw::members(Some(&hello.raw));
            return Ok(Greeting {
                capabilities: Some(with_ours(&hello.capabilities)),
                server_info: hello.server_info.clone(),
                instructions: hello.instructions.clone(),
                extra: extra.into_iter().filter(|(name, _)| !OURS.contains(&name.as_str())).collect(),
            });
        }
        let mut all = Vec::new();
        let links = self.servers.iter().map(|server| server.link(client));
        for (server, link) in self.servers.iter().zip(futures_util::future::join_all(links).await) {
            match link {
                Ok(link) => {
                    for (name, value) in raw::members(Some(&link.peer.hello().capabilities)) {
                        if matches!(
                            name.as_str(),
                            "tools" | "prompts" | "resources" | "completions" | "logging"
                        ) {
                            raw::set(&mut all, &name, value);
                        }
                    }
                }
                Err(why) => tracing::warn!(server = server.config.name, "{why}"),
            }
        }
        let capabilities = (!self.servers.is_empty()).then(|| with_ours(&raw::object(&all)));
        Ok(Greeting { capabilities, ..Greeting::default() })
    }

    /// The server of a tool or prompt, and what that calls it, as far as its name tells.
    fn server_of(
        &self,
        name: &str,
        serves: impl Fn(&Server, &str) -> bool,
    ) -> Option<(&Arc<Server>, String)> {
        let own = |server| Server::own(server, name).map(ToOwned::to_owned);
        let candidates = self.servers.iter().filter_map(|server| Some((server, own(server)?)));
        // `github_` before `git`, and both before a server without a prefix; of equal ones the first, as in lists.
        candidates
            .filter(|(server, own)| serves(server, own))
            .min_by_key(|(server, _)| std::cmp::Reverse(server.config.prefix.len()))
    }

    /// Calls a tool of one of the servers.
    pub(crate) async fn call_tool(self: &Arc<Self>, call: Call) -> Answer {
        let Some((server, own)) = self.server_of(&call.tool, Server::serves_tool) else {
            return Answer::error(RpcError::invalid_params(format!("Unknown tool: {}", call.tool)));
        };
        let mut params = vec![("name".to_owned(), raw::quoted(&own))];
        params.extend(call.arguments.clone().map(|arguments| ("arguments".to_owned(), arguments)));
        params.extend(call.extra.clone());
        let headers = mirror::headers(&self.known_tools(), &call.tool, call.arguments.as_deref());
        self.pass(server, call, params, headers).await
    }

    async fn pass(
        self: &Arc<Self>,
        server: &Arc<Server>,
        call: Call,
        params: raw::Members,
        headers: Vec<(String, String)>,
    ) -> Answer {
        let outgoing = Outgoing {
            method: call.method.clone(),
            params,
            meta: raw::members(call.meta.as_deref()),
            progress: call.progress.is_some(),
            headers,
            name: None,
        };
        Passed { proxy: self, server, call, outgoing }.serve().await
    }

    /// Serves any other request. `own` are our own tools.
    pub(crate) async fn request(self: &Arc<Self>, call: Call, own: &[Arc<RawValue>]) -> Answer {
        let (method, revision) = (call.method.clone(), call.client.revision);
        let mut answer = self.requested(call, own).await;
        if let Ok(result) = &mut answer.result
            && revision.is_stateless()
        {
            listing::hint(&method, result);
        }
        answer
    }

    async fn requested(self: &Arc<Self>, call: Call, own: &[Arc<RawValue>]) -> Answer {
        if call.method == rounds::LISTEN {
            return self.listen(call).await;
        }
        if let Some(server) = self.sole() {
            let (listed, first) = (call.method.clone(), raw::get(&call.extra, "cursor").is_none());
            let params = call.extra.clone();
            let answer = self.pass(server, call, params, Vec::new()).await;
            return if listed == "tools/list" {
                self.with_own(server, answer, first.then_some(own))
            } else {
                answer
            };
        }
        if LISTS.iter().any(|(list, _)| *list == call.method) {
            let own = if call.method == "tools/list" { own } else { &[] };
            return Answer::result(self.listed(&call, &call.method, own).await);
        }
        self.route(call).await
    }

    /// Lets a client hear what servers say by themselves: the one server of its revision is asked for it, older ones say it.
    async fn listen(self: &Arc<Self>, call: Call) -> Answer {
        let connecting =
            futures_util::future::join_all(self.servers.iter().map(|server| server.link(&call.client)));
        let links = tokio::select! {
            _ = call.handle.cancelled() => return failed(&call.method, "The call was ended by its client."),
            links = connecting => links,
        };
        let mut reached = Vec::new();
        for link in links {
            match (link, self.sole()) {
                (Err(why), Some(_)) => return failed(&call.method, &why),
                (Err(why), None) => tracing::warn!("{why}"),
                (Ok(link), Some(server)) if link.peer.hello().revision.is_stateless() => {
                    let params = call.extra.clone();
                    return self.pass(server, call, params, Vec::new()).await;
                }
                (Ok(link), _) => reached.push(link),
            }
        }
        listening::serve(&call, &reached).await
    }

    /// A page of tools, with ours before the first ones.
    fn with_own(&self, server: &Server, mut answer: Answer, own: Option<&[Arc<RawValue>]>) -> Answer {
        if let Ok(result) = &answer.result {
            let mut members = raw::members(Some(result));
            let tools = listing::shown(server, "tools/list", raw::get(&members, "tools"));
            self.remember(&tools);
            let all =
                own.unwrap_or_default().iter().map(|tool| &**tool).chain(tools.iter().map(|tool| &**tool));
            let all = raw::list(all);
            raw::set(&mut members, "tools", all);
            answer.result = Ok(raw::object(&members));
        }
        answer
    }

    /// Asks the server that a request concerns; where that cannot be seen, one after the other until one knows.
    async fn route(self: &Arc<Self>, call: Call) -> Answer {
        if call.method == "prompts/get"
            && let Some(name) = raw::text(&call.extra, "name")
            && let Some((server, own)) = self.server_of(&name, |_, _| true)
        {
            let mut params = call.extra.clone();
            raw::set(&mut params, "name", raw::quoted(&own));
            return self.pass(server, call, params, Vec::new()).await;
        }
        let mut asked = Vec::new();
        for server in &self.servers {
            match server.link(&call.client).await {
                Ok(link) => {
                    if listing::offers(&link, &call.method) {
                        asked.push(server);
                    }
                }
                Err(why) => tracing::warn!(server = server.config.name, "{why}"),
            }
        }
        let Some((last, others)) = asked.split_last() else {
            return failed(&call.method, "No MCP server here has that");
        };
        let everybody = call.method == "logging/setLevel";
        for server in others {
            let outgoing = Outgoing {
                method: call.method.clone(),
                params: self.unprefixed(server, &call),
                meta: raw::members(call.meta.as_deref()),
                ..Outgoing::default()
            };
            let asking = async {
                let link = server
                    .link(&call.client)
                    .await
                    .map_err(|why| RpcError::new(RpcError::INTERNAL_ERROR, why))?;
                listing::ask(&link, outgoing).await
            };
            // Dropped at a cancel, the request is cancelled.
            let answer = tokio::select! {
                answer = asking => answer,
                _ = call.handle.cancelled() => return failed(&call.method, "The call was ended by its client."),
            };
            match answer {
                Ok(result) if !everybody => return Answer::result(result),
                _ => {}
            }
        }
        let params = self.unprefixed(last, &call);
        self.pass(last, call, params, Vec::new()).await
    }

    /// A completion names its prompt inside a reference.
    fn unprefixed(&self, server: &Server, call: &Call) -> raw::Members {
        let mut params = call.extra.clone();
        let mut reference = raw::members(raw::get(&params, "ref"));
        let own = raw::text(&reference, "name").and_then(|name| server.own(&name).map(ToOwned::to_owned));
        if let Some(own) = own {
            raw::set(&mut reference, "name", raw::quoted(&own));
            raw::set(&mut params, "ref", raw::object(&reference));
        }
        params
    }

    /// Passes a client's notification on to the servers that it is connected to.
    pub(crate) fn notified(self: &Arc<Self>, client: &Client, method: &str, params: Option<&RawValue>) {
        if self.servers.is_empty() {
            return;
        }
        let (proxy, client) = (Arc::clone(self), client.clone());
        let (method, params) = (method.to_owned(), params.map(ToOwned::to_owned));
        self.tools.tasks.spawn(async move {
            for server in &proxy.servers {
                let Some(link) = server.existing(&client).await else { continue };
                match method.as_str() {
                    // The server has heard it from us when we connected.
                    "notifications/initialized" => link.ready(),
                    _ => link.peer.notify(&method, params.clone()),
                }
            }
        });
    }

    /// Ends what an earlier process on the same ledger has left.
    pub(crate) async fn sweep(&self) {
        self.tools.sweep().await;
    }

    /// Ends every connection and every program.
    pub(crate) async fn close(&self) {
        self.leaving.cancel();
        rounds::cancel_all(self).await;
        futures_util::future::join_all(self.servers.iter().map(|server| server.close())).await;
    }
}

/// A server's capabilities, and those that we add: there is at least one tool.
fn with_ours(theirs: &RawValue) -> Box<RawValue> {
    let mut all = raw::members(Some(theirs));
    if raw::get(&all, "tools").is_none() {
        raw::set(&mut all, "tools", raw::json("{}"));
    }
    raw::object(&all)
}
