//! Secrets: read from where a reference says, when they are needed. The only place that reads the
//! environment. A value is never shown: not by `Debug`, not in an error, not in a log.

mod source;
mod value;

pub use value::Secret;

use crate::definition::{SecretRef, SecretSource, Value};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// How long the content of a file is used before it is read again: a rotated one is noticed, and a
/// busy upstream does not read it for every request.
const FILE_TTL: Duration = Duration::from_secs(5);

/// Reads secrets, and keeps those that cost something to read for a while.
#[derive(Default)]
pub struct Secrets {
    kept: Mutex<HashMap<SecretSource, Arc<Slot>>>,
}

/// A secret that is kept. The lock is held while it is read, so that many requests read it once.
type Slot = tokio::sync::Mutex<Option<(Instant, Secret)>>;

/// Why a secret could not be had. Names the reference, never a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to read the secret {reference}: {problem}")]
pub struct SecretError {
    /// The reference, as in the config.
    pub reference: String,
    /// What is wrong, and what to do.
    pub problem: String,
}

impl Secrets {
    /// Secrets, none of them read yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The secret, with its prefix.
    ///
    /// # Errors
    /// [`SecretError`] where there is none.
    ///
    /// # Cancel safety
    /// If the future is dropped, a program that was run for it is killed.
    pub async fn resolve(&self, reference: &SecretRef) -> Result<Secret, SecretError> {
        self.read(reference, None).await
    }

    /// The secret read anew, because `refused` was. Where somebody else has read it anew since,
    /// that is the answer.
    ///
    /// # Errors
    /// [`SecretError`] where there is none any more.
    pub async fn refresh(&self, reference: &SecretRef, refused: &Secret) -> Result<Secret, SecretError> {
        self.read(reference, Some(refused)).await
    }

    /// A config value, secret or not.
    ///
    /// # Errors
    /// [`SecretError`] where it is a secret and there is none.
    pub async fn value(&self, value: &Value) -> Result<Secret, SecretError> {
        match value {
            Value::Text(text) => Ok(Secret::new("", text.clone())),
            Value::Secret(reference) => self.resolve(reference).await,
        }
    }

    async fn read(&self, reference: &SecretRef, refused: Option<&Secret>) -> Result<Secret, SecretError> {
        let prefix = reference.prefix.as_deref().unwrap_or_default();
        let named = |problem: String| SecretError { reference: reference.to_string(), problem };
        let ttl = match &reference.source {
            SecretSource::Env(name) => {
                return source::env(name).map(|v| Secret::new(prefix, v)).map_err(named);
            }
            SecretSource::File(_) => FILE_TTL,
            SecretSource::Exec { ttl, .. } => *ttl,
        };
        let slot = self.slot(&reference.source);
        let mut kept = slot.lock().await;
        if let Some((read_at, secret)) = &*kept
            && read_at.elapsed() < ttl
            && refused.is_none_or(|refused| !secret.same_value(refused))
        {
            return Ok(secret.with_prefix(prefix));
        }
        *kept = None;
        let value = match &reference.source {
            SecretSource::Exec { argv, .. } => source::exec(argv).await,
            SecretSource::File(path) | SecretSource::Env(path) => source::file(path).await,
        };
        let secret = Secret::new(prefix, value.map_err(named)?);
        *kept = Some((Instant::now(), secret.clone()));
        Ok(secret)
    }

    fn slot(&self, source: &SecretSource) -> Arc<Slot> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.entry(source.clone()).or_default().clone()
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl fmt::Display for SecretRef {
    /// The reference as in the config; of a program only its name, since arguments can be secret too.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            SecretSource::Env(name) => write!(f, "{{ env: {name} }}"),
            SecretSource::File(path) => write!(f, "{{ file: {path} }}"),
            SecretSource::Exec { argv, .. } => match argv.as_slice() {
                [] => f.write_str("{ exec: [] }"),
                [program] => write!(f, "{{ exec: [{program}] }}"),
                [program, ..] => write!(f, "{{ exec: [{program}, …] }}"),
            },
        }
    }
}

#[cfg(test)]
mod tests;
