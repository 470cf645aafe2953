//! Engines as the command line makes them: one a ledger.

use crate::proxy::{gone, is_forwarded};
use countermand::{
    clock::SystemClock,
    core::{Owner, ports::Upstream},
    definition::ToolDefinition,
    engine::{Engine, Healths, Parts, Performers, Teller},
    ledger::SqliteLedger,
    secret::Secrets,
    upstream::Upstreams,
};
use std::{sync::Arc, time::Duration};

/// How long settled operations are kept where no config says otherwise.
const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// What an engine needs beside its ledger.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) upstreams: Arc<Upstreams>,
    pub(crate) clock: Arc<SystemClock>,
    pub(crate) retention: Duration,
    /// How the upstreams are: what one ledger's operations have learnt, those of the others know.
    pub(crate) healths: Healths,
    /// Who tells of what could not be stopped.
    pub(crate) teller: Option<Teller>,
}

impl World {
    pub(crate) fn new(retention: Duration) -> Self {
        let clock = Arc::new(SystemClock::new());
        let upstreams = Arc::new(Upstreams::new(Arc::new(Secrets::new()), clock.clone()));
        Self { upstreams, clock, retention, healths: Healths::default(), teller: None }
    }

    /// Goes on with what the engine's ledger holds, and tells what there is to tell, until the engine stops.
    pub(crate) fn tend(&self, engine: &Engine) {
        engine.reconcile();
        if let Some(teller) = &self.teller {
            engine.tell_by(teller.clone());
        }
    }

    /// The engine over a ledger that this process holds.
    pub(crate) fn engine(&self, ledger: Arc<SqliteLedger>) -> Engine {
        let upstreams = self.upstreams.clone();
        let performers: Performers = Arc::new(move |stored| {
            if is_forwarded(stored) {
                return Ok(Arc::new(gone()) as Arc<dyn Upstream>);
            }
            let definition = ToolDefinition::from_stored(stored)
                .map_err(|error| format!("its stored definition cannot be read by this version: {error}"))?;
            upstreams.for_definition(&definition).map_err(|error| error.to_string())
        });
        let epoch = ledger.epoch();
        Engine::new(Parts {
            ledger,
            performers,
            clock: self.clock.clone(),
            owner: Owner(format!("pid {}", std::process::id())),
            epoch,
            retention: self.retention,
            healths: self.healths.clone(),
        })
    }
}

/// An engine for one thing to do.
pub(crate) fn of(ledger: Arc<SqliteLedger>) -> Engine {
    World::new(RETENTION).engine(ledger)
}

#[cfg(test)]
mod tests {
    use super::*;
    use countermand::{core::HealthPolicy, ledger::OpenMode};

    #[tokio::test]
    async fn the_engines_of_a_process_know_of_each_others_failures() {
        let directory = tempfile::tempdir().expect("makes a directory");
        let world = World::new(RETENTION);
        let health = |name: &str| {
            let ledger = SqliteLedger::open(directory.path().join(name), OpenMode::Gateway).expect("opens");
            world.clone().engine(Arc::new(ledger)).health("u", HealthPolicy::default())
        };
        assert!(Arc::ptr_eq(&health("one.db"), &health("another.db")));
    }
}
