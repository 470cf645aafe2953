//! The methods that are served, as a table: which revision has which, and what the simple ones answer.

use crate::json::quoted;
use crate::params::Params;
use crate::{Revision, RpcError, ServerInfo};
use serde_json::value::RawValue;
use std::fmt::Write as _;
use std::sync::Arc;

/// A method that is served here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Initialize,
    Discover,
    Ping,
    ListTools,
    CallTool,
}

use Revision::{V2025_06_18, V2025_11_25, V2026_07_28};

/// Name, method, and the revisions that have it. Only tools are announced, so `logging/setLevel`, resources and
/// prompts are unknown methods.
const TABLE: [(&str, Method, Revision, Revision); 5] = [
    ("initialize", Method::Initialize, V2025_06_18, V2025_11_25),
    ("ping", Method::Ping, V2025_06_18, V2025_11_25),
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

const CAPABILITIES: &str = r#"{"tools":{}}"#;

/// Answers `initialize`: the revision from now on, and the result.
pub(crate) fn initialize(params: &Params<'_>, info: &ServerInfo) -> Result<(Revision, String), RpcError> {
    let Some(asked) = params.text("protocolVersion") else {
        return Err(RpcError::invalid_params("Invalid params: `protocolVersion` must be a date"));
    };
    let revision = Revision::from_date(&asked)
        .filter(|revision| !revision.is_stateless())
        .unwrap_or(Revision::NEWEST_WITH_INITIALIZE);
    let mut result = format!(
        r#"{{"protocolVersion":"{revision}","capabilities":{CAPABILITIES},"serverInfo":{}"#,
        implementation(info)
    );
    write_instructions(&mut result, info);
    result.push('}');
    Ok((revision, result))
}

/// Answers `server/discover`.
pub(crate) fn discover(info: &ServerInfo, supported: &[Revision]) -> String {
    let versions: Vec<String> = supported.iter().map(|revision| format!("\"{revision}\"")).collect();
    let mut result = format!(
        r#"{{"resultType":"complete","supportedVersions":[{}],"capabilities":{CAPABILITIES}"#,
        versions.join(",")
    );
    write_instructions(&mut result, info);
    result.push_str(&cache_hints(info));
    result.push('}');
    result
}

/// Answers `tools/list`, all tools on one page.
pub(crate) fn list_tools(
    params: &Params<'_>,
    tools: &[Arc<RawValue>],
    info: &ServerInfo,
    revision: Revision,
) -> Result<String, RpcError> {
    if params.get("cursor").is_some() {
        return Err(RpcError::invalid_params(
            "Invalid params: `cursor` is not one of ours; there is one page only",
        ));
    }
    let mut result =
        String::with_capacity(tools.iter().map(|tool| tool.get().len() + 1).sum::<usize>() + 256);
    result.push('{');
    if revision.is_stateless() {
        result.push_str(r#""resultType":"complete","#);
    }
    result.push_str(r#""tools":["#);
    for (nth, tool) in tools.iter().enumerate() {
        if nth > 0 {
            result.push(',');
        }
        result.push_str(tool.get());
    }
    result.push(']');
    if revision.is_stateless() {
        result.push_str(&cache_hints(info));
    }
    result.push('}');
    Ok(result)
}

fn implementation(info: &ServerInfo) -> String {
    let mut json = format!(r#"{{"name":{}"#, quoted(&info.name));
    if let Some(title) = &info.title {
        let _ = write!(json, r#","title":{}"#, quoted(title));
    }
    let _ = write!(json, r#","version":{}}}"#, quoted(&info.version));
    json
}

fn write_instructions(result: &mut String, info: &ServerInfo) {
    if let Some(instructions) = &info.instructions {
        let _ = write!(result, r#","instructions":{}"#, quoted(instructions));
    }
}

/// What 2026-07-28 wants on every result that could be cached; ours is stale at once. The results of calls do
/// not name the server: they are the handler's, word for word.
fn cache_hints(info: &ServerInfo) -> String {
    format!(
        r#","ttlMs":0,"cacheScope":"private","_meta":{{"io.modelcontextprotocol/serverInfo":{}}}"#,
        implementation(info)
    )
}
