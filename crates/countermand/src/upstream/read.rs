//! Performs read-only requests: no row, no replay; to abort one is enough.

use super::{HttpFailure, HttpUpstreamClient, UpstreamError, extract::Path, payload::payload};
use crate::{
    definition::HttpDefinition,
    template::{RequestTemplate, Scope},
};
use countermand_core::ports::Payload;
use std::sync::Arc;

/// The performer of a read-only request. Cheap to clone.
#[derive(Debug, Clone)]
pub struct HttpRead {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    client: Arc<HttpUpstreamClient>,
    request: RequestTemplate,
    value: Path,
}

impl HttpRead {
    pub(super) fn new(client: Arc<HttpUpstreamClient>, http: &HttpDefinition) -> Result<Self, UpstreamError> {
        let wrong = |problem: String| UpstreamError { upstream: client.upstream.name.clone(), problem };
        let value = Path::new(&http.value).map_err(wrong)?;
        Ok(Self { inner: Arc::new(Inner { client, request: http.request.clone(), value }) })
    }

    /// Waits for a place under the upstream's limit, sends the request and reads the answer.
    ///
    /// # Errors
    /// [`HttpFailure`] where there is no usable answer.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request is aborted: the connection is closed, or the stream reset.
    pub async fn read(&self, scope: &Scope<'_>) -> Result<Payload, HttpFailure> {
        let Inner { client, request, value } = &*self.inner;
        let _permit = client.admit().await;
        let answer = client.send(request, scope, &|_| false).await?.answer().await?;
        if !answer.status.is_success() {
            return Err(answer.failure());
        }
        payload(&answer, value)
    }
}
