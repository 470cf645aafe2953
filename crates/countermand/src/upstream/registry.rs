//! All upstreams of a process: one client for each, whatever tools use it.

use super::{HttpFailure, HttpJob, HttpOnce, HttpRead, HttpUpstreamClient, UpstreamError};
use crate::{
    definition::{HttpUpstream, ToolDefinition, Work},
    secret::Secrets,
    template::Scope,
};
use countermand_core::{
    event::Trouble,
    ports::{Clock, Payload, Upstream},
};
use serde_json::{Map, Value};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// The upstreams of a process. Today's and those of stored definitions: an upstream whose definition has
/// changed is another one, with connections of its own.
pub struct Upstreams {
    secrets: Arc<Secrets>,
    clock: Arc<dyn Clock>,
    clients: Mutex<HashMap<HttpUpstream, Arc<HttpUpstreamClient>>>,
}

impl Upstreams {
    /// No upstream yet.
    pub fn new(secrets: Arc<Secrets>, clock: Arc<dyn Clock>) -> Self {
        Self { secrets, clock, clients: Mutex::default() }
    }

    /// The client of an upstream; the same one for the same definition.
    ///
    /// # Errors
    /// [`UpstreamError`] where the definition cannot work.
    pub fn client(&self, upstream: &HttpUpstream) -> Result<Arc<HttpUpstreamClient>, UpstreamError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(upstream) {
            return Ok(client.clone());
        }
        let client =
            Arc::new(HttpUpstreamClient::new(upstream.clone(), self.secrets.clone(), self.clock.clone())?);
        clients.insert(upstream.clone(), client.clone());
        Ok(client)
    }

    /// The performer of a definition.
    ///
    /// # Errors
    /// [`UpstreamError`] where the definition cannot work.
    pub fn for_definition(&self, definition: &ToolDefinition) -> Result<Arc<dyn Upstream>, UpstreamError> {
        self.performer(definition, None)
    }

    /// The performer of one call's operation, whose create is filled in from the call's own arguments: for
    /// those (`writeOnly`) that its row does not keep. Everything after the create knows only the row.
    ///
    /// # Errors
    /// [`UpstreamError`] where the definition cannot work.
    pub fn for_call(
        &self,
        definition: &ToolDefinition,
        arguments: Map<String, Value>,
    ) -> Result<Arc<dyn Upstream>, UpstreamError> {
        self.performer(definition, Some(arguments))
    }

    /// The performer of a read-only request.
    ///
    /// # Errors
    /// [`UpstreamError`] where the definition cannot work, or is a job.
    pub fn reader(&self, definition: &ToolDefinition) -> Result<HttpRead, UpstreamError> {
        match &definition.work {
            Work::Http(http) => HttpRead::new(self.client_of(definition)?, http),
            Work::Job(_) => Err(UpstreamError {
                upstream: definition.upstream.name().to_owned(),
                problem: format!("the tool `{}` is a job, which is not read but operated", definition.tool),
            }),
        }
    }

    /// Sends a read-only request: [`HttpRead::read`] of a performer that is made for it.
    ///
    /// # Errors
    /// [`HttpFailure`] where there is no usable answer.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request is aborted.
    pub async fn read(&self, definition: &ToolDefinition, scope: &Scope<'_>) -> Result<Payload, HttpFailure> {
        let reader = self
            .reader(definition)
            .map_err(|error| HttpFailure::NotFilledIn(Trouble::new(error.to_string())))?;
        reader.read(scope).await
    }

    /// The client of a definition's upstream.
    fn client_of(&self, definition: &ToolDefinition) -> Result<Arc<HttpUpstreamClient>, UpstreamError> {
        let http = definition.upstream.http().ok_or_else(|| UpstreamError {
            upstream: definition.upstream.name().to_owned(),
            problem: format!("the tool `{}` sends requests, and has no HTTP upstream", definition.tool),
        })?;
        self.client(http)
    }

    fn performer(
        &self,
        definition: &ToolDefinition,
        arguments: Option<Map<String, Value>>,
    ) -> Result<Arc<dyn Upstream>, UpstreamError> {
        let client = self.client_of(definition)?;
        let of = definition.clone();
        Ok(match &definition.work {
            Work::Job(job) => Arc::new(HttpJob::new(client, of, (**job).clone(), arguments)?),
            Work::Http(http) => Arc::new(HttpOnce::new(client, of, (**http).clone(), arguments)?),
        })
    }
}

impl fmt::Debug for Upstreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upstreams")
    }
}
