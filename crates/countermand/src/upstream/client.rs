//! The connections to one upstream, shared by all tools that use it.

use super::UpstreamError;
use crate::{
    definition::{HttpLimits, HttpUpstream, Value},
    platform,
    secret::Secrets,
    template::{RenderedHeader, check_header},
};
use countermand_core::ports::{Clock, Permit};
use http::{HeaderMap, HeaderName, HeaderValue, header::ACCEPT_ENCODING};
use std::{fmt, sync::Arc, time::Duration};
use tokio::sync::Semaphore;
use url::Url;

/// An HTTP/2 peer that leaves a ping unanswered for so long is gone.
const PING: Duration = Duration::from_secs(15);

/// A client of one upstream.
pub struct HttpUpstreamClient {
    pub(super) upstream: HttpUpstream,
    pub(super) base: Url,
    pub(super) http: reqwest::Client,
    pub(super) headers: Vec<(HeaderName, RenderedHeader)>,
    pub(super) secrets: Arc<Secrets>,
    pub(super) clock: Arc<dyn Clock>,
    permits: Arc<Semaphore>,
}

impl HttpUpstreamClient {
    /// A client without connections yet. [`install_crypto`](super::install_crypto) comes first.
    ///
    /// # Errors
    /// [`UpstreamError`] where the base URL, a header or the TLS roots cannot be used.
    pub fn new(
        upstream: HttpUpstream,
        secrets: Arc<Secrets>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, UpstreamError> {
        let wrong = |problem: String| UpstreamError { upstream: upstream.name.clone(), problem };
        let base = base_url(&upstream.base_url).map_err(wrong)?;
        let headers = upstream
            .headers
            .iter()
            .map(|(name, value)| header(name, value))
            .collect::<Result<_, String>>()
            .map_err(wrong)?;
        let http = http_client(&upstream.limits, base.scheme())
            .map_err(|error| wrong(super::exchange::cause(&error)))?;
        let permits = Arc::new(Semaphore::new(upstream.limits.concurrency.clamp(1, Semaphore::MAX_PERMITS)));
        Ok(Self { upstream, base, http, headers, secrets, clock, permits })
    }

    /// Waits for a place under the upstream's concurrency limit.
    pub async fn admit(&self) -> Permit {
        // The semaphore is never closed; were it, there would be no limit to keep.
        Permit(Box::new(self.permits.clone().acquire_owned().await.ok()))
    }
}

impl fmt::Debug for HttpUpstreamClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpUpstreamClient").field("name", &self.upstream.name).finish_non_exhaustive()
    }
}

fn base_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("`base_url` is no URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("`base_url` starts with `http://` or `https://`".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("`base_url` holds credentials: put them into `headers`, as `{ env: … }`".into());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("`base_url` has no query and no fragment: put parameters into `query`".into());
    }
    Ok(url)
}

fn header(name: &str, value: &Value) -> Result<(HeaderName, RenderedHeader), String> {
    let header = check_header(name)?;
    let value = match value {
        Value::Secret(reference) => RenderedHeader::Secret(reference.clone()),
        Value::Text(text) => RenderedHeader::Value(
            HeaderValue::from_str(text)
                .map_err(|_| format!("the header `{name}` holds more than printable ASCII in one line"))?,
        ),
    };
    Ok((header, value))
}

/// A client as all our requests need it: no proxy, no redirects of its own, bounded silence.
pub(crate) fn http_client(limits: &HttpLimits, scheme: &str) -> reqwest::Result<reqwest::Client> {
    let builder = reqwest::Client::builder()
        .user_agent(concat!("countermand/", env!("CARGO_PKG_VERSION")))
        .no_proxy()
        // Followed by us: the policy of the library cannot see the method.
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .default_headers(HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("identity"))]))
        .tcp_nodelay(true)
        .connect_timeout(limits.connect_timeout)
        .read_timeout(limits.read_timeout)
        .pool_max_idle_per_host(limits.idle)
        .http2_keep_alive_interval(PING)
        .http2_keep_alive_timeout(PING);
    let builder = platform::bound_unacknowledged(builder, limits.read_timeout);
    // Without TLS no roots are read: a container without certificates can still use plain HTTP.
    if scheme == "http" { builder.tls_certs_only([]) } else { builder }.build()
}
