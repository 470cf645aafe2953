//! Whether the client of a call is still there, where one that has gone may come back.

use tokio::sync::watch;

/// How often a client has gone and come back. It is away while the first is the greater.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    left: u64,
    returned: u64,
}

impl Seen {
    fn is_away(self) -> bool {
        self.left > self.returned
    }
}

/// What a client has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// Nobody reads the call's answer any more, and nobody has said why.
    Left,
    /// It is back: it reads the call's stream again, or has asked for something else in its session.
    Returned,
}

/// Follows the client of one call.
///
/// Only a session's client can leave and come back. Any other that leaves is gone, and that ends its call.
#[derive(Debug, Default)]
pub struct Presence {
    seen: Option<watch::Receiver<Seen>>,
    told_away: bool,
    told_returned: u64,
}

impl Presence {
    /// A client that never leaves without ending its call.
    pub fn constant() -> Self {
        Self::default()
    }

    /// Waits for the client's next move; the first one is [`Move::Left`], and the two alternate. However brief
    /// a return was, it is told.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no move.
    pub async fn moved(&mut self) -> Move {
        let Some(seen) = &mut self.seen else { return std::future::pending().await };
        loop {
            let now = *seen.borrow_and_update();
            if self.told_away && now.returned > self.told_returned {
                (self.told_away, self.told_returned) = (false, now.returned);
                return Move::Returned;
            }
            if !self.told_away && now.is_away() {
                (self.told_away, self.told_returned) = (true, now.returned);
                return Move::Left;
            }
            if seen.changed().await.is_err() {
                // The call is over: nothing moves any more.
                return std::future::pending().await;
            }
        }
    }
}

/// The wire's side of a [`Presence`].
#[derive(Debug)]
pub(crate) struct Attendance(watch::Sender<Seen>);

impl Attendance {
    /// A client that is there.
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Seen::default()))
    }

    pub(crate) fn presence(&self) -> Presence {
        Presence { seen: Some(self.0.subscribe()), ..Presence::default() }
    }

    pub(crate) fn left(&self) {
        self.0.send_if_modified(|seen| {
            !seen.is_away() && {
                seen.left += 1;
                true
            }
        });
    }

    pub(crate) fn returned(&self) {
        self.0.send_if_modified(|seen| {
            seen.is_away() && {
                seen.returned += 1;
                true
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    fn moves(presence: &mut Presence) -> Vec<Move> {
        std::iter::from_fn(|| presence.moved().now_or_never()).collect()
    }

    #[test]
    fn every_move_is_told_once_in_turn_and_a_brief_return_is_not_missed() {
        let attendance = Attendance::new();
        let mut presence = attendance.presence();
        assert_eq!(moves(&mut presence), []);
        attendance.left();
        attendance.left();
        assert_eq!(moves(&mut presence), [Move::Left]);
        attendance.returned();
        attendance.left();
        assert_eq!(moves(&mut presence), [Move::Returned, Move::Left]);
        attendance.returned();
        attendance.returned();
        assert_eq!(moves(&mut presence), [Move::Returned]);
    }

    #[test]
    fn a_client_that_was_back_before_anybody_looked_has_not_moved() {
        let attendance = Attendance::new();
        let mut presence = attendance.presence();
        attendance.left();
        attendance.returned();
        assert_eq!(moves(&mut presence), []);
        attendance.left();
        assert_eq!(moves(&mut presence), [Move::Left]);
    }

    #[test]
    fn where_a_client_cannot_come_back_it_never_moves() {
        assert_eq!(moves(&mut Presence::constant()), []);
    }
}
