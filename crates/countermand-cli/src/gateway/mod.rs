//! The gateway's tools, as the wire serves them.

mod written;
mod job;
mod read;
mod status;

use crate::{
    absence, answer,
    config::{Config, Tool},
    proxy::Proxy,
};
use countermand::{
    clock::SystemClock,
    core::{
        OnDisconnect, Row,
        ports::{Definition, Payload},
    },
    definition::{Effect, Work},
    engine::{Engine, UpstreamHealth},
    upstream::{HttpRead, Upstreams},
};
use countermand_mcp::{Answer, Call, Client, Greeting, Handler, Revision, RpcError, ServerInfo};
use jsonschema::Validator;
use serde_json::{Map, Value, json, value::RawValue};
use std::{collections::HashMap, sync::Arc};

/// Serves the tools of a config.
pub(crate) struct Gateway {
    info: ServerInfo,
    tools: HashMap<String, Arc<ServedTool>>,
    listed: Vec<Arc<RawValue>>,
    engine: Engine,
    upstreams: Arc<Upstreams>,
    clock: Arc<SystemClock>,
    /// The MCP servers that it stands before.
    proxy: Arc<Proxy>,
}

/// A tool, ready to be called.
struct ServedTool {
    config: Tool,
    stored: Definition,
    arguments: Validator,
    output: Option<Validator>,
    /// What performs it, where it only reads.
    reader: Option<HttpRead>,
    /// How its upstream is.
    health: Arc<UpstreamHealth>,
}

impl ServedTool {
    /// What it means for a call that its client has left.
    fn on_disconnect(&self, call: &Call) -> OnDisconnect {
        absence::policy(self.config.on_disconnect, &call.client)
    }

    /// A result that carries what the upstream returned, if that is what the tool promises.
    fn result(&self, payload: &Payload, uri: &str, row: Option<&Row>) -> Box<RawValue> {
        let Some(output) = &self.output else { return answer::payload(payload, uri, row) };
        let wrong = match payload {
            Payload::Json(value) => misfits(output, value, "the result"),
            _ => vec!["the result: not JSON".to_owned()],
        };
        if wrong.is_empty() {
            return answer::payload(payload, uri, row);
        }
        tracing::warn!(
            tool = self.config.name,
            wrong = wrong.join("; "),
            "what the upstream returned does not fit the output schema"
        );
        answer::misfit(payload, uri, &wrong, row)
    }

    /// The arguments without those that are never kept (`writeOnly`).
    fn kept(&self, arguments: &Map<String, Value>) -> Map<String, Value> {
        let write_only = |name: &str| {
            let schema = self.config.input.get("properties").and_then(|all| all.get(name));
            schema.and_then(|schema| schema.get("writeOnly")).and_then(Value::as_bool).unwrap_or(false)
        };
        arguments
            .iter()
            .filter(|(name, _)| !write_only(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

impl Gateway {
    /// The gateway of a checked config.
    pub(crate) fn new(
        config: &Config,
        engine: Engine,
        upstreams: Arc<Upstreams>,
        clock: Arc<SystemClock>,
        proxy: Arc<Proxy>,
    ) -> anyhow::Result<Self> {
        let mut tools = HashMap::new();
        let mut listed = Vec::new();
        for tool in &config.tools {
            listed.push(Arc::from(serde_json::value::to_raw_value(&as_listed(tool))?));
            let served = ServedTool {
                stored: tool.definition.stored(),
                arguments: tool.validator()?,
                output: tool.output_validator()?,
                reader: reads(tool).then(|| upstreams.reader(&tool.definition)).transpose()?,
                health: engine.health(tool.definition.upstream.name(), tool.definition.upstream.health()),
                config: tool.clone(),
            };
            tools.insert(tool.name.clone(), Arc::new(served));
        }
        listed.push(status::tool());
        let info = ServerInfo {
            name: config.server.name.clone(),
            title: config.server.title.clone(),
            version: config.server.version.clone().unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned()),
            instructions: config.server.instructions.clone(),
        };
        Ok(Self { info, tools, listed, engine, upstreams, clock, proxy })
    }
}

/// Whether a tool changes nothing upstream.
fn reads(tool: &Tool) -> bool {
    matches!(&tool.definition.work, Work::Http(http) if http.effect == Effect::None)
}

/// A tool as `tools/list` shows it.
fn as_listed(tool: &Tool) -> Value {
    let mut listed = Map::new();
    listed.insert("name".into(), tool.name.clone().into());
    let optional = [
        ("title", tool.title.clone().map(Value::from)),
        ("description", tool.description.clone().map(Value::from)),
        ("inputSchema", Some(tool.input.clone())),
        ("outputSchema", tool.output.clone()),
        ("annotations", tool.annotations.clone()),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            listed.insert(name.into(), value);
        }
    }
    Value::Object(listed)
}

impl Handler for Gateway {
    fn server_info(&self) -> ServerInfo {
        self.info.clone()
    }

    fn tools(&self) -> Vec<Arc<RawValue>> {
        let mut all = self.listed.clone();
        all.extend(self.proxy.known_tools());
        all
    }

    async fn greet(&self, client: &Client) -> Result<Greeting, RpcError> {
        self.proxy.greet(client).await
    }

    fn serves(&self, method: &str, _: Revision) -> bool {
        self.proxy.serves(method)
    }

    async fn request(&self, call: Call) -> Answer {
        self.proxy.request(call, &self.listed).await
    }

    fn notified(&self, client: &Client, method: &str, params: Option<&RawValue>) {
        self.proxy.notified(client, method, params);
    }

    async fn call(&self, call: Call) -> Answer {
        let arguments = match &call.arguments {
            None => Map::new(),
            Some(raw) => match serde_json::from_str::<Map<String, Value>>(raw.get()) {
                Ok(arguments) => arguments,
                Err(_) => return Answer::error(RpcError::invalid_params("`arguments` must be an object")),
            },
        };
        if call.tool == status::NAME {
            return status::serve(self, &call, &arguments).await;
        }
        let Some(tool) = self.tools.get(&call.tool).cloned() else {
            return self.proxy.call_tool(call).await;
        };
        let arguments = Value::Object(arguments);
        if let Some(refusal) = refusal(&tool, &arguments) {
            return refusal;
        }
        let Value::Object(arguments) = arguments else { unreachable!("made an object above") };
        match &tool.reader {
            Some(reader) => read::serve(&tool, reader, call, arguments).await,
            None => job::serve(self, &tool, call, arguments).await,
        }
    }
}

/// What is said of arguments that do not fit the tool's schema: a result, so that a model can mend them.
fn refusal(tool: &ServedTool, arguments: &Value) -> Option<Answer> {
    let wrong = misfits(&tool.arguments, arguments, "the arguments");
    if wrong.is_empty() {
        return None;
    }
    let text =
        format!("The arguments do not fit the tool's schema, and nothing was started.\n{}", wrong.join("\n"));
    let result = json!({ "content": [{ "type": "text", "text": text }], "isError": true });
    Some(match serde_json::value::to_raw_value(&result) {
        Ok(result) => Answer::result(result),
        Err(_) => Answer::error(RpcError::invalid_params(text)),
    })
}

/// What is wrong with a value, at most five things of it. Masked: it may hold a secret.
fn misfits(schema: &Validator, value: &Value, root: &str) -> Vec<String> {
    let said = |error: jsonschema::ValidationError<'_>| {
        let at = error.instance_path().to_string();
        let at = if at.is_empty() { root.to_owned() } else { format!("`{at}`") };
        format!("{at}: {}", error.masked())
    };
    schema.iter_errors(value).take(5).map(said).collect()
}
