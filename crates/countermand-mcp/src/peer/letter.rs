//! What we write to a server. Params and results go out as they came in, on one line.

use super::words::{Introduction, Outgoing};
use crate::Revision;
use crate::json::{quoted, single_line};
use serde_json::value::RawValue;
use std::fmt::Write as _;

pub(super) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// The request with that id, which is its progress token as well.
pub(super) fn request(id: u64, ask: &Outgoing, revision: Revision, introduction: &Introduction) -> String {
    let mut json = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{}"#, quoted(&ask.method));
    let params = ask.params.iter().filter(|(name, _)| name != "_meta");
    let mut members = Members::new(&mut json, r#","params":"#);
    for (name, value) in params {
        members.add(name, value.get());
    }
    let meta = meta(id, ask, revision, introduction);
    if !meta.is_empty() {
        members.add("_meta", &meta);
    }
    members.end();
    json.push('}');
    json
}

/// The `_meta` of a request; empty where there is nothing to say.
fn meta(id: u64, ask: &Outgoing, revision: Revision, introduction: &Introduction) -> String {
    let mut json = String::new();
    let mut members = Members::new(&mut json, "");
    let stateless = revision.is_stateless();
    for (name, value) in &ask.meta {
        let there = match name.as_str() {
            "progressToken" | VERSION => false,
            CLIENT_INFO | CAPABILITIES | LOG_LEVEL => stateless,
            _ => true,
        };
        if there {
            members.add(name, value.get());
        }
    }
    if stateless {
        members.add(VERSION, &quoted(revision.as_str()));
        for (name, value) in
            [(CLIENT_INFO, &introduction.client_info), (CAPABILITIES, &introduction.capabilities)]
        {
            if !ask.meta.iter().any(|(given, _)| given == name) {
                members.add(name, value.get());
            }
        }
    }
    if ask.progress {
        members.add("progressToken", &id.to_string());
    }
    members.end();
    json
}

/// The members of an object that is not written at all while it has none.
struct Members<'a> {
    json: &'a mut String,
    before: &'static str,
    any: bool,
}

impl<'a> Members<'a> {
    fn new(json: &'a mut String, before: &'static str) -> Self {
        Self { json, before, any: false }
    }

    fn add(&mut self, name: &str, value: &str) {
        if !std::mem::replace(&mut self.any, true) {
            self.json.push_str(self.before);
            self.json.push('{');
        } else {
            self.json.push(',');
        }
        let _ = write!(self.json, "{}:{}", quoted(name), single_line(value));
    }

    fn end(self) {
        if self.any {
            self.json.push('}');
        }
    }
}

pub(super) fn notification(method: &str, params: Option<&RawValue>) -> String {
    match params {
        Some(params) => format!(
            r#"{{"jsonrpc":"2.0","method":{},"params":{}}}"#,
            quoted(method),
            single_line(params.get())
        ),
        None => format!(r#"{{"jsonrpc":"2.0","method":{}}}"#, quoted(method)),
    }
}

/// The cancel of the request with that id.
pub(super) fn cancelled(id: u64, reason: Option<&str>) -> String {
    let mut json =
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}"#);
    if let Some(reason) = reason {
        let _ = write!(json, r#","reason":{}"#, quoted(reason));
    }
    json.push_str("}}");
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    fn introduction() -> Introduction {
        Introduction {
            client_info: raw(r#"{"name":"c"}"#),
            capabilities: raw(r#"{"a":1.0}"#),
            prefer: Revision::V2026_07_28,
        }
    }

    #[test]
    fn a_request_without_params_has_none() {
        let ask = Outgoing { method: "tools/list".into(), ..Outgoing::default() };
        let json = request(7, &ask, Revision::V2025_11_25, &introduction());
        assert_eq!(json, r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#);
    }

    #[test]
    fn params_go_out_as_they_came_on_one_line() {
        let ask = Outgoing {
            method: "x/\"y".into(),
            params: vec![("b".into(), raw("1.0")), ("a".into(), raw("{\n \"c\" : [ ]}"))],
            meta: vec![("k".into(), raw("2e0")), ("progressToken".into(), raw("\"theirs\""))],
            progress: true,
            ..Outgoing::default()
        };
        assert_eq!(
            request(7, &ask, Revision::V2025_06_18, &introduction()),
            r#"{"jsonrpc":"2.0","id":7,"method":"x/\"y","params":{"b":1.0,"a":{  "c" : [ ]},"_meta":{"k":2e0,"progressToken":7}}}"#
        );
    }

    #[test]
    fn only_a_stateless_request_says_who_asks_and_in_which_revision() {
        let ask = Outgoing {
            method: "m".into(),
            meta: vec![
                (CAPABILITIES.into(), raw(r#"{"mine":{}}"#)),
                (VERSION.into(), raw("\"1999-01-01\"")),
                ("io.modelcontextprotocol/related-task".into(), raw("{}")),
            ],
            ..Outgoing::default()
        };
        assert_eq!(
            request(1, &ask, Revision::V2025_11_25, &introduction()),
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"io.modelcontextprotocol/related-task":{}}}}"#
        );
        assert_eq!(
            request(1, &ask, Revision::V2026_07_28, &introduction()),
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"mine":{}},"io.modelcontextprotocol/related-task":{},"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c"}}}}"#
        );
    }
}
