//! What a call that has no operation yet makes of its client's absence, and of time.

use countermand::core::{Cause, OnDisconnect};
use countermand_mcp::{Move, Presence};
use tokio::time::Instant;

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
