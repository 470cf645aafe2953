//! What the server answers beside its tools, and what it says of itself.

use super::{
    event::EventKind,
    letter::{self, Heard},
    state::{OnCancel, State, Work},
    tools,
};
use serde_json::{Value, json};
use std::io;

const INFO: &str = r#"{"name":"demo-server","version":"1.0","title":"A server for tests","x-built":"today"}"#;
const CAPABILITIES: &str = r#"{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{},"completions":{},"logging":{},"experimental":{"x-demo":{"level":1.0}}}"#;
const INSTRUCTIONS: &str = "Call a tool, and cancel it.";

impl State {
    /// One line has arrived.
    pub(super) fn hear(&mut self, line: &str) -> io::Result<()> {
        self.report.tell(&EventKind::Received { line: line.to_owned() });
        let Ok(heard) = serde_json::from_str::<Heard<'_>>(line) else { return Ok(()) };
        if self.options.junk {
            letter::say("[debug] this is no message")?;
        }
        match (heard.id.map(|id| id.get()), heard.method.as_deref()) {
            (Some(id), Some(method)) => self.request(id, method, &heard),
            (Some(id), None) => self.answered(id, &heard),
            (None, Some("notifications/cancelled")) => {
                let id = heard.value()["requestId"].to_string();
                self.cancel(&id)
            }
            (None, _) => Ok(()),
        }
    }

    fn request(&mut self, id: &str, method: &str, heard: &Heard<'_>) -> io::Result<()> {
        match method {
            "initialize" if self.options.hang => Ok(()),
            "initialize" if !self.is_stateless() => self.plain(
                id,
                &format!(
                    r#""protocolVersion":"{}","capabilities":{CAPABILITIES},"serverInfo":{INFO},"instructions":"{INSTRUCTIONS}","x-motd":1.0"#,
                    self.options.revision
                ),
            ),
            "server/discover" if self.is_stateless() => self.plain(
                id,
                &format!(
                    r#""supportedVersions":["2026-07-28"],"capabilities":{CAPABILITIES},"serverInfo":{INFO},"instructions":"{INSTRUCTIONS}","x-motd":1.0"#
                ),
            ),
            "initialize" => letter::say(&letter::error(
                id,
                r#"{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"]}}"#,
            )),
            "ping" => self.plain(id, ""),
            "tools/list" => {
                let listed = tools::listed();
                self.plain(id, listed.trim_start_matches('{').strip_suffix('}').unwrap_or_default())
            }
            "tools/call" => self.call(id, heard),
            "resources/list" => {
                self.plain(id, r#""resources":[{"uri":"demo://one","name":"one","x-size":1.0}],"x-more":[]"#)
            }
            "resources/templates/list" => {
                self.plain(id, r#""resourceTemplates":[{"uriTemplate":"demo://{name}","name":"any"}]"#)
            }
            "resources/read" => self.plain(
                id,
                &format!(
                    r#""contents":[{{"uri":{},"text":"one","x-etag":1.0}}]"#,
                    heard.value()["uri"]
                ),
            ),
            "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" => self.plain(id, ""),
            "prompts/list" => self.plain(id, r#""prompts":[{"name":"hello","x-lang":"en"}]"#),
            "prompts/get" => self.plain(
                id,
                r#""messages":[{"role":"user","content":{"type":"text","text":"Hello","x-tone":1.0}}]"#,
            ),
            "completion/complete" => {
                self.plain(id, r#""completion":{"values":["one"],"total":1,"hasMore":false,"x-score":[1.0]}"#)
            }
            "subscriptions/listen" if self.is_stateless() => {
                let wanted: Value = heard.value()["notifications"].clone();
                let id: Value = serde_json::from_str(id).unwrap_or_default();
                let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
                let note = json!({ "notifications": wanted, "_meta": meta });
                letter::say(&letter::notification("notifications/subscriptions/acknowledged", &note.to_string()))
            }
            "x-demo/hang" => {
                let tag = heard.value()["tag"].as_str().unwrap_or_default().to_owned();
                self.begin(Work { id: id.to_owned(), tag, on_cancel: OnCancel::Ignore, until: None });
                Ok(())
            }
            method if method.starts_with("x-demo/") => {
                self.plain(id, &format!(r#""heard":{},"x-n":1.0"#, heard.raw()))
            }
            method => letter::say(&letter::error(
                id,
                &json!({ "code": -32601, "message": format!("Method not found: {method}") }).to_string(),
            )),
        }
    }

    /// A result of these members.
    fn plain(&self, id: &str, members: &str) -> io::Result<()> {
        let kind = if self.is_stateless() { r#""resultType":"complete""# } else { "" };
        let between = if kind.is_empty() || members.is_empty() { "" } else { "," };
        letter::say(&letter::result(id, &format!("{{{kind}{between}{members}}}")))
    }
}
