//! Who may ask at all, and for what: Host, Origin, Accept and Content-Type.

use super::HttpOptions;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, StatusCode, Uri};
use std::net::IpAddr;

/// A refusal that is no JSON-RPC error: its status, and a sentence.
pub(super) type Refused = (StatusCode, &'static str);

/// Refuses hosts and origins that a browser on another site could have sent here (DNS rebinding).
pub(super) fn admit(
    uri: &Uri,
    headers: &HeaderMap,
    on_loopback: bool,
    options: &HttpOptions,
) -> Result<(), Refused> {
    let host = match (uri.authority(), headers.get(HOST)) {
        (Some(authority), _) => Some(authority.clone()),
        (None, Some(host)) => host.to_str().ok().and_then(|host| host.parse().ok()),
        (None, None) => None,
    };
    let Some(host): Option<Authority> = host else {
        return Err((StatusCode::BAD_REQUEST, "a Host header is needed"));
    };
    let listed = options.allowed_hosts.iter().any(|allowed| names(allowed, &host));
    let may = if on_loopback {
        listed || is_loopback(host.host())
    } else {
        listed || options.allowed_hosts.is_empty()
    };
    if !may {
        return Err((StatusCode::FORBIDDEN, "this Host is not allowed here; add it to the allowed hosts"));
    }
    let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
    let text = origin.to_str().unwrap_or_default();
    if options.allowed_origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(text)) {
        return Ok(());
    }
    let origin = text.parse::<Uri>().ok();
    let of_origin = origin.as_ref().filter(|uri| uri.scheme().is_some()).and_then(Uri::authority);
    // A name that was rebound to our address looks like our own; a listed one or an address cannot be rebound.
    let own = |authority: &Authority| *authority == host && (listed || address(host.host()).is_some());
    match of_origin {
        Some(authority) if is_loopback(authority.host()) || own(authority) => Ok(()),
        _ => Err((StatusCode::FORBIDDEN, "this Origin is not allowed here; add it to the allowed origins")),
    }
}

/// Whether an entry of the configuration (`name` or `name:port`) names that host.
fn names(allowed: &str, host: &Authority) -> bool {
    match allowed.parse::<Authority>() {
        Ok(allowed) if allowed.port().is_some() => allowed == *host,
        Ok(allowed) => allowed.host().eq_ignore_ascii_case(host.host()),
        Err(_) => false,
    }
}

fn address(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || address(host).is_some_and(|address| address.is_loopback())
}

/// How the answer to a request goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Events,
    Json,
}

/// Chooses what the client takes. The protocol wants it to take both; one is enough here, and no Accept at all
/// takes anything.
pub(super) fn shape(headers: &HeaderMap, prefer_json: bool) -> Result<Shape, Refused> {
    let (mut events, mut json, mut any) = (false, false, false);
    for value in headers.get_all(ACCEPT) {
        any = true;
        for range in value.to_str().unwrap_or_default().split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default().to_ascii_lowercase();
            let refused = parts.any(|part| {
                let quality = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
                quality.is_some_and(|quality| quality.parse::<f32>() == Ok(0.0))
            });
            if refused {
                continue;
            }
            events |= matches!(media.as_str(), "text/event-stream" | "text/*" | "*/*");
            json |= matches!(media.as_str(), "application/json" | "application/*" | "*/*");
        }
    }
    if !any {
        (events, json) = (true, true);
    }
    match (events, json) {
        (_, true) if prefer_json => Ok(Shape::Json),
        (true, _) => Ok(Shape::Events),
        (false, true) => Ok(Shape::Json),
        (false, false) => {
            Err((StatusCode::NOT_ACCEPTABLE, "Accept must list application/json and text/event-stream"))
        }
    }
}

/// Only JSON is read.
pub(super) fn is_json(headers: &HeaderMap) -> Result<(), Refused> {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = value.split(';').next().unwrap_or_default().trim();
    if media.eq_ignore_ascii_case("application/json") {
        Ok(())
    } else {
        Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(host: &str, origin: Option<&str>, on_loopback: bool, options: &HttpOptions) -> Option<u16> {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        admit(&"/mcp".parse().unwrap(), &headers, on_loopback, options)
            .err()
            .map(|(status, _)| status.as_u16())
    }

    #[test]
    fn on_loopback_only_loopback_hosts_and_listed_ones_may_ask() {
        let listed = HttpOptions { allowed_hosts: vec!["box.example".into()], ..HttpOptions::default() };
        for host in ["localhost", "localhost:1", "127.0.0.1:9", "127.9.9.9", "[::1]:80"] {
            assert_eq!(asked(host, None, true, &HttpOptions::default()), None, "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example", "10.0.0.1"] {
            assert_eq!(asked(host, None, true, &HttpOptions::default()), Some(403), "{host}");
        }
        assert_eq!(asked("BOX.example:8080", None, true, &listed), None);
        assert_eq!(asked("other.example", None, false, &listed), Some(403));
        assert_eq!(asked("other.example", None, false, &HttpOptions::default()), None);
    }

    #[test]
    fn an_origin_must_be_loopback_our_own_or_listed() {
        let options =
            HttpOptions { allowed_origins: vec!["https://app.example".into()], ..HttpOptions::default() };
        let ask = |origin, host, on_loopback| asked(host, Some(origin), on_loopback, &options);
        assert_eq!(ask("http://localhost:3000", "127.0.0.1:1", true), None);
        assert_eq!(ask("https://app.example", "127.0.0.1:1", true), None);
        assert_eq!(ask("https://evil.example", "127.0.0.1:1", true), Some(403));
        assert_eq!(ask("null", "127.0.0.1:1", true), Some(403));
        assert_eq!(ask("http://10.0.0.1:1", "10.0.0.1:1", false), None);
        assert_eq!(ask("http://rebound.example", "rebound.example", false), Some(403));
    }

    #[test]
    fn the_shape_follows_accept_and_the_preference() {
        let shape_of = |accept: Option<&str>, prefer_json| {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(ACCEPT, accept.parse().unwrap());
            }
            shape(&headers, prefer_json).ok()
        };
        let both = Some("application/json, text/event-stream");
        assert_eq!(shape_of(both, false), Some(Shape::Events));
        assert_eq!(shape_of(both, true), Some(Shape::Json));
        assert_eq!(shape_of(Some("application/json"), false), Some(Shape::Json));
        assert_eq!(shape_of(Some("text/event-stream"), true), Some(Shape::Events));
        assert_eq!(shape_of(Some("*/*"), false), Some(Shape::Events));
        assert_eq!(shape_of(None, false), Some(Shape::Events));
        assert_eq!(shape_of(Some("text/event-stream;q=0, application/json"), false), Some(Shape::Json));
        assert_eq!(shape_of(Some("text/html"), false), None);
    }
}
