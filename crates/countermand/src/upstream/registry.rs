//! All upstreams of a process: one client for each, whatever tools use it.

use super::{HttpFailure, HttpJob, HttpOnce, HttpRead, HttpUpstreamClient, UpstreamError, common::Common};
use crate::{
    command::{CommandRun, Commands},
    definition::{HttpUpstream, ToolDefinition, Work},
    process::{Runner, Stop},
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
    time::Duration,
};

/// The upstreams of a process. Today's and those of stored definitions: an upstream whose definition has
/// changed is another one, with connections of its own.
pub struct Upstreams {
    secrets: Arc<Secrets>,
    clock: Arc<dyn Clock>,
    commands: Arc<Commands>,
    clients: Mutex<HashMap<HttpUpstream, Arc<HttpUpstreamClient>>>,
}

impl Upstreams {
    /// No upstream yet.
    pub fn new(secrets: Arc<Secrets>, clock: Arc<dyn Clock>) -> Self {
        let commands = Arc::new(Commands::new(secrets.clone()));
        Self { secrets, clock, commands, clients: Mutex::default() }
    }

    /// What runs programs in this process.
    ///
    /// # Errors
    /// Where none can be started at all.
    pub fn runner(&self) -> Result<Runner, Trouble> {
        self.commands.runner().cloned()
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
            Work::Job(_) | Work::Command(_) => Err(UpstreamError {
                upstream: definition.upstream.name().to_owned(),
                problem: format!("the tool `{}` is not read but operated", definition.tool),
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

    /// Ends every program that runs: as `stop` says, at once from `within` on. Nothing is started any more.
    ///
    /// # Cancel safety
    /// If the future is dropped, everything has been told to stop.
    pub async fn close(&self, stop: Stop, within: Duration) {
        self.commands.close(stop, within).await;
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
        Ok(match &definition.work {
            Work::Job(job) => Arc::new(HttpJob::new(self.common(definition, arguments)?, (**job).clone())?),
            Work::Http(http) => {
                Arc::new(HttpOnce::new(self.common(definition, arguments)?, (**http).clone())?)
            }
            Work::Command(command) => {
                let (commands, of) = (self.commands.clone(), definition.clone());
                Arc::new(CommandRun::new(commands, of, (**command).clone(), arguments))
            }
        })
    }

    fn common(
        &self,
        definition: &ToolDefinition,
        arguments: Option<Map<String, Value>>,
    ) -> Result<Common, UpstreamError> {
        let client = self.client_of(definition)?;
        Ok(Common { client, commands: self.commands.clone(), definition: definition.clone(), arguments })
    }
}

impl fmt::Debug for Upstreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upstreams")
    }
}
