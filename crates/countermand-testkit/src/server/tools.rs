//! The tools. Each takes a `tag`, and `secs` after which it is finished; without, a recorder releases it.

use super::{
    letter::{self, Heard},
    state::{OnCancel, State, Work},
};
use serde_json::{Value, json};
use std::{io, time::Duration};
use tokio::time::Instant;

/// The tools, and what each does.
const TOOLS: [(&str, &str); 12] = [
    ("stubborn", "Works in the background, and ignores cancels."),
    ("obedient", "Works in the background, and stops when it is cancelled."),
    ("late", "Works in the background, and answers when it is cancelled."),
    ("pretends", "Works in the background; cancelled, it says so and works on."),
    ("talks", "Reports progress `steps` times and logs, and works on."),
    ("asks", "Asks its client `method` with `params`, and answers with the answer."),
    ("notifies", "Sends the notification `method` with `params`."),
    ("dies", "Ends its own process: `how` is exit or kill."),
    ("has_children", "Starts a process in a session of its own, and works as `stubborn` does."),
    ("odd", "Answers with members that nobody knows."),
    ("echo", "Answers with the params as they were written."),
    ("process", "Answers with the number of its process, and what its environment says."),
];

/// The variable that `process` tells.
const TOLD: &str = "DEMO_SERVER_TOLD";

/// The result of `tools/list`; with members that nobody knows, and numbers as few would write them.
pub(super) fn listed() -> String {
    let schema = r#"{"type":"object","properties":{"tag":{"type":"string"},"secs":{"type":"number"}},"x-order":["tag","secs"]}"#;
    let tool = |(name, description): &(&str, &str)| {
        format!(
            r#"{{"name":"{name}","description":"{description}","inputSchema":{schema},"x-weight":1.0,"execution":{{"taskSupport":"forbidden"}}}}"#
        )
    };
    let tools: Vec<String> = TOOLS.iter().map(tool).collect();
    format!(r#"{{"tools":[{}],"x-list":{{"n":1.50}}}}"#, tools.join(","))
}

/// What `odd` answers with. In 2026-07-28 the type of the result is added.
pub(super) const ODD: &str = r#""content":[{"type":"text","text":"odd","x-unknown":[1.0,2e3]},{"type":"hologram","frames":[{}]}],"structuredContent":{"z":1.10,"a":null},"isError":false,"x-cost":{"amount":1.00},"_meta":{"vendor/x":"\u00e9"}"#;

impl State {
    /// Calls a tool.
    pub(super) fn call(&mut self, id: &str, heard: &Heard<'_>) -> io::Result<()> {
        let params = heard.value();
        let arguments = &params["arguments"];
        let tag = arguments["tag"].as_str().unwrap_or_default().to_owned();
        let until = arguments["secs"].as_f64().map(|secs| Instant::now() + Duration::from_secs_f64(secs));
        let mut works = |on_cancel| {
            self.begin(Work { id: id.to_owned(), tag: tag.clone(), on_cancel, until });
            Ok(())
        };
        match params["name"].as_str().unwrap_or_default() {
            "stubborn" => works(OnCancel::Ignore),
            "obedient" => works(OnCancel::Obey),
            "late" => works(OnCancel::Answer),
            "pretends" => works(OnCancel::Pretend),
            "has_children" => {
                self.report.start_grandchild()?;
                self.begin(Work { id: id.to_owned(), tag, on_cancel: OnCancel::Ignore, until });
                Ok(())
            }
            "talks" => {
                self.talk(&params)?;
                self.begin(Work { id: id.to_owned(), tag, on_cancel: OnCancel::Obey, until });
                Ok(())
            }
            "asks" => self.ask(id, &params),
            "notifies" => {
                let method = arguments["method"].as_str().unwrap_or_default();
                letter::say(&letter::notification(method, &arguments["params"].to_string()))?;
                self.answer(id, json!({ "content": [] }))
            }
            "dies" if arguments["how"] == "kill" => {
                let myself = rustix::process::getpid();
                Ok(rustix::process::kill_process(myself, rustix::process::Signal::KILL)?)
            }
            "dies" => std::process::exit(7),
            "odd" => {
                let kind = if self.is_stateless() { r#""resultType":"complete","# } else { "" };
                letter::say(&letter::result(id, &format!("{{{kind}{ODD}}}")))
            }
            "echo" => self.answer(
                id,
                json!({ "content": [{ "type": "text", "text": heard.raw() }], "structuredContent": params }),
            ),
            "process" => {
                let told = std::env::var(TOLD).ok();
                let process = json!({ "pid": std::process::id(), "told": told });
                self.answer(id, json!({ "content": [], "structuredContent": process }))
            }
            other => letter::say(&letter::error(
                id,
                &json!({ "code": -32602, "message": format!("Unknown tool: {other}"), "data": { "x": 1.5 } })
                    .to_string(),
            )),
        }
    }

    fn talk(&self, params: &Value) -> io::Result<()> {
        let steps = params["arguments"]["steps"].as_u64().unwrap_or(1);
        let token = &params["_meta"]["progressToken"];
        for step in 1..=steps {
            if !token.is_null() {
                let note = format!(
                    r#"{{"progressToken":{token},"progress":{step}.0,"total":{steps},"message":"step {step}","x-eta":0.50}}"#
                );
                letter::say(&letter::notification("notifications/progress", &note))?;
            }
        }
        // 2026-07-28 has logging only where a request asks for it.
        if !self.is_stateless() || !params["_meta"]["io.modelcontextprotocol/logLevel"].is_null() {
            let note = r#"{"level":"info","logger":"demo","data":{"said":1.0},"x-unknown":true}"#;
            letter::say(&letter::notification("notifications/message", note))?;
        }
        Ok(())
    }

    /// Asks the client: by a request, or by a result that requires input.
    fn ask(&mut self, id: &str, params: &Value) -> io::Result<()> {
        let arguments = &params["arguments"];
        if self.is_stateless() {
            let state = format!("state of {}", arguments["tag"]);
            if params["requestState"] == state {
                let client = params["inputResponses"]["it"].clone();
                return self.answer(id, json!({ "content": [], "structuredContent": { "client": client } }));
            }
            let it = json!({ "method": arguments["method"], "params": arguments["params"] });
            return self.answer(
                id,
                json!({ "resultType": "input_required", "inputRequests": { "it": it }, "requestState": state }),
            );
        }
        self.questions += 1;
        let number = format!("\"question-{}\"", self.questions);
        let question = json!({
            "jsonrpc": "2.0",
            "id": serde_json::from_str::<Value>(&number).unwrap_or_default(),
            "method": arguments["method"],
            "params": arguments["params"],
        });
        self.asked.insert(number, id.to_owned());
        let tag = arguments["tag"].as_str().unwrap_or_default().to_owned();
        self.begin(Work { id: id.to_owned(), tag, on_cancel: OnCancel::Obey, until: None });
        letter::say(&question.to_string())
    }

    /// The client has answered a question.
    pub(super) fn answered(&mut self, number: &str, heard: &Heard<'_>) -> io::Result<()> {
        let Some(id) = self.asked.remove(number) else { return Ok(()) };
        self.works.retain(|work| work.id != id);
        let answer = heard.result.or(heard.error).map_or("null", |raw| raw.get());
        letter::say(&letter::result(
            &id,
            &format!(r#"{{"content":[],"structuredContent":{{"client":{answer}}}}}"#),
        ))
    }
}
