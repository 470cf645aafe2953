//! What a client of 2026-07-28 listens to, where the server is of an older revision: that one notifies unasked.

use super::{
    link::{Link, Note},
    listing, raw,
    rounds::SUBSCRIPTION,
};
use countermand_mcp::{Answer, Call, Outgoing};
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

/// Tells the client what the server notifies of, until one of them has gone.
pub(super) async fn serve(call: &Call, link: &Arc<Link>) -> Answer {
    // Before anything is asked for, so that nothing is missed.
    let mut notes = link.notes();
    link.ready();
    let (wanted, uris) = wanted(call, link);
    for uri in &uris {
        let params = vec![("uri".to_owned(), raw::quoted(uri))];
        let outgoing = Outgoing { method: "resources/subscribe".to_owned(), params, ..Outgoing::default() };
        if let Err(error) = listing::ask(link, outgoing).await {
            tracing::warn!(uri, "an MCP server does not tell of a resource: {}", error.message);
        }
    }
    let granted = vec![("notifications".to_owned(), raw::object(&wanted))];
    tell(call, "notifications/subscriptions/acknowledged", granted);
    loop {
        tokio::select! {
            _ = call.handle.cancelled() => break,
            () = link.died() => break,
            note = next(&mut notes) => {
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
        }
    }
    Answer::result(raw::object(&named(call, Vec::new())))
}

/// What the client asks for and the server has; and the resources among it.
fn wanted(call: &Call, link: &Link) -> (raw::Members, Vec<String>) {
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
