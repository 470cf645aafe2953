//! HTTP upstreams.

use super::{
    fields::{Fields, Reader},
    node::{Data, Node},
    secret, shapes,
};
use countermand::{
    core::HealthPolicy,
    definition::{HttpLimits, HttpUpstream},
};
use url::Url;

/// Reads `upstreams.NAME`.
pub fn upstream(reader: &Reader<'_>, name: &str, node: &Node) -> Option<HttpUpstream> {
    let fields = reader.open(node, &shapes::UPSTREAM)?;
    let Some(http) = fields.get("http") else {
        if fields.node.entries_are_empty() {
            reader.error(fields.head(), "what kind of upstream is this?", "write `http: { base_url: URL }`");
        }
        return None;
    };
    if let Data::Text(_) = http.data {
        let base_url = base_url(reader, http)?;
        return Some(HttpUpstream {
            name: name.to_owned(),
            base_url,
            headers: Vec::new(),
            limits: HttpLimits::default(),
        });
    }
    let fields = reader.open(http, &shapes::UPSTREAM_HTTP)?;
    let url = match (fields.get("base_url"), fields.get("url")) {
        (Some(_), Some(url)) => {
            reader.error(url.head(), "`url` is another name of `base_url`", "leave one of them out");
            return None;
        }
        (Some(url), None) | (None, Some(url)) => url,
        (None, None) => {
            reader.missing(
                fields.node,
                "base_url",
                "`base_url` is missing",
                "write `base_url: http://HOST:PORT`",
            );
            return None;
        }
    };
    let headers = secret::headers(reader, fields.get("headers"), "an upstream");
    let mut limits = HttpLimits::default();
    let count = |name: &str| fields.get(name).and_then(|node| reader.count(node));
    let time = |name: &str| fields.get(name).and_then(|node| reader.duration(node));
    limits.concurrency = count("concurrency").unwrap_or(limits.concurrency);
    limits.idle = count("idle").unwrap_or(limits.idle);
    limits.connect_timeout = time("connect_timeout").unwrap_or(limits.connect_timeout);
    limits.read_timeout = time("read_timeout").unwrap_or(limits.read_timeout);
    let bytes = fields.get("max_bytes").and_then(|node| reader.size(node));
    limits.max_bytes = bytes.unwrap_or(limits.max_bytes);
    limits.health = health(reader, fields);
    Some(HttpUpstream { name: name.to_owned(), base_url: base_url(reader, url)?, headers, limits })
}

/// Reads `breaker` and `retry_budget`.
fn health(reader: &Reader<'_>, upstream: Fields<'_>) -> HealthPolicy {
    let mut policy = HealthPolicy::default();
    let number = |node: &Node| reader.count(node).map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    if let Some(fields) = upstream.get("breaker").and_then(|node| reader.open(node, &shapes::BREAKER)) {
        let time = |name: &str| fields.get(name).and_then(|node| reader.duration(node));
        policy.failures = fields.get("failures").and_then(number).unwrap_or(policy.failures);
        policy.open = time("open").unwrap_or(policy.open);
        policy.max = time("max").unwrap_or(policy.max.max(policy.open));
        if let (Some(max), true) = (fields.get("max"), policy.max < policy.open) {
            let help = "`max` bounds what `open` begins with (5s where it is not given)";
            reader.error(max.at, "`max` is shorter than `open`", help);
        }
    }
    if let Some(fields) =
        upstream.get("retry_budget").and_then(|node| reader.open(node, &shapes::RETRY_BUDGET))
    {
        policy.retry_percent = fields.get("percent").and_then(number).unwrap_or(policy.retry_percent);
        policy.retries_per_second =
            fields.get("per_second").and_then(number).unwrap_or(policy.retries_per_second);
    }
    policy
}

/// A base that paths can be appended to, and that holds no secret.
fn base_url(reader: &Reader<'_>, node: &Node) -> Option<String> {
    if !matches!(node.data, Data::Text(_)) {
        return reader.expected(node, "a URL");
    }
    let text = reader.name(node)?;
    let refuse = |message: &str, help: &str| {
        reader.error(node.at, message, help);
        None
    };
    let Ok(url) = Url::parse(&text) else {
        return refuse(&format!("`{text}` is no URL"), "write `http://HOST:PORT` or `https://HOST/PATH`");
    };
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return refuse(
            &format!("`{text}` is no HTTP URL"),
            "write `http://HOST:PORT` or `https://HOST/PATH`",
        );
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refuse(
            "a base_url holds no credentials: it is shown to people",
            "write `headers: { authorization: { env: NAME, prefix: \"Basic \" } }`",
        );
    }
    if url.query().is_some() {
        return refuse(
            "a base_url has no query: paths are appended to it",
            "name the parameters under `query:` of the requests",
        );
    }
    if url.fragment().is_some() {
        return refuse("a base_url has no fragment", "leave out what starts with `#`");
    }
    Some(url.as_str().trim_end_matches('/').to_owned())
}
