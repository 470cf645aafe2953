//! The methods that are served, as a table: which revision has which, and what the simple ones answer.

use crate::json::{quoted, single_line, text};
use crate::params::Params;
use crate::{Greeting, Handler, Revision, RpcError, ServerInfo};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

/// A method that is served here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Initialize,
    Discover,
    Ping,
    SetLevel,
    ListTools,
    CallTool,
}

use Revision::{V2025_06_18, V2025_11_25, V2026_07_28};

/// Name, method, and the revisions that have it. Only tools and logging are announced, so resources and prompts
/// are unknown methods.
const TABLE: [(&str, Method, Revision, Revision); 6] = [
    ("initialize", Method::Initialize, V2025_06_18, V2025_11_25),
    ("ping", Method::Ping, V2025_06_18, V2025_11_25),
    ("logging/setLevel", Method::SetLevel, V2025_06_18, V2025_11_25),
    ("server/discover", Method::Discover, V2026_07_28, V2026_07_28),
    ("tools/list", Method::ListTools, V2025_06_18, V2026_07_28),
    ("tools/call", Method::CallTool, V2025_06_18, V2026_07_28),
];

impl Method {
    pub(crate) fn find(name: &str, revision: Revision) -> Result<Self, RpcError> {
        TABLE
            .iter()
            .find(|(known, _, first, last)| *known == name && (*first..=*last).contains(&revision))
            .map(|(_, method, ..)| *method)
            .ok_or_else(|| RpcError::method_not_found(name))
    }
}

const CAPABILITIES: &str = r#"{"logging":{},"tools":{}}"#;

/// Tools on one page of `tools/list`.
const PAGE: usize = 100;

/// Who answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Served {
    /// The wire, by its table.
    Here(Method),
    /// The handler, as a call.
    ByHandler,
}

impl Served {
    /// What the handler takes over it gets; else the table decides.
    pub(crate) fn find<H: Handler>(name: &str, revision: Revision, handler: &H) -> Result<Self, RpcError> {
        match Method::find(name, revision) {
            Ok(Method::CallTool) => Ok(Self::ByHandler),
            Ok(method @ (Method::Initialize | Method::Discover | Method::Ping)) => Ok(Self::Here(method)),
            _ if handler.serves(name, revision) => Ok(Self::ByHandler),
            found => found.map(Self::Here),
        }
    }
}

/// The result of a method that asks for nothing but an answer; `None` for one that the front door has to serve.
pub(crate) fn answer_at_once<H: Handler>(
    method: Method,
    params: &Params<'_>,
    handler: &H,
    revision: Revision,
) -> Result<Option<String>, RpcError> {
    match method {
        Method::Ping => Ok(Some("{}".to_owned())),
        Method::ListTools => list_tools(params, &handler.tools(), &handler.server_info(), revision).map(Some),
        Method::Initialize | Method::Discover | Method::SetLevel | Method::CallTool => Ok(None),
    }
}

/// The revision that `initialize` asks for, or the newest that it can have.
pub(crate) fn introduced(params: &Params<'_>) -> Result<Revision, RpcError> {
    let Some(asked) = params.text("protocolVersion") else {
        return Err(RpcError::invalid_params("Invalid params: `protocolVersion` must be a date"));
    };
    Ok(Revision::from_date(&asked)
        .filter(|revision| !revision.is_stateless())
        .unwrap_or(Revision::NEWEST_WITH_INITIALIZE))
}

/// Answers `initialize`.
pub(crate) fn initialize(revision: Revision, greeting: &Greeting, info: &ServerInfo) -> String {
    let mut result = format!(
        r#"{{"protocolVersion":"{revision}","capabilities":{},"serverInfo":{}"#,
        capabilities(greeting),
        server(greeting, info)
    );
    write_rest(&mut result, greeting, info);
    result.push('}');
    result
}

/// Answers `server/discover`. Every front door speaks every revision.
pub(crate) fn discover(greeting: &Greeting, info: &ServerInfo) -> String {
    let versions = Revision::ALL.map(|revision| format!("\"{revision}\""));
    let mut result = format!(
        r#"{{"resultType":"complete","supportedVersions":[{}],"capabilities":{}"#,
        versions.join(","),
        capabilities(greeting)
    );
    write_rest(&mut result, greeting, info);
    result.push_str(&cache_hints(&server(greeting, info)));
    result.push('}');
    result
}

fn capabilities(greeting: &Greeting) -> Cow<'_, str> {
    let own = || Cow::Borrowed(CAPABILITIES);
    greeting.capabilities.as_ref().map_or_else(own, |said| single_line(said.get()))
}

fn server<'a>(greeting: &'a Greeting, info: &ServerInfo) -> Cow<'a, str> {
    let own = || Cow::Owned(implementation(info));
    greeting.server_info.as_ref().map_or_else(own, |said| single_line(said.get()))
}

/// Answers `tools/list`, page by page.
fn list_tools(
    params: &Params<'_>,
    tools: &[Arc<RawValue>],
    info: &ServerInfo,
    revision: Revision,
) -> Result<String, RpcError> {
    let from = match params.get("cursor") {
        None => 0,
        Some(cursor) => start_of(cursor)
            .filter(|from| *from < tools.len())
            .ok_or_else(|| RpcError::invalid_params("Invalid params: `cursor` is not one of ours"))?,
    };
    let page = &tools[from..tools.len().min(from + PAGE)];
    let mut result = String::with_capacity(page.iter().map(|tool| tool.get().len() + 1).sum::<usize>() + 256);
    result.push('{');
    if revision.is_stateless() {
        result.push_str(r#""resultType":"complete","#);
    }
    result.push_str(r#""tools":["#);
    for (nth, tool) in page.iter().enumerate() {
        if nth > 0 {
            result.push(',');
        }
        result.push_str(tool.get());
    }
    result.push(']');
    if from + PAGE < tools.len() {
        let _ = write!(result, r#","nextCursor":"{}""#, cursor_to(from + PAGE));
    }
    if revision.is_stateless() {
        result.push_str(&cache_hints(&implementation(info)));
    }
    result.push('}');
    Ok(result)
}

/// A cursor says where its page starts. The tools of a process stay as they are, so it stays good; it is opaque, so
/// that nobody makes one up.
fn cursor_to(from: usize) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("tools:{from}"))
}

fn start_of(cursor: &RawValue) -> Option<usize> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text(cursor)?.as_bytes()).ok()?;
    let from = std::str::from_utf8(&bytes).ok()?.strip_prefix("tools:")?.parse().ok()?;
    (from > 0 && from % PAGE == 0).then_some(from)
}

fn implementation(info: &ServerInfo) -> String {
    let mut json = format!(r#"{{"name":{}"#, quoted(&info.name));
    if let Some(title) = &info.title {
        let _ = write!(json, r#","title":{}"#, quoted(title));
    }
    let _ = write!(json, r#","version":{}}}"#, quoted(&info.version));
    json
}

fn write_rest(result: &mut String, greeting: &Greeting, info: &ServerInfo) {
    if let Some(instructions) = greeting.instructions.as_ref().or(info.instructions.as_ref()) {
        let _ = write!(result, r#","instructions":{}"#, quoted(instructions));
    }
    for (name, value) in &greeting.extra {
        let _ = write!(result, ",{}:{}", quoted(name), single_line(value.get()));
    }
}

/// What 2026-07-28 wants on every result that could be cached; ours is stale at once. The results of calls do
/// not name the server: they are the handler's, word for word.
fn cache_hints(server: &str) -> String {
    format!(r#","ttlMs":0,"cacheScope":"private","_meta":{{"io.modelcontextprotocol/serverInfo":{server}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn page(tools: &[Arc<RawValue>], cursor: Option<&str>) -> Result<Value, i64> {
        let params = cursor.map(|cursor| RawValue::from_string(format!(r#"{{"cursor":{cursor}}}"#)).unwrap());
        let params = Params::of(params.as_deref()).unwrap();
        let info = ServerInfo { name: "s".into(), title: None, version: "1".into(), instructions: None };
        let listed = list_tools(&params, tools, &info, Revision::V2025_11_25).map_err(|error| error.code)?;
        Ok(serde_json::from_str(&listed).unwrap())
    }

    fn tools(count: usize) -> Vec<Arc<RawValue>> {
        let tool = |nth| RawValue::from_string(format!(r#"{{"name":"t{nth}"}}"#)).unwrap();
        (0..count).map(tool).map(Arc::from).collect()
    }

    #[test]
    fn many_tools_come_in_pages_each_once_and_in_order() {
        for count in [0, 1, PAGE, PAGE + 1, 2 * PAGE, 250] {
            let (tools, mut cursor, mut names) = (tools(count), None, Vec::new());
            loop {
                let page = page(&tools, cursor.as_deref()).unwrap();
                names.extend(page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()));
                match page.get("nextCursor") {
                    Some(next) => cursor = Some(next.to_string()),
                    None => break,
                }
            }
            let all: Vec<Value> = (0..count).map(|nth| format!("t{nth}").into()).collect();
            assert_eq!(names, all);
        }
    }

    #[test]
    fn a_cursor_that_is_not_ours_is_refused() {
        let tools = tools(250);
        let made_up = |text: &str| format!("\"{}\"", BASE64_URL_SAFE_NO_PAD.encode(text));
        let others = [made_up("tools:300"), made_up("tools:7"), made_up("tools:0"), made_up("x"), "7".into()];
        for cursor in others.iter().map(String::as_str).chain(["\"\"", "\"%\""]) {
            assert_eq!(page(&tools, Some(cursor)), Err(RpcError::INVALID_PARAMS), "{cursor}");
        }
    }
}
