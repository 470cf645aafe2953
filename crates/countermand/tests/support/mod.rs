//! A scripted upstream on a raw socket, and the definitions that are tried against it.

#![allow(dead_code, unused_imports, unreachable_pub, missing_docs)] // Each test binary uses a part of it.

mod fake;

pub use fake::{Answer, Fake, Request, Seen, answer, json};

use countermand::{
    clock::SystemClock,
    core::{
        self, Key, Kind, NewRow, OnDisconnect, OperationId, Policy, Row, Timestamp, WhenCompleted,
        ports::Upstream,
    },
    definition::*,
    secret::Secrets,
    template::{BodyTemplate, RequestTemplate, ValueTemplate},
    upstream::{Upstreams, install_crypto},
};
use serde_json::{Map, Value as Json};
use std::{sync::Arc, time::Duration};

pub fn request(line: &str) -> RequestTemplate {
    let (method, target) = line.split_once(' ').unwrap();
    RequestTemplate {
        method: method.into(),
        target: target.parse().unwrap(),
        query: Vec::new(),
        headers: Vec::new(),
        body: BodyTemplate::None,
    }
}

pub fn undo(line: &str) -> UndoDefinition {
    UndoDefinition::Request(request(line))
}

pub fn template(text: &str) -> ValueTemplate {
    ValueTemplate::Text(text.parse().unwrap())
}

pub fn path(text: &str) -> Extract {
    Extract::JsonPath(text.into())
}

pub fn upstream(base: &str) -> HttpUpstream {
    HttpUpstream {
        name: "fake".into(),
        base_url: base.into(),
        headers: Vec::new(),
        limits: HttpLimits::default(),
    }
}

pub fn policy(kind: Kind) -> Policy {
    Policy {
        kind,
        can_cancel: true,
        confirm_within: Duration::from_secs(30),
        force_after: None,
        find: None,
        key_window: None,
        shield: Duration::from_secs(30),
        horizon: Duration::from_secs(60),
        poll_every: Duration::from_millis(500),
        poll_max: Duration::from_secs(10),
        lifetime: Duration::from_secs(7200),
        undo_steps: 0,
        when_completed: WhenCompleted::Keep,
        mark: false,
    }
}

pub fn job() -> JobDefinition {
    let states = |text: &str| vec![text.to_owned()];
    JobDefinition {
        create: CreateDefinition {
            request: request("POST /jobs"),
            id: IdSource::Response(path("$.id")),
            save: [("url".to_owned(), path("$.url"))].into(),
        },
        status: StatusDefinition {
            request: request("GET /jobs/${op.id}"),
            state: StateSource::Paths(vec!["$.state".into(), "$.status".into()]),
            states: States {
                running: vec!["running".into(), "1".into()],
                succeeded: states("done"),
                failed: states("failed"),
                cancelled: vec!["cancelled".into(), "true".into()],
            },
            absent: None,
            progress: Some("$.percent".into()),
            error: Some("$.message".into()),
            save: [("next".to_owned(), path("$.next"))].into(),
        },
        result: None,
        cancel: CancelDefinition::Request {
            request: request("DELETE /jobs/${op.id}"),
            force: Some(request("DELETE /jobs/${op.id}/now")),
        },
        find: Some(FindDefinition {
            request: request("GET /jobs"),
            id: Some("$.jobs[?@.key=='${op.key}'].id".parse().unwrap()),
        }),
    }
}

pub fn definition(upstream: HttpUpstream, work: Work) -> ToolDefinition {
    let kind = if matches!(work, Work::Job(_)) { Kind::Job } else { Kind::Http };
    ToolDefinition {
        tool: "tool".into(),
        upstream: UpstreamDefinition::Http(upstream),
        work,
        compensate: Vec::new(),
        mark: None,
        policy: policy(kind),
    }
}

pub fn job_at(fake: &Fake) -> ToolDefinition {
    definition(upstream(&fake.base), Work::Job(Box::new(job())))
}

/// Its HTTP upstream, to be changed.
pub fn http(definition: &mut ToolDefinition) -> &mut HttpUpstream {
    match &mut definition.upstream {
        UpstreamDefinition::Http(http) => http,
        other => panic!("no HTTP upstream: {other:?}"),
    }
}

pub fn once() -> HttpDefinition {
    HttpDefinition {
        request: request("POST /orders"),
        value: "$".into(),
        effect: Effect::Once,
        find: None,
        id: None,
    }
}

pub fn read_at(base: &str, line: &str) -> ToolDefinition {
    let http = HttpDefinition {
        request: request(line),
        value: "$".into(),
        effect: Effect::None,
        find: None,
        id: None,
    };
    definition(upstream(base), Work::Http(Box::new(http)))
}

pub fn upstreams() -> Upstreams {
    install_crypto();
    Upstreams::new(Arc::new(Secrets::new()), Arc::new(SystemClock::new()))
}

pub fn performer(definition: &ToolDefinition) -> Arc<dyn Upstream> {
    upstreams().for_definition(definition).unwrap()
}

pub fn key() -> Key {
    Key::from_random([7; 16])
}

/// A row of such a definition, with an id.
pub fn row(definition: &ToolDefinition, inputs: Json) -> Row {
    let Json::Object(inputs) = inputs else { panic!("inputs are an object") };
    let mut row = Row::new(
        NewRow {
            id: OperationId(uuid::Uuid::nil()),
            call: core::CallId(uuid::Uuid::nil()),
            session: None,
            request_id: None,
            principal: "local:0".into(),
            tool: definition.tool.clone(),
            args_hash: String::new(),
            inputs,
            definition: "hash".into(),
            policy: Arc::new(definition.policy.clone()),
            upstream: definition.upstream.name().to_owned(),
            key: key(),
            on_disconnect: OnDisconnect::Cancel,
            owner: "test".into(),
            epoch: 1,
        },
        Timestamp::from_micros(0),
    );
    row.upstream_id = Some("j/1".into());
    row
}

pub fn plain_row(definition: &ToolDefinition) -> Row {
    row(definition, Json::Object(Map::new()))
}
