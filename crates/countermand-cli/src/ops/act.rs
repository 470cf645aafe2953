//! An action on one row: through the gateway that drives it, or, where none runs, by driving it ourselves.

use super::{ALL, Where, find::Found};
use crate::engines;
use anyhow::Result;
use countermand::{
    clock::SystemClock,
    core::{
        OperationId, Phase, Row, Timestamp,
        event::Event,
        ports::{Action, Ledger, Request},
    },
    engine::{Engine, Teller},
    ledger::{OpenError, OpenMode, SqliteLedger},
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// How long a command follows what it asked for before it leaves it to the gateway, or the next one.
const FOLLOWED_FOR: Duration = Duration::from_secs(60);

/// A next try that is further away than this is not waited for.
const WAITED_FOR: Duration = Duration::from_secs(30);

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How often a command that waits for a gateway looks whether that one still lives.
const TAKE_OVER_EVERY: Duration = Duration::from_secs(1);

/// What a command waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// Somebody will do it, whatever happens: the request is filed, or the row shows it.
    Filed,
    /// The row shows it.
    Shown,
    /// The row is settled, or an operator's again.
    Settled,
}

/// What became of it.
pub(super) struct Acted {
    pub(super) row: Row,
    /// Whether the row shows what was asked for.
    pub(super) shown: bool,
    /// Whether a gateway goes on with the row.
    pub(super) gateway: bool,
}

/// Does it, and waits.
///
/// Without a gateway this process holds the ledger's lock until the row has come as far as is waited for, or its next try is
/// too far away to be waited for. Nobody can tell it to let go before: whoever finds the lock taken is told by whom.
pub(super) async fn act(place: &Where, found: &Found, action: Action, until: Until) -> Result<Acted> {
    let already = found.ledger.history(found.row.id).await?.len();
    let deed = Deed {
        id: found.row.id,
        action,
        already,
        until,
        teller: place.teller()?,
        clock: SystemClock::new(),
        deadline: Instant::now() + FOLLOWED_FOR,
    };
    match SqliteLedger::open(&found.path, OpenMode::Gateway) {
        Ok(ledger) => deed.drive(ledger).await,
        Err(OpenError::Locked { .. }) => {
            found.ledger.file_request(Request { operation: deed.id, action: deed.action.clone() }).await?;
            deed.follow(found).await
        }
        Err(error) => Err(error.into()),
    }
}

/// When what a row owes is tried next. An orphan that owes a cancel is polled as well, which does not stop it.
pub(super) fn next_request(row: &Row) -> Option<Timestamp> {
    match row.owes() {
        Phase::CancelRequested => row.cancel_at,
        _ => row.next_at,
    }
}

struct Deed {
    id: OperationId,
    action: Action,
    /// How many lines the row's history had before.
    already: usize,
    until: Until,
    teller: Option<Teller>,
    clock: SystemClock,
    deadline: Instant,
}

impl Deed {
    /// No gateway runs: this process holds the lock, and drives the one row.
    async fn drive(&self, ledger: SqliteLedger) -> Result<Acted> {
        let ledger = Arc::new(ledger);
        let engine = engines::of(ledger.clone());
        if let Action::Cancel { note } = &self.action {
            // As a gateway does.
            tracing::info!(operation = %self.id, note, "an operator cancels");
        }
        engine.tell(self.id, self.action.event()).await?;
        let acted = self.watch_over(&engine, &ledger).await;
        self.strike_off(&*ledger).await;
        self.tell_somebody(&engine).await;
        engine.shutdown(Duration::ZERO).await;
        acted
    }

    /// There is no gateway that would tell of it.
    async fn tell_somebody(&self, engine: &Engine) {
        let some_time = Timestamp::from_micros(i64::MAX);
        let waits = engine.ledger().notices(some_time, ALL).await.unwrap_or_default();
        if !waits.iter().any(|notice| notice.operation == self.id) {
            return;
        }
        let Some(teller) = &self.teller else {
            tracing::warn!(
                operation = %self.id,
                "nobody was told of it: whom `on_orphan` names is in the config, and this command was given none (`-c FILE`); the next gateway tells"
            );
            return;
        };
        let told = tokio::time::timeout(FOLLOWED_FOR, engine.tell_of(self.id, teller.clone())).await;
        match told {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) | Err(_) => {
                tracing::warn!(operation = %self.id, "not all of it could be told; the next gateway tries again");
            }
            Ok(Err(error)) => tracing::error!(operation = %self.id, "failed to tell somebody: {error}"),
        }
    }

    /// Until it has come far enough, or its driver has given it back: there is no reconciler that would take it.
    async fn watch_over(&self, engine: &Engine, ledger: &SqliteLedger) -> Result<Acted> {
        loop {
            // Before the row is read: what a driver wrote last is seen.
            let driven = engine.driven() > 0;
            let acted = self.look(ledger, false).await?;
            // Until it is ours it shows when somebody before us meant to try.
            let ours = acted.row.epoch == ledger.epoch();
            let enough = self.is_enough(&acted) || (ours && self.is_put_off(&acted));
            if enough || !driven || Instant::now() >= self.deadline {
                return Ok(acted);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Whoever has the lock has been asked, and is watched. Should it end before that, or be another
    /// command that drives another row, this process goes on as soon as the lock is free.
    async fn follow(&self, found: &Found) -> Result<Acted> {
        let mut try_again = Instant::now() + TAKE_OVER_EVERY;
        loop {
            let acted = self.look(&found.ledger, true).await?;
            let enough = self.until == Until::Filed || self.is_enough(&acted);
            if enough || self.is_put_off(&acted) || Instant::now() >= self.deadline {
                return Ok(acted);
            }
            if Instant::now() >= try_again {
                match SqliteLedger::open(&found.path, OpenMode::Gateway) {
                    Ok(ledger) => return self.drive(ledger).await,
                    Err(OpenError::Locked { .. }) => try_again = Instant::now() + TAKE_OVER_EVERY,
                    Err(error) => return Err(error.into()),
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn look(&self, ledger: &dyn Ledger, gateway: bool) -> Result<Acted> {
        let row = ledger.get(self.id).await?;
        let event = self.action.event();
        let shown = match event {
            Event::CancelWanted { .. } => row.cancel_wanted(),
            // The phase alone does not tell: a retry can fail within the blink of an eye. The history has one line a version, and
            // may be ahead of the row by now.
            _ => {
                let history = ledger.history(self.id).await?;
                let of_row = usize::try_from(row.version).unwrap_or(usize::MAX);
                history.iter().take(of_row).skip(self.already).any(|entry| entry.event == event.name())
            }
        };
        Ok(Acted { row, shown, gateway })
    }

    fn is_enough(&self, acted: &Acted) -> bool {
        let over = acted.row.phase.is_settled() || acted.row.phase.awaits_operator();
        match self.until {
            Until::Filed | Until::Shown => acted.shown || acted.row.phase.is_settled(),
            Until::Settled => acted.row.phase.is_settled() || (acted.shown && over),
        }
    }

    /// Whether the next try is not worth waiting for.
    fn is_put_off(&self, acted: &Acted) -> bool {
        acted.shown && next_request(&acted.row).is_some_and(|at| at.since(self.clock.at()) > WAITED_FOR)
    }

    /// Removes what was filed for a gateway that died before it got to it: it is done, and the next one must not do it again.
    async fn strike_off(&self, ledger: &dyn Ledger) {
        for filed in ledger.requests().await.unwrap_or_default() {
            if filed.request.operation == self.id
                && filed.request.action == self.action
                && let Err(error) = ledger.answered(filed.number).await
            {
                tracing::warn!(operation = %self.id, "{error}");
            }
        }
    }
}
