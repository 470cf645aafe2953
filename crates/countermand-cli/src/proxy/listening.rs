//! `subscriptions/listen` of 2026-07-28 in front of servers that notify in a session of theirs.

use super::{Proxy, link::Note, listing, raw};
use countermand_mcp::{Answer, Call, Outgoing};
use serde_json::value::RawValue;
use std::sync::Arc;
use tokio::sync::mpsc;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const UPDATED: &str = "notifications/resources/updated";

/// What a client listens to, and the notification that it is.
const LISTS: [(&str, &str); 3] = [
    ("toolsListChanged", "notifications/tools/list_changed"),
    ("promptsListChanged", "notifications/prompts/list_changed"),
    ("resourcesListChanged", "notifications/resources/list_changed"),
];

/// What one client wants to hear.
struct Filter {
    methods: Vec<&'static str>,
    resources: Vec<String>,
    raw: Box<RawValue>,
}

impl Filter {
    fn of(call: &Call) -> Self {
        let raw = raw::get(&call.extra, "notifications").map_or_else(|| raw::json("{}"), RawValue::to_owned);
        let members = raw::members(Some(&raw));
        let wanted = |name: &str| raw::get(&members, name).is_some_and(|value| value.get() == "true");
        let resources = raw::elements(raw::get(&members, "resourceSubscriptions"));
        Self {
            methods: LISTS.iter().filter(|(name, _)| wanted(name)).map(|(_, method)| *method).collect(),
            resources: resources.iter().filter_map(|uri| serde_json::from_str(uri.get()).ok()).collect(),
            raw,
        }
    }

    fn wants(&self, note: &Note) -> bool {
        if note.method == UPDATED {
            let uri = raw::text(&raw::members(note.params.as_deref()), "uri");
            return uri.is_some_and(|uri| {
                self.resources.iter().any(|wanted| *wanted == uri || uri.starts_with(wanted))
            });
        }
        self.methods.contains(&note.method.as_str())
    }
}

impl Proxy {
    /// Tells a client what it wants to hear of all servers, until it leaves.
    pub(super) async fn listen(self: &Arc<Self>, call: Call) -> Answer {
        let filter = Filter::of(&call);
        let (sender, mut notes) = mpsc::channel(64);
        for server in &self.servers {
            let Ok(link) = server.link(&call.client).await else { continue };
            let (mut heard, sender) = (link.notes(), sender.clone());
            for uri in &filter.resources {
                let params = vec![("uri".to_owned(), raw::quoted(uri))];
                let outgoing =
                    Outgoing { method: "resources/subscribe".to_owned(), params, ..Outgoing::default() };
                // One that does not know it, or cannot, has nothing to tell.
                let _told = listing::ask(&link, outgoing).await;
            }
            self.tools.tasks.spawn(async move {
                loop {
                    let note = tokio::select! {
                        note = heard.recv() => note,
                        () = sender.closed() => return,
                    };
                    match note {
                        Ok(note) => drop(sender.send(note).await),
                        Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                        Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
                    }
                }
            });
        }
        let numbered = |params: Option<&RawValue>| {
            let mut members = raw::members(params);
            let mut meta = raw::members(raw::get(&members, "_meta"));
            raw::set(&mut meta, SUBSCRIPTION, call.request_id.clone());
            raw::set(&mut members, "_meta", raw::object(&meta));
            raw::object(&members)
        };
        let acknowledged = raw::object(&vec![("notifications".to_owned(), filter.raw.clone())]);
        call.back.notify("notifications/subscriptions/acknowledged", Some(&numbered(Some(&acknowledged))));
        loop {
            tokio::select! {
                _ = call.handle.cancelled() => break,
                note = notes.recv() => {
                    let Some(note) = note else { break };
                    if filter.wants(&note) {
                        call.back.notify(&note.method, Some(&numbered(note.params.as_deref())));
                    }
                }
            }
        }
        Answer::result(numbered(None))
    }
}
