//! What a call that has no operation yet makes of its client's absence, and of time.

use crate::config::SESSION_GRACE;
use countermand::core::{Cause, OnDisconnect};
use countermand_mcp::{Client, Move, Presence, TransportKind};
use tokio::time::Instant;

/// What it means for a call that its client has left, where nothing else is configured: in a session a broken connection is
/// no cancel by itself, and the client may come back; on stdio and where requests stand alone it cannot.
pub(crate) fn policy(configured: Option<OnDisconnect>, client: &Client) -> OnDisconnect {
    let in_session = client.transport == TransportKind::Http && !client.revision.is_stateless();
    let default = if in_session { OnDisconnect::Grace(SESSION_GRACE) } else { OnDisconnect::Cancel };
    configured.unwrap_or(default)
}

/// Waits until the call has taken too long, or its client has stayed away for too long.
pub(crate) async fn given_up(policy: OnDisconnect, timeout: Instant, mut presence: Presence) -> Cause {
    let mut back_by = None;
    loop {
        let moved = tokio::select! {
            moved = presence.moved() => moved,
            () = tokio::time::sleep_until(back_by.unwrap_or(timeout).min(timeout)) => {
                return if back_by.is_some_and(|by| by < timeout) { Cause::ClientDisconnected } else { Cause::Deadline };
            }
        };
        back_by = match (moved, policy) {
            (Move::Left, OnDisconnect::Cancel) => return Cause::ClientDisconnected,
            (Move::Left, OnDisconnect::Grace(grace)) => Some(Instant::now() + grace),
            (Move::Left, OnDisconnect::Detach) | (Move::Returned, _) => None,
        };
    }
}
