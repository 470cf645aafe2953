//! One request on the wire: secrets, redirects, and the head of the answer.

use super::{
    HttpFailure, HttpUpstreamClient,
    answer::{Head, Redactor},
    shown::Shown,
    upload,
};
use crate::{
    definition::{SecretRef, SecretSource},
    secret::Secret,
    template::{Rendered, RenderedBody, RenderedHeader, RequestTemplate, Scope},
};
use countermand_core::event::Trouble;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use std::error::Error;
use url::Url;

/// Redirects that are followed in one request.
const REDIRECTS: usize = 5;

/// The secrets of one request, so that they can be read anew, and kept out of messages.
type Used = Vec<(HeaderName, SecretRef, Secret)>;

impl HttpUpstreamClient {
    /// Sends a request and returns the head of its answer, whatever its status is. A redirect is
    /// followed only for GET and HEAD, within the origin, and unless `keep` wants to see it.
    pub(super) async fn send(
        &self,
        template: &RequestTemplate,
        scope: &Scope<'_>,
        keep: &(dyn Fn(StatusCode) -> bool + Send + Sync),
    ) -> Result<Head, HttpFailure> {
        let mut request = template.render(&self.base, scope).map_err(|error| {
            let shown = Shown::as_configured(&self.upstream.name, template);
            HttpFailure::NotFilledIn(Trouble::new(format!("{shown}: {error}; nothing was sent")))
        })?;
        let shown = Shown::new(&self.upstream.name, template, &request);
        let safe = matches!(request.method, Method::GET | Method::HEAD);
        let mut hops = 0;
        loop {
            let head = self.send_authorised(&request, &shown).await?;
            if !safe || hops == REDIRECTS || keep(head.status) {
                return Ok(head);
            }
            let Some(next) = redirect(&head, &self.base) else { return Ok(head) };
            request.url = next;
            hops += 1;
        }
    }

    /// Sends it; after a 401 once more, where a secret has changed since it was read.
    async fn send_authorised(&self, request: &Rendered, shown: &Shown) -> Result<Head, HttpFailure> {
        let (headers, used) = self.headers_of(request, shown).await?;
        let head = self.send_once(request, shown, headers, &used).await?;
        if head.status != StatusCode::UNAUTHORIZED {
            return Ok(head);
        }
        let mut changed = false;
        for (_, reference, refused) in &used {
            if matches!(reference.source, SecretSource::Exec { .. } | SecretSource::File(_)) {
                let fresh = self.secrets.refresh(reference, refused).await;
                changed |= fresh.is_ok_and(|fresh| !fresh.same_value(refused));
            }
        }
        if !changed {
            return Ok(head);
        }
        let (headers, used) = self.headers_of(request, shown).await?;
        self.send_once(request, shown, headers, &used).await
    }

    async fn send_once(
        &self,
        request: &Rendered,
        shown: &Shown,
        headers: HeaderMap,
        used: &Used,
    ) -> Result<Head, HttpFailure> {
        let safe = matches!(request.method, Method::GET | Method::HEAD);
        let mut tries = if safe { 2 } else { 1 };
        let response = loop {
            tries -= 1;
            let mut builder =
                self.http.request(request.method.clone(), request.url.clone()).headers(headers.clone());
            builder = match &request.body {
                RenderedBody::None => builder,
                RenderedBody::Json(value) => builder.body(upload::body(value.to_string())),
                RenderedBody::Form(form) => builder.body(upload::body(form.clone())),
            };
            match builder.send().await {
                Ok(response) => break response,
                // Nothing was written, and it would change nothing: once more.
                Err(error) if tries > 0 && error.is_connect() && !error.is_timeout() => {}
                Err(error) => return Err(self.no_answer(shown, &error)),
            }
        };
        let redactor =
            Redactor::new(used.iter().map(|(_, reference, secret)| (reference.to_string(), secret.clone())));
        Ok(Head::new(response, shown.clone(), redactor, self))
    }

    /// The upstream's headers, the request's over them, and what the body needs.
    async fn headers_of(&self, request: &Rendered, shown: &Shown) -> Result<(HeaderMap, Used), HttpFailure> {
        let mut headers = HeaderMap::new();
        let content_type = match &request.body {
            RenderedBody::None => None,
            RenderedBody::Json(_) => Some("application/json"),
            RenderedBody::Form(_) => Some("application/x-www-form-urlencoded"),
        };
        if let Some(content_type) = content_type {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        let mut used = Used::new();
        for (name, value) in self.headers.iter().chain(&request.headers) {
            let value = match value {
                RenderedHeader::Value(value) => value.clone(),
                RenderedHeader::Secret(reference) => {
                    let not_sent = |problem: String| {
                        HttpFailure::NotSent(Trouble::new(format!("{shown}: {problem}; nothing was sent")))
                    };
                    let secret =
                        self.secrets.resolve(reference).await.map_err(|error| not_sent(error.to_string()))?;
                    let mut value = HeaderValue::from_str(secret.expose()).map_err(|_| {
                        not_sent(format!(
                            "the secret {reference} holds what a header cannot, such as a line break"
                        ))
                    })?;
                    value.set_sensitive(true);
                    used.push((name.clone(), reference.clone(), secret));
                    value
                }
            };
            headers.insert(name.clone(), value);
        }
        Ok((headers, used))
    }

    fn no_answer(&self, shown: &Shown, error: &reqwest::Error) -> HttpFailure {
        let limits = &self.upstream.limits;
        let to = self.base.origin().ascii_serialization();
        if error.is_connect() || error.is_builder() {
            let (why, check) = if error.is_timeout() {
                let why = format!("within {:?} (`connect_timeout`)", limits.connect_timeout);
                (why, "check that it runs, and `base_url`")
            } else {
                (format!("({})", cause(error)), unconnected(error))
            };
            let message = format!("{shown}: no connection to {to} {why}: {check}; nothing was sent");
            return HttpFailure::NotSent(Trouble::ill(message));
        }
        let message = if error.is_timeout() {
            format!(
                "{shown}: {to} gave no answer within {:?} (`read_timeout`): it may have been received",
                limits.read_timeout
            )
        } else if speaks_something_else(error) {
            format!(
                "{shown}: what {to} answered is not HTTP ({}): check `base_url`, its port above all; it may have been received",
                cause(error)
            )
        } else {
            format!(
                "{shown}: the connection to {to} broke before an answer ({}): it may have been received",
                cause(error)
            )
        };
        HttpFailure::Lost(Trouble::ill(message))
    }
}

/// What to check where there is no connection.
fn unconnected(error: &reqwest::Error) -> &'static str {
    match sources(error).find_map(tls) {
        Some(rustls::Error::InvalidCertificate(_)) => {
            "its certificate is not trusted here: add who signed it to the system's certificates, or check `base_url`"
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            "what listens there speaks no TLS: write `http://` in `base_url`, or check its port"
        }
        Some(_) => "TLS failed: check what it offers, and `base_url`",
        None => "check that it runs, and `base_url`",
    }
}

/// The error of TLS, which IO errors hold and do not list among their sources.
fn tls<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let held = error.downcast_ref::<std::io::Error>()?.get_ref()?;
    held.downcast_ref().or_else(|| tls(held))
}

/// Whether bytes came that are no HTTP.
fn speaks_something_else(error: &reqwest::Error) -> bool {
    sources(error).filter_map(|error| error.downcast_ref::<hyper::Error>()).any(hyper::Error::is_parse)
}

/// An error, and what is behind it.
fn sources(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(Some(error as &(dyn Error + 'static)), |&error| error.source())
}

/// Where a redirect leads, if it may be followed.
fn redirect(head: &Head, base: &Url) -> Option<Url> {
    if !matches!(head.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let mut next = head.location()?;
    next.set_fragment(None);
    let same = next.origin() == base.origin() && next.username().is_empty() && next.password().is_none();
    same.then_some(next)
}

/// The innermost reason of an error: what the system, the peer or TLS said.
pub(crate) fn cause(error: &reqwest::Error) -> String {
    sources(error).last().map(ToString::to_string).unwrap_or_default()
}
