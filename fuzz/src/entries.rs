//! One entry a target: bytes in, and claims that hold for all bytes.

use countermand::{
    core::event::StatusAnswer,
    definition::{Extract, StateSource, States, StatusDefinition},
    template::{
        BodyTemplate, HeaderTemplate, RenderedHeader, RequestTemplate, Scope, Template, ValueTemplate,
    },
    upstream::fuzzing::Answers,
};
use countermand_cli::{config, plan::Plan};
use countermand_mcp::{Answer, Call, Calls, Handler, Limits, ServerInfo, StdioOptions, serve_stdio};
use serde_json::{Map, Value, value::RawValue};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::io::AsyncReadExt as _;
use tokio_util::sync::CancellationToken;

/// A config file: errors that can be shown, or a config whose plan can be.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match config::parse("fuzz.yaml", text, &|_| None) {
        Ok(config) => {
            let _plan = Plan::of(&config).render(Some(100));
            let _missing = config.missing_secrets(&|_| None);
        }
        Err(errors) => {
            for problem in errors.errors() {
                let (line, column) = errors.position(problem);
                assert!(line >= 1 && column >= 1);
            }
            assert!(!errors.to_string().is_empty());
        }
    }
}

/// A request, a part a line (target, query, header, body), and then its arguments as JSON: nothing leaves its place.
pub fn template(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.splitn(5, '\n');
    let mut next = || lines.next().unwrap_or_default().to_owned();
    let (target, query, header, body, arguments) = (next(), next(), next(), next(), next());
    let parsed = |text: String| text.parse::<Template>().ok();
    let (Some(target), Some(query), Some(header), Some(body)) =
        (parsed(target), parsed(query), parsed(header), parsed(body))
    else {
        return;
    };
    for template in [&target, &query, &header, &body] {
        let again: Template = template.source().parse().expect("what was written is read again");
        assert_eq!(&again, template);
    }
    let arguments: Map<String, Value> = serde_json::from_str(&arguments).unwrap_or_default();
    // The config refuses a fragment of its own.
    if target.source().contains('#') {
        return;
    }
    let request = RequestTemplate {
        method: "POST".to_owned(),
        target,
        query: vec![("q&".to_owned(), ValueTemplate::Text(query))],
        headers: vec![("X-Fuzz".to_owned(), HeaderTemplate::Text(header))],
        body: BodyTemplate::Json(ValueTemplate::Object(vec![(
            "b".to_owned(),
            ValueTemplate::Text(body.clone()),
        )])),
    };
    let form = RequestTemplate {
        body: BodyTemplate::Form(vec![("b".to_owned(), ValueTemplate::Text(body))]),
        ..request.clone()
    };
    let base = url::Url::parse("http://upstream.example:81/api").expect("a URL");
    let mut scope = Scope::of_call(&arguments).into_owned();
    scope.id = arguments.get("id").and_then(Value::as_str).map(|id| id.to_owned().into());
    for request in [request, form] {
        let Ok(rendered) = request.render(&base, &scope) else { continue };
        assert_eq!(rendered.url.origin(), base.origin(), "{}", rendered.url);
        assert!(rendered.url.username().is_empty() && rendered.url.password().is_none());
        assert!(rendered.url.fragment().is_none(), "{}", rendered.url);
        for (_, value) in &rendered.headers {
            let RenderedHeader::Value(value) = value else { continue };
            assert!(!value.as_bytes().contains(&b'\n') && !value.as_bytes().contains(&b'\r'));
        }
    }
}

/// A path, a status code, a header value, then a body: what an answer says is never guessed.
pub fn answer(data: &[u8]) {
    let mut parts = data.splitn(4, |byte| *byte == b'\n');
    let mut next = || parts.next().unwrap_or_default();
    let (path, code, header, body) = (next(), next(), next(), next());
    let (Ok(path), Ok(code)) = (std::str::from_utf8(path), std::str::from_utf8(code)) else { return };
    // Deep queries over deep bodies are slow, and no finding.
    if path.len() > 64 || body.len() > 2_048 {
        return;
    }
    let status = code.trim().parse().ok().and_then(|code| http::StatusCode::from_u16(code).ok());
    let status = status.unwrap_or(http::StatusCode::OK);
    let mut answer = http::Response::builder().status(status);
    if let Ok(value) = http::HeaderValue::from_bytes(header) {
        answer = answer.header("retry-after", value.clone()).header("location", value.clone());
        answer = answer.header("content-type", value);
    }
    let Ok(answer) = answer.body(body.to_vec()) else { return };
    let states = |text: &str| vec![text.to_owned()];
    let definition = StatusDefinition {
        request: RequestTemplate {
            method: "GET".to_owned(),
            target: "/jobs".parse().expect("a template"),
            query: Vec::new(),
            headers: Vec::new(),
            body: BodyTemplate::None,
        },
        state: StateSource::Paths(vec![path.to_owned()]),
        states: States {
            running: states("running"),
            succeeded: states("done"),
            failed: states("failed"),
            cancelled: states("cancelled"),
        },
        absent: None,
        progress: Some("$.percent".to_owned()),
        error: Some(path.to_owned()),
        save: [("saved".to_owned(), Extract::JsonPath(path.to_owned()))].into(),
    };
    let found = run(async { Answers::at_most(1_024).read(&definition, path, answer).await });
    let Ok(found) = found else { return };
    let json = serde_json::from_slice::<Value>(body);
    match found.status {
        StatusAnswer::Missing => assert!(matches!(status.as_u16(), 404 | 410)),
        StatusAnswer::Ended { .. } | StatusAnswer::Running { .. } => {
            assert!(status.is_success() && json.is_ok(), "{status}");
        }
        StatusAnswer::Failed(trouble) => assert!(!trouble.message.is_empty()),
    }
    if let Some(id) = found.id {
        assert!(!id.as_str().is_empty());
    }
}

/// Bytes on stdin: lines of JSON come out, whatever went in, and it ends.
pub fn stdio(data: &[u8]) {
    let input = std::io::Cursor::new(data.to_vec());
    let limits = Limits { message: 4 * 1024, ..Limits::default() };
    let said = run(async {
        let (output, mut read) = tokio::io::duplex(64 * 1024);
        let options = StdioOptions { principal: "fuzz".to_owned(), drain: Duration::from_secs(5) };
        let serving =
            serve_stdio(Arc::new(Echo), Calls::new(limits), input, output, CancellationToken::new(), options);
        let mut said = Vec::new();
        let (end, _) = tokio::join!(serving, read.read_to_end(&mut said));
        assert_eq!(end.expect("it can be read").unfinished, 0);
        said
    });
    for line in said.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let message: Value = serde_json::from_slice(line).expect("a line of JSON");
        assert_eq!(message["jsonrpc"], "2.0");
    }
}

/// Answers each call at once, with its arguments.
struct Echo;

impl Handler for Echo {
    fn server_info(&self) -> ServerInfo {
        ServerInfo { name: "echo".to_owned(), title: None, version: "0".to_owned(), instructions: None }
    }

    fn tools(&self) -> Vec<Arc<RawValue>> {
        let tool = r#"{"name":"echo","inputSchema":{"type":"object"}}"#.to_owned();
        vec![RawValue::from_string(tool).expect("JSON").into()]
    }

    async fn call(&self, call: Call) -> Answer {
        let arguments = call.arguments.as_deref().map_or("null", RawValue::get);
        let result =
            format!(r#"{{"content":[],"structuredContent":{{"arguments":{arguments}}},"isError":false}}"#);
        Answer::result(RawValue::from_string(result).expect("arguments are JSON"))
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(work)
}
