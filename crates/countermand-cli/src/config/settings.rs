//! The gateway's own settings: server, admin, ledger, retention, limits.

use super::{
    checked::{Admin, Listener, Server},
    fields::Reader,
    node::{Data, Node},
    secret, shapes,
};
use countermand::{definition::Value, ledger::LedgerUrl};
use countermand_mcp::Limits;
use std::{net::SocketAddr, path::Path, time::Duration};

/// How long settled operations are kept, where the config does not say.
pub const DEFAULT_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// Where operations are kept, where the config does not say.
pub const DEFAULT_LEDGER: &str = "sqlite:countermand.db";

/// Reads `server`.
pub fn server(reader: &Reader<'_>, node: Option<&Node>) -> Server {
    let fields = node.and_then(|node| reader.open(node, &shapes::SERVER));
    let get = |name: &str| fields.and_then(|fields| fields.get(name));
    let text = |name: &str| get(name).and_then(|node| reader.name(node));
    Server {
        name: text("name").unwrap_or_else(|| "countermand".to_owned()),
        title: text("title"),
        version: text("version"),
        instructions: text("instructions"),
        http: get("http").and_then(|node| listener(reader, node)),
    }
}

fn listener(reader: &Reader<'_>, node: &Node) -> Option<Listener> {
    let fields = match node.data {
        Data::Text(_) => None,
        _ => Some(reader.open(node, &shapes::SERVER_HTTP)?),
    };
    let get = |name: &str| fields.and_then(|fields| fields.get(name));
    let at = if fields.is_some() { get("listen") } else { Some(node) };
    let listen = match at {
        Some(at) => Some(address(reader, at)?),
        None => None,
    };
    if let (Some(at), Some(listen)) = (at, listen) {
        let reach = if listen.ip().is_loopback() { "on this machine" } else { "who can reach it" };
        reader.warn(
            at.at,
            format!("nobody is asked who they are: in revision 2026 everybody {reach} shares one principal"),
            "everybody sees and cancels everybody's calls; put an authenticating proxy before it, or use stdio",
        );
    }
    let texts = |name: &str| -> Vec<String> {
        let named = get(name).map(|node| reader.texts(node)).unwrap_or_default();
        named.into_iter().map(|(_, text)| text).collect()
    };
    Some(Listener {
        listen,
        allowed_hosts: texts("allowed_hosts"),
        allowed_origins: texts("allowed_origins"),
        json: get("json").and_then(|node| reader.truth(node)).unwrap_or(false),
        session_idle: get("session_idle").and_then(|node| reader.duration(node)),
    })
}

/// Reads `admin`.
pub fn admin(reader: &Reader<'_>, node: &Node) -> Option<Admin> {
    let fields = reader.open(node, &shapes::ADMIN)?;
    let Some(at) = fields.get("listen") else {
        reader.error(fields.head(), "`listen` is missing", "write `listen: 127.0.0.1:8718`");
        return None;
    };
    let listen = address(reader, at)?;
    let token = fields.get("token").and_then(|node| {
        if secret::is_secret(node) {
            secret::secret(reader, node).map(Value::Secret)
        } else {
            reader.warn(node.at, "the admin token stands in plain text", "write `token: { env: NAME }`");
            reader.name(node).map(Value::Text)
        }
    });
    if !listen.ip().is_loopback() && fields.get("token").is_none() {
        reader.error(
            at.at,
            "whoever reaches this address could cancel every operation",
            "listen on 127.0.0.1, or add `token: { env: NAME }`",
        );
    }
    Some(Admin { listen, token })
}

fn address(reader: &Reader<'_>, node: &Node) -> Option<SocketAddr> {
    let text = reader.name(node)?;
    let numeric = text.strip_prefix("localhost:").map_or(text.clone(), |port| format!("127.0.0.1:{port}"));
    if let Ok(address) = numeric.parse() {
        return Some(address);
    }
    let port = text.trim_start_matches(':');
    let help = match port.parse::<u16>() {
        Ok(port) => format!("write `127.0.0.1:{port}`"),
        Err(_) => "write ADDRESS:PORT, such as `127.0.0.1:8717` or `[::1]:8717`".to_owned(),
    };
    reader.error(node.at, format!("`{text}` is no address to listen on"), help);
    None
}

/// Reads `ledger`.
pub fn ledger(reader: &Reader<'_>, node: Option<&Node>) -> String {
    let Some(node) = node else { return DEFAULT_LEDGER.to_owned() };
    let url = reader.name(node).unwrap_or_default();
    if let Err(error) = LedgerUrl::parse(&url, Path::new("")) {
        let message = error.to_string();
        let (message, help) = message.split_once("; ").unwrap_or((&message, "write `sqlite:PATH`"));
        let message = message.strip_prefix("failed to read the ledger's address: ").unwrap_or(message);
        reader.error(node.at, format!("this is no ledger: {message}"), help);
    }
    url
}

/// Reads `limits`.
pub fn limits(reader: &Reader<'_>, node: Option<&Node>) -> Limits {
    let mut limits = Limits::default();
    let Some(fields) = node.and_then(|node| reader.open(node, &shapes::LIMITS)) else { return limits };
    let count = |name: &str| fields.get(name).and_then(|node| reader.count(node));
    limits.per_principal = count("per_principal").unwrap_or(limits.per_principal);
    limits.total = count("total").unwrap_or(limits.total);
    limits.sessions = count("sessions").unwrap_or(limits.sessions);
    let message = fields.get("message").and_then(|node| reader.size(node));
    limits.message = message.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(limits.message);
    limits
}
