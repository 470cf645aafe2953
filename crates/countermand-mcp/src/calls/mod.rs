//! The registry of all calls in flight, shared by every front door of a process.

mod handle;
mod in_flight;
mod presence;

pub use handle::CallHandle;
pub(crate) use in_flight::InFlight;
pub(crate) use presence::Attendance;
pub use presence::{Move, Presence};

use crate::RpcError;
use countermand_core::Cause;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

/// Bounds on what clients may have going on. Beyond one of them a request is refused at once; nothing is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Calls in flight of one principal.
    pub per_principal: usize,
    /// Calls in flight of all.
    pub total: usize,
    /// Bytes of one message.
    pub message: usize,
    /// Sessions at the same time.
    pub sessions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { per_principal: 1_000, total: 10_000, message: 4 * 1024 * 1024, sessions: 10_000 }
    }
}

/// The registry. A call is in it until its handler has returned, so a call that its client has left still counts
/// for as long as its clean-up runs inside the handler.
#[derive(Debug)]
pub struct Calls {
    limits: Limits,
    tasks: TaskTracker,
    book: Mutex<Book>,
    emptied: Notify,
}

#[derive(Debug, Default)]
struct Book {
    open: HashMap<Uuid, CallHandle>,
    principals: HashMap<String, usize>,
    closed: bool,
}

impl Calls {
    /// An empty registry.
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, tasks: TaskTracker::new(), book: Mutex::default(), emptied: Notify::new() })
    }

    /// The bounds that it keeps.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Calls whose handler has not returned.
    pub fn len(&self) -> usize {
        self.lock().open.len()
    }

    /// Whether no handler is running.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls of one principal whose handler has not returned.
    pub fn len_of(&self, principal: &str) -> usize {
        self.lock().principals.get(principal).copied().unwrap_or(0)
    }

    /// The call of that id, while its handler runs.
    pub fn get(&self, id: Uuid) -> Option<CallHandle> {
        self.lock().open.get(&id).cloned()
    }

    /// Cancels every call in flight, and says how many of these cancels were the first.
    ///
    /// With [`Cause::Shutdown`] the registry also closes: a call that comes later is refused, so that none can
    /// slip in behind the shutdown.
    pub fn cancel_all(&self, cause: Cause) -> usize {
        let open: Vec<CallHandle> = {
            let mut book = self.lock();
            book.closed |= cause == Cause::Shutdown;
            book.open.values().cloned().collect()
        };
        open.iter().filter(|call| call.cancel(cause, None)).count()
    }

    /// Waits until no handler is running.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn idle(&self) {
        loop {
            let mut emptied = pin!(self.emptied.notified());
            emptied.as_mut().enable();
            if self.is_empty() {
                return;
            }
            emptied.await;
        }
    }

    /// Takes a call in, or says why not.
    pub(crate) fn admit(self: &Arc<Self>, principal: &str) -> Result<Admission, RpcError> {
        let too_many = |limit: usize, whose: &str| {
            let message = format!("Too many calls in flight{whose} (limit {limit}); wait for some to end");
            Err(RpcError::new(RpcError::TOO_MANY_CALLS, message))
        };
        let mut book = self.lock();
        if book.closed {
            return Err(RpcError::shutting_down());
        }
        if book.open.len() >= self.limits.total {
            return too_many(self.limits.total, "");
        }
        if book.principals.get(principal).is_some_and(|count| *count >= self.limits.per_principal) {
            return too_many(self.limits.per_principal, " for this client");
        }
        let handle = CallHandle::detached();
        book.open.insert(handle.id(), handle.clone());
        *book.principals.entry(principal.to_owned()).or_default() += 1;
        Ok(Admission { handle, principal: principal.to_owned(), calls: Arc::clone(self) })
    }

    fn release(&self, handle: &CallHandle, principal: &str) {
        let empty = {
            let mut book = self.lock();
            book.open.remove(&handle.id());
            if let Some(count) = book.principals.get_mut(principal) {
                *count -= 1;
                if *count == 0 {
                    book.principals.remove(principal);
                }
            }
            book.open.is_empty()
        };
        if empty {
            self.emptied.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call's place in the registry. Dropping it gives the place back.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) handle: CallHandle,
    principal: String,
    calls: Arc<Calls>,
}

impl Admission {
    /// Where the supervisors of calls run. They are never aborted.
    pub(crate) fn tasks(&self) -> TaskTracker {
        self.calls.tasks.clone()
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.calls.release(&self.handle, &self.principal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    fn refused(calls: &Arc<Calls>, principal: &str) -> i64 {
        calls.admit(principal).unwrap_err().code
    }

    #[test]
    fn the_limits_bind_per_principal_and_in_all_until_a_handler_returns() {
        let calls = Calls::new(Limits { per_principal: 2, total: 3, ..Limits::default() });
        let first = calls.admit("a").unwrap();
        let _second = calls.admit("a").unwrap();
        assert_eq!(refused(&calls, "a"), RpcError::TOO_MANY_CALLS);
        let _third = calls.admit("b").unwrap();
        assert_eq!(refused(&calls, "c"), RpcError::TOO_MANY_CALLS);
        assert_eq!((calls.len(), calls.len_of("a"), calls.len_of("b"), calls.len_of("c")), (3, 2, 1, 0));

        // A client that has left still counts while its handler cleans up.
        first.handle.cancel(Cause::ClientDisconnected, None);
        assert_eq!(calls.len_of("a"), 2);
        drop(first);
        assert_eq!((calls.len(), calls.len_of("a")), (2, 1));
        assert!(calls.admit("a").is_ok());
    }

    #[test]
    fn a_shutdown_cancels_every_call_once_and_lets_none_slip_in_behind_it() {
        let calls = Calls::new(Limits::default());
        let (first, second) = (calls.admit("a").unwrap(), calls.admit("b").unwrap());
        second.handle.cancel(Cause::Deadline, None);
        assert_eq!(calls.cancel_all(Cause::Shutdown), 1);
        assert_eq!(first.handle.cause(), Some((Cause::Shutdown, None)));
        assert_eq!(second.handle.cause(), Some((Cause::Deadline, None)));
        assert_eq!(refused(&calls, "a"), RpcError::SHUTTING_DOWN);
    }

    #[test]
    fn the_registry_is_idle_once_the_last_handler_has_returned() {
        let calls = Calls::new(Limits::default());
        let call = calls.admit("a").unwrap();
        assert!(calls.get(call.handle.id()).is_some());
        let mut idle = Box::pin(calls.idle());
        assert!(idle.as_mut().now_or_never().is_none());
        drop(call);
        assert!(idle.as_mut().now_or_never().is_some());
        assert!(calls.is_empty());
    }
}
