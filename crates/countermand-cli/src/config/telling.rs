//! Who is told of what could not be stopped.

use super::{
    fields::Reader,
    node::{Data, Node},
    secret, shapes,
};
use countermand::{definition::Value, notify::OnOrphan};
use url::Url;

const EITHER: &str = "write `on_orphan: { command: [PROGRAM, ARGUMENT] }`, `on_orphan: { webhook: URL }` or `on_orphan: nobody`";

/// Reads `on_orphan`; none where it says that nobody is told.
pub fn on_orphan(reader: &Reader<'_>, node: &Node) -> Option<OnOrphan> {
    if !matches!(node.data, Data::Map(_)) {
        if node.scalar().as_deref() != Some("nobody") {
            reader.error(node.head(), "who is to be told?", EITHER);
        }
        return None;
    }
    let fields = reader.open(node, &shapes::ON_ORPHAN)?;
    let (command, webhook) = (fields.get("command"), fields.get("webhook"));
    if let (Some(headers), None) = (fields.get("headers"), webhook) {
        reader.error(headers.head(), "`headers` belong to a `webhook`", "leave them out");
    }
    match (command, webhook) {
        (Some(_), Some(second)) => {
            reader.error(
                second.head(),
                "somebody is told in one way",
                "leave one of `command` and `webhook` out",
            );
            None
        }
        (Some(command), None) => argv(reader, command).map(OnOrphan::Command),
        (None, Some(webhook)) => {
            let headers = secret::headers(reader, fields.get("headers"), "a webhook");
            Some(OnOrphan::Webhook { url: address(reader, webhook)?, headers })
        }
        (None, None) => {
            if fields.node.entries_are_empty() {
                reader.error(fields.head(), "who is to be told?", EITHER);
            }
            None
        }
    }
}

fn argv(reader: &Reader<'_>, node: &Node) -> Option<Vec<String>> {
    let Data::List(_) = node.data else {
        let written = node.scalar().unwrap_or_default();
        let words = written.split_whitespace().collect::<Vec<_>>().join(", ");
        reader.error(
            node.at,
            "a program is a list of itself and its arguments; no shell reads it",
            format!("write `command: [{words}]`"),
        );
        return None;
    };
    let argv: Vec<_> = reader.texts(node).into_iter().map(|(_, text)| text).collect();
    if argv.first().is_none_or(|program| program.trim().is_empty()) {
        reader.error(node.head(), "the program is missing", "write `command: [PROGRAM, ARGUMENT]`");
        return None;
    }
    Some(argv)
}

fn address(reader: &Reader<'_>, node: &Node) -> Option<Value> {
    if secret::is_secret(node) {
        return secret::secret(reader, node).map(Value::Secret);
    }
    let text = reader.name(node)?;
    match Url::parse(&text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() && !text.contains("${") => {
            Some(Value::Text(text))
        }
        _ => {
            let help = "write `https://HOST/PATH`; where the address is a secret: `webhook: { env: NAME }`";
            reader.error(node.at, "this is no HTTP URL", help);
            None
        }
    }
}
