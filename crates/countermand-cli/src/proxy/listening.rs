//! What a client of 2026-07-28 listens to, where the server is of an older revision: that one notifies unasked.

use super::{
    link::{Link, Note},
    listing, raw,
    rounds::SUBSCRIPTION,
};
use countermand_mcp::{Answer, Call, Outgoing};
use futures_util::{
    Stream, StreamExt as _,
    stream::{self, SelectAll},
};
use serde_json::value::RawValue;
use std::sync::Arc;
use tokio::sync::broadcast::{Receiver, error::RecvError};

/// What can be listened to: the name that asks for it, the notification, and the capability that has it.
const KINDS: [(&str, &str, &str, &str); 4] = [
    ("toolsListChanged", "notifications/tools/list_changed", "tools", "listChanged"),
    ("promptsListChanged", "notifications/prompts/list_changed", "prompts", "listChanged"),
    ("resourcesListChanged", "notifications/resources/list_changed", "resources", "listChanged"),
    ("resourceSubscriptions", "notifications/resources/updated", "resources", "subscribe"),
];

/// Tells the client what the servers notify of, until it, or all of them, have gone.
pub(super) async fn serve(call: &Call, links: &[Arc<Link>]) -> Answer {
    // Before anything is asked for, so that nothing is missed.
    let mut heard = SelectAll::new();
    let (mut wanted, mut uris) = (raw::Members::new(), Vec::new());
    for link in links {
        heard.push(notes(link).boxed());
        link.ready();
        let (granted, resources) = granted(call, link);
        for uri in &resources {
            let params = vec![("uri".to_owned(), raw::quoted(uri))];
            let outgoing =
                Outgoing { method: "resources/subscribe".to_owned(), params, ..Outgoing::default() };
            if let Err(error) = listing::ask(link, outgoing).await {
                tracing::debug!(uri, "an MCP server does not tell of a resource: {}", error.message);
            }
        }
        granted.into_iter().for_each(|(name, value)| raw::set(&mut wanted, &name, value));
        uris.extend(resources);
    }
    let granted = vec![("notifications".to_owned(), raw::object(&wanted))];
    tell(call, "notifications/subscriptions/acknowledged", granted);
    loop {
        let note = tokio::select! {
            _ = call.handle.cancelled() => break,
            note = heard.next() => note,
        };
        let Some(note) = note else { break };
        let kind = KINDS.iter().find(|(_, method, ..)| *method == note.method);
        let params = raw::members(note.params.as_deref());
        let concerns = match kind {
            Some(("resourceSubscriptions", ..)) => {
                raw::text(&params, "uri").is_some_and(|uri| uris.contains(&uri))
            }
            Some((name, ..)) => raw::get(&wanted, name).is_some(),
            None => false,
        };
        if concerns {
            tell(call, &note.method, params);
        }
    }
    Answer::result(raw::object(&named(call, Vec::new())))
}

/// What one server says, until it has gone.
fn notes(link: &Arc<Link>) -> impl Stream<Item = Note> + Send + use<> {
    let (link, notes) = (Arc::clone(link), link.notes());
    stream::unfold((link, notes), |(link, mut notes)| async move {
        let note = tokio::select! {
            note = next(&mut notes) => note,
            () = link.died() => None,
        };
        note.map(|note| (note, (link, notes)))
    })
}

/// What the client asks for and the server has; and the resources among it.
fn granted(call: &Call, link: &Link) -> (raw::Members, Vec<String>) {
    let asked = raw::members(raw::get(&call.extra, "notifications"));
    let capabilities = raw::members(Some(&link.peer.hello().capabilities));
    let has = |capability: &str, what: &str| {
        let members = raw::members(raw::get(&capabilities, capability));
        raw::get(&members, what).is_some_and(|value| value.get() == "true")
    };
    let granted = KINDS.iter().filter(|(_, _, capability, what)| has(capability, what));
    let granted: raw::Members = granted
        .filter_map(|(name, ..)| Some(((*name).to_owned(), raw::get(&asked, name)?.to_owned())))
        .filter(|(_, value)| !matches!(value.get(), "false" | "null"))
        .collect();
    let uris = raw::elements(raw::get(&granted, "resourceSubscriptions"));
    let uris = uris.iter().filter_map(|uri| serde_json::from_str(uri.get()).ok()).collect();
    (granted, uris)
}

async fn next(notes: &mut Receiver<Note>) -> Option<Note> {
    loop {
        match notes.recv().await {
            Ok(note) => return Some(note),
            Err(RecvError::Lagged(missed)) => {
                tracing::debug!(missed, "a client did not hear what a server said")
            }
            Err(RecvError::Closed) => return None,
        }
    }
}

fn tell(call: &Call, method: &str, params: raw::Members) {
    call.back.notify(method, Some(&raw::object(&named(call, params))));
}

/// The same, naming the request that listens.
fn named(call: &Call, mut members: raw::Members) -> raw::Members {
    let mut meta = raw::members(raw::get(&members, "_meta"));
    raw::set(&mut meta, SUBSCRIPTION, RawValue::to_owned(&call.request_id));
    raw::set(&mut members, "_meta", raw::object(&meta));
    members
}
