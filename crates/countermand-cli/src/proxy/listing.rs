//! What servers list, under the names that it has here.

use super::{Proxy, link::Link, raw, server::Server};
use countermand_mcp::{Call, Happened, Lost, Outgoing, RpcError};
use serde_json::value::RawValue;
use std::sync::Arc;

/// A method that lists something, and the member of its result that holds it.
pub(super) const LISTS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("prompts/list", "prompts"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
];

/// Pages that a server may list at most.
const PAGES: usize = 1_000;

/// Whether what it lists is called by a name that is ours to change.
fn is_named(method: &str) -> bool {
    matches!(method, "tools/list" | "prompts/list")
}

/// 2026-07-28 wants hints on every result that could be cached. What does not bring them, as an older server's, is stale at
/// once and nobody else's.
pub(super) fn hint(method: &str, result: &mut Box<RawValue>) {
    if method != "resources/read" && !LISTS.iter().any(|(list, _)| *list == method) {
        return;
    }
    let mut members = raw::members(Some(result));
    for (name, value) in [("ttlMs", "0"), ("cacheScope", r#""private""#)] {
        if raw::get(&members, name).is_none() {
            raw::set(&mut members, name, raw::json(value));
        }
    }
    *result = raw::object(&members);
}

/// Everything that a server lists, page by page.
///
/// # Errors
/// The server's; or that it did not answer.
pub(super) async fn all(
    server: &Server,
    link: &Link,
    call: &Call,
    method: &str,
) -> Result<Vec<Box<RawValue>>, RpcError> {
    let Some((_, member)) = LISTS.iter().find(|(name, _)| *name == method) else { return Ok(Vec::new()) };
    let (mut elements, mut cursor) = (Vec::new(), None);
    for _ in 0..PAGES {
        let params = cursor.map(|cursor| vec![("cursor".to_owned(), cursor)]).unwrap_or_default();
        let meta = raw::members(call.meta.as_deref());
        let outgoing = Outgoing { method: method.to_owned(), params, meta, ..Outgoing::default() };
        let mut result = raw::members(Some(&ask(link, outgoing).await?));
        elements.extend(shown(server, method, raw::get(&result, member)));
        cursor = raw::take(&mut result, "nextCursor").filter(|cursor| cursor.get() != "null");
        if cursor.is_none() {
            return Ok(elements);
        }
    }
    Ok(elements)
}

/// The elements of a list that are served, under the names that they have here.
pub(super) fn shown(server: &Server, method: &str, list: Option<&RawValue>) -> Vec<Box<RawValue>> {
    let elements = raw::elements(list);
    if !is_named(method) {
        return elements;
    }
    let renamed = |element: Box<RawValue>| {
        let mut members = raw::members(Some(&element));
        let Some(own) = raw::text(&members, "name") else { return Some(element) };
        if method == "tools/list" && !server.serves_tool(&own) {
            return None;
        }
        if server.config.prefix.is_empty() {
            return Some(element);
        }
        raw::set(&mut members, "name", raw::quoted(&server.exposed(&own)));
        Some(raw::object(&members))
    };
    elements.into_iter().filter_map(renamed).collect()
}

/// Asks a server something simple, and waits for the answer.
///
/// # Errors
/// The server's; or that it did not answer.
pub(super) async fn ask(link: &Link, outgoing: Outgoing) -> Result<Box<RawValue>, RpcError> {
    let method = outgoing.method.clone();
    let mut pending = link.peer.request(outgoing);
    loop {
        match pending.next().await {
            Happened::Answered(answer) => return answer,
            Happened::Lost(lost) => return Err(unanswered(&method, &lost)),
            Happened::Progress(_) | Happened::Noted { .. } | Happened::Asked(_) => {}
        }
    }
}

fn unanswered(method: &str, lost: &Lost) -> RpcError {
    RpcError::new(RpcError::INTERNAL_ERROR, format!("The MCP server did not answer `{method}`: {lost}"))
}

impl Proxy {
    /// Lists what all servers have, after what is ours. A server that cannot be asked is left out, with a word in the log.
    pub(super) async fn listed(&self, call: &Call, method: &str, own: &[Arc<RawValue>]) -> Box<RawValue> {
        let asking = self.servers.iter().map(|server| async move {
            let link = server
                .link(&call.client)
                .await
                .map_err(|why| RpcError::new(RpcError::INTERNAL_ERROR, why))?;
            if !offers(&link, method) {
                return Ok(Vec::new());
            }
            all(server, &link, call, method).await
        });
        let answers = futures_util::future::join_all(asking).await;
        let mut elements: Vec<Box<RawValue>> = own.iter().map(|tool| RawValue::to_owned(tool)).collect();
        for (server, answer) in self.servers.iter().zip(answers) {
            match answer {
                Ok(more) => elements.extend(more),
                Err(error) => {
                    tracing::warn!(
                        server = server.config.name,
                        method,
                        "a server is left out of a list: {}",
                        error.message
                    );
                }
            }
        }
        if is_named(method) {
            elements = unambiguous(elements, method);
        }
        let member = LISTS.iter().find(|(name, _)| *name == method).map_or("", |(_, member)| member);
        if method == "tools/list" {
            self.remember(&elements);
        }
        raw::object(&vec![(member.to_owned(), raw::list(elements.iter().map(|element| &**element)))])
    }

    /// Keeps what tools there are, for what the wire has to know of them.
    pub(super) fn remember(&self, tools: &[Box<RawValue>]) {
        let mut known = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let same = known.len() == tools.len()
            && known.iter().zip(tools).all(|(known, tool)| known.get() == tool.get());
        if !same {
            *known = tools.iter().map(|tool| Arc::from(tool.clone())).collect();
        }
    }
}

/// Of two with the same name the first one is served.
fn unambiguous(mut elements: Vec<Box<RawValue>>, method: &str) -> Vec<Box<RawValue>> {
    let mut names = std::collections::HashSet::new();
    elements.retain(|element| match raw::text(&raw::members(Some(element)), "name") {
        Some(name) if !names.insert(name.clone()) => {
            tracing::warn!(
                name,
                method,
                "two have this name, and the first one is served: give one of the servers a `prefix`"
            );
            false
        }
        _ => true,
    });
    elements
}

/// Whether a server says that it has what this method is about.
pub(super) fn offers(link: &Link, method: &str) -> bool {
    let capabilities = raw::members(Some(&link.peer.hello().capabilities));
    let needed = match method.split('/').next() {
        Some("completion") => "completions",
        Some(first @ ("tools" | "prompts" | "resources" | "logging")) => first,
        _ => return true,
    };
    raw::get(&capabilities, needed).is_some_and(|there| there.get() != "null")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hinted(method: &str, result: &str) -> String {
        let mut result = raw::json(result);
        hint(method, &mut result);
        result.get().to_owned()
    }

    #[test]
    fn what_could_be_cached_says_for_how_long_and_the_servers_word_stays() {
        let hints = r#""ttlMs":0,"cacheScope":"private"}"#;
        assert_eq!(hinted("tools/list", r#"{"tools":[]}"#), format!(r#"{{"tools":[],{hints}"#));
        assert_eq!(hinted("resources/read", r#"{"contents":[]}"#), format!(r#"{{"contents":[],{hints}"#));
        let own = r#"{"prompts":[],"ttlMs":5,"cacheScope":"public"}"#;
        assert_eq!(hinted("prompts/list", own), own);
        assert_eq!(hinted("prompts/get", "{}"), "{}");
    }
}
