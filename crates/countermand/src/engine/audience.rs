//! The calls that one operation serves: who is here, who is away and may come back, and what their words mean for
//! the operation. It only decides; the driver keeps it beside the row, and hears one word after the other.

use countermand_core::{Cause, Phase, Row, event::Event};
use std::collections::BTreeMap;

/// One call of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Member(u64);

impl Member {
    /// The call that started it.
    pub(super) const FIRST: Self = Self(0);
}

/// What a call says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// It wants no more of it.
    Cancel(Cause, Option<String>),
    /// Its connection is gone; it may come back.
    Away(Cause),
    /// It is back.
    Returned,
    /// It is gone for good.
    Left(Cause),
    /// It has its answer.
    Delivered,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Here,
    Away(Cause),
}

/// Who waits for one operation.
#[derive(Debug, Default)]
pub(super) struct Audience {
    members: BTreeMap<Member, Place>,
    joined: u64,
}

impl Audience {
    /// That of an operation that a call has just started.
    pub(super) fn of_one() -> Self {
        Self { members: BTreeMap::from([(Member::FIRST, Place::Here)]), joined: 0 }
    }

    /// Another call joins. The event is what that means for the operation.
    pub(super) fn join(&mut self) -> (Member, Option<Event>) {
        let first = !self.somebody_is_here();
        self.joined += 1;
        let member = Member(self.joined);
        self.members.insert(member, Place::Here);
        (member, first.then_some(Event::ClientReturned))
    }

    /// What a word of one member means for the operation.
    pub(super) fn hear(&mut self, member: Member, said: Said) -> Option<Event> {
        match said {
            Said::Cancel(cause, reason) => {
                let was = self.members.remove(&member);
                let concerns_all = matches!(cause, Cause::Operator | Cause::Shutdown);
                if concerns_all || self.members.is_empty() {
                    return Some(Event::CancelWanted { cause, reason, note: None });
                }
                self.left_behind(was)
            }
            Said::Left(cause) => {
                let was = self.members.remove(&member);
                if self.members.is_empty() {
                    return Some(Event::ClientLeft { cause });
                }
                self.left_behind(was)
            }
            Said::Away(cause) => {
                let place = self.members.get_mut(&member)?;
                let was = std::mem::replace(place, Place::Away(cause));
                let last = was == Place::Here && !self.somebody_is_here();
                last.then_some(Event::ClientLeft { cause })
            }
            Said::Returned => {
                let first = !self.somebody_is_here();
                *self.members.get_mut(&member)? = Place::Here;
                first.then_some(Event::ClientReturned)
            }
            Said::Delivered => {
                self.members.remove(&member);
                Some(Event::Delivered)
            }
        }
    }

    fn somebody_is_here(&self) -> bool {
        self.members.values().any(|place| *place == Place::Here)
    }

    /// The last one that was here has gone, and those that remain are away: the operation waits for them as
    /// one of them has left.
    fn left_behind(&self, was: Option<Place>) -> Option<Event> {
        if was != Some(Place::Here) || self.somebody_is_here() {
            return None;
        }
        self.members.values().find_map(|place| match place {
            Place::Away(cause) => Some(Event::ClientLeft { cause: *cause }),
            Place::Here => None,
        })
    }
}

/// Whether an identical call may join it: it may still run, or its answer still waits, and nobody wants it to
/// stop; or it cannot be stopped, and upstream nothing was or will be done about it. What is being undone, or waits for
/// an operator, is nothing to wait for.
pub(super) fn may_join(row: &Row) -> bool {
    match row.phase {
        Phase::Draining => !row.policy.mark && row.policy.undo_steps == 0,
        Phase::Ended => !row.cancel_wanted() && row.delivered_at.is_none(),
        phase => (phase.is_before_end() || phase == Phase::Orphaned) && !row.cancel_wanted(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cancel(cause: Cause) -> Said {
        Said::Cancel(cause, None)
    }

    fn left(cause: Cause) -> Option<Event> {
        Some(Event::ClientLeft { cause })
    }

    fn cancelled(cause: Cause) -> Option<Event> {
        Some(Event::CancelWanted { cause, reason: None, note: None })
    }

    const FIRST: Member = Member::FIRST;
    const GONE: Cause = Cause::ClientDisconnected;

    /// A call that started it, and one that has joined.
    fn two() -> (Audience, Member) {
        let mut audience = Audience::of_one();
        let (second, returned) = audience.join();
        assert_eq!(returned, None, "the first one is here");
        (audience, second)
    }

    #[test]
    fn a_cancel_by_one_of_two_detaches_it_and_the_last_one_cancels() {
        let (mut audience, second) = two();
        assert_eq!(audience.hear(FIRST, cancel(Cause::ClientCancelled)), None);
        assert_eq!(audience.hear(FIRST, cancel(Cause::ClientCancelled)), None, "it has no say any more");
        assert_eq!(audience.hear(second, cancel(Cause::Deadline)), cancelled(Cause::Deadline));
        assert_eq!(audience.hear(second, cancel(Cause::Deadline)), cancelled(Cause::Deadline), "history");
    }

    #[test]
    fn an_operators_cancel_and_a_shutdown_concern_all() {
        for cause in [Cause::Operator, Cause::Shutdown] {
            let (mut audience, _second) = two();
            assert_eq!(audience.hear(FIRST, cancel(cause)), cancelled(cause));
        }
    }

    #[test]
    fn the_operation_is_left_when_nobody_is_here_and_returned_to_by_the_first_who_is() {
        let (mut audience, second) = two();
        assert_eq!(audience.hear(FIRST, Said::Away(GONE)), None);
        assert_eq!(audience.hear(second, Said::Away(GONE)), left(GONE));
        assert_eq!(audience.hear(second, Said::Away(GONE)), None, "it is away already");
        assert_eq!(audience.hear(FIRST, Said::Returned), Some(Event::ClientReturned));
        assert_eq!(audience.hear(second, Said::Returned), None);
        assert_eq!(audience.hear(second, Said::Away(GONE)), None);
        assert_eq!(audience.hear(FIRST, Said::Left(Cause::SessionEnded)), left(GONE), "one may come back");
        assert_eq!(audience.hear(second, Said::Left(Cause::SessionEnded)), left(Cause::SessionEnded));
        assert!(audience.members.is_empty());
        assert_eq!(audience.hear(second, Said::Returned), None, "it has left for good");
    }

    #[test]
    fn the_last_one_here_that_cancels_leaves_the_operation_to_those_who_are_away() {
        let (mut audience, second) = two();
        assert_eq!(audience.hear(second, Said::Away(GONE)), None);
        assert_eq!(audience.hear(FIRST, cancel(Cause::ClientCancelled)), left(GONE));
        assert_eq!(audience.hear(second, cancel(Cause::ClientCancelled)), cancelled(Cause::ClientCancelled));
    }

    #[test]
    fn who_joins_when_nobody_is_here_returns() {
        for mut audience in [Audience::default(), Audience::of_one()] {
            audience.hear(FIRST, Said::Away(GONE));
            let (member, returned) = audience.join();
            assert_eq!(returned, Some(Event::ClientReturned));
            assert_eq!(audience.join().1, None);
            assert_ne!(member, FIRST);
        }
    }

    #[test]
    fn a_delivery_satisfies_one_and_the_others_stay() {
        let (mut audience, second) = two();
        assert_eq!(audience.hear(FIRST, Said::Delivered), Some(Event::Delivered));
        assert!(!audience.members.is_empty());
        assert_eq!(audience.hear(second, Said::Delivered), Some(Event::Delivered));
        assert!(audience.members.is_empty());
    }
}
