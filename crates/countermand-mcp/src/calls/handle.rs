//! The state of one call: who ended it first, and whether anything may still be said about it.

use countermand_core::Cause;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use uuid::Uuid;

/// The state of one call in the registry. A cheap clone; all clones are the same call.
///
/// 1. The first cancel of an open call writes the cause. It never changes.
/// 2. The answer and a cancel by the client race, and exactly one wins. Once the client has ended the call
///    nothing is sent for it; once the answer has won, no cancel is taken.
/// 3. A cancel by anybody else (deadline, operator, shutdown) leaves the answer to be sent. If the client ends
///    the call while that answer is still on its way, the answer is suppressed, and the cause stays what it was.
#[derive(Debug, Clone)]
pub struct CallHandle(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: Uuid,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    cause: Option<(Cause, Option<String>)>,
    /// The client's own cause, once it has ended the call: nothing more may be sent.
    silenced: Option<Cause>,
    answered: bool,
}

impl CallHandle {
    /// A handle that is in no registry: for a call that no client made, and for tests of handlers.
    pub fn detached() -> Self {
        Self(Arc::new(Inner { id: Uuid::now_v7(), state: Mutex::default(), changed: Notify::new() }))
    }

    /// Our own id of the call, a UUID of version 7. Not the client's request id.
    pub fn id(&self) -> Uuid {
        self.0.id
    }

    /// Waits until the call is cancelled, and says by what, with the client's reason text.
    ///
    /// Never completes for a call that is answered without a cancel.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: the next one sees the same cancel.
    pub async fn cancelled(&self) -> (Cause, Option<String>) {
        self.once(|state| state.cause.clone()).await
    }

    /// What cancelled the call, if anything did.
    pub fn cause(&self) -> Option<(Cause, Option<String>)> {
        self.lock().cause.clone()
    }

    /// Cancels the call. True if this cancel is the one that is written; false if the call was cancelled before,
    /// or has been answered.
    pub fn cancel(&self, cause: Cause, reason: Option<String>) -> bool {
        let won = {
            let mut state = self.lock();
            if state.answered {
                return false;
            }
            if cause.is_the_clients() {
                state.silenced.get_or_insert(cause);
            }
            let won = state.cause.is_none();
            if won {
                state.cause = Some((cause, reason));
            }
            won
        };
        self.0.changed.notify_waiters();
        won
    }

    /// Settles the race for the answer. If it is won, `hand_over` runs before any cancel can be taken.
    pub(crate) fn settle(&self, hand_over: impl FnOnce()) -> Result<(), Cause> {
        let mut state = self.lock();
        match state.silenced {
            Some(cause) => Err(cause),
            None => {
                state.answered = true;
                hand_over();
                Ok(())
            }
        }
    }

    /// Runs `send` unless the call is over; no cancel and no answer can come in between.
    pub(crate) fn while_open(&self, send: impl FnOnce() -> bool) -> bool {
        let state = self.lock();
        state.cause.is_none() && !state.answered && send()
    }

    /// Waits until the client has ended the call.
    pub(crate) async fn silenced(&self) -> Cause {
        self.once(|state| state.silenced).await
    }

    async fn once<T>(&self, read: impl Fn(&State) -> Option<T>) -> T {
        loop {
            // Registered before the state is read, so that a change in between is not missed.
            let mut changed = pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if let Some(value) = read(&self.lock()) {
                return value;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[test]
    fn the_first_cause_is_written_and_later_ones_change_nothing() {
        for first in Cause::ALL {
            for second in Cause::ALL {
                let call = CallHandle::detached();
                assert!(call.cancel(first, Some("why".to_owned())));
                assert!(!call.cancel(second, Some("other".to_owned())));
                assert_eq!(call.cause(), Some((first, Some("why".to_owned()))));
            }
        }
    }

    #[test]
    fn a_cancel_by_the_client_suppresses_the_answer_and_any_other_lets_it_out() {
        for cause in Cause::ALL {
            let call = CallHandle::detached();
            call.cancel(cause, None);
            let mut sent = false;
            let settled = call.settle(|| sent = true);
            assert_eq!(sent, !cause.is_the_clients(), "{cause}");
            assert_eq!(settled.err(), cause.is_the_clients().then_some(cause));
        }
    }

    #[test]
    fn a_client_that_ends_a_call_past_its_deadline_gets_nothing_and_the_cause_stays() {
        let call = CallHandle::detached();
        call.cancel(Cause::Deadline, None);
        assert!(!call.cancel(Cause::ClientDisconnected, None));
        assert_eq!(call.settle(|| ()), Err(Cause::ClientDisconnected));
        assert_eq!(call.cause(), Some((Cause::Deadline, None)));
    }

    #[test]
    fn an_answered_call_takes_no_cancel_and_its_cancel_never_comes() {
        let call = CallHandle::detached();
        let mut waiting = Box::pin(call.cancelled());
        assert!(waiting.as_mut().now_or_never().is_none());
        call.settle(|| ()).unwrap();
        for cause in Cause::ALL {
            assert!(!call.cancel(cause, None));
        }
        assert_eq!(call.cause(), None);
        assert!(waiting.as_mut().now_or_never().is_none());
    }

    #[test]
    fn of_an_answer_and_a_cancel_that_race_exactly_one_wins() {
        for _ in 0..2_000 {
            let call = CallHandle::detached();
            let (won, settled) = std::thread::scope(|scope| {
                let cancel = scope.spawn(|| call.cancel(Cause::ClientCancelled, None));
                let settle = scope.spawn(|| call.settle(|| ()).is_ok());
                (cancel.join().unwrap(), settle.join().unwrap())
            });
            assert_ne!(won, settled);
            assert_eq!(call.cause().is_some(), won);
        }
    }

    #[tokio::test]
    async fn everybody_who_waits_sees_the_cancel() {
        let call = CallHandle::detached();
        let waiting = futures_util::future::join(call.cancelled(), call.cancelled());
        let cancel = async { call.cancel(Cause::Operator, None) };
        let ((first, second), won) = tokio::join!(waiting, cancel);
        assert!(won);
        assert_eq!((first, second), ((Cause::Operator, None), (Cause::Operator, None)));
        assert_eq!(call.cancelled().await.0, Cause::Operator);
    }
}
