//! The request ids in flight of one client: a connection's, or a session's. Another client's are other ids.

use super::{Admission, CallHandle, Calls};
use crate::RpcError;
use crate::message::Id;
use countermand_core::Cause;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A cheap clone; all clones are the same ids.
#[derive(Clone, Default)]
pub(crate) struct InFlight(Arc<Mutex<Ids>>);

#[derive(Default)]
struct Ids {
    open: HashMap<Id, CallHandle>,
    left: bool,
}

impl InFlight {
    /// Takes a call in under its id. Of two equal ids in flight the second is refused, and so is any once the
    /// client has left.
    pub(crate) fn admit(&self, calls: &Arc<Calls>, principal: &str, id: &Id) -> Result<Admission, RpcError> {
        let mut ids = self.lock();
        if ids.left {
            return Err(RpcError::invalid_request("Invalid request: this session has ended"));
        }
        if ids.open.contains_key(id) {
            return Err(RpcError::invalid_request("Invalid request: a call with this id is in flight"));
        }
        let admission = calls.admit(principal)?;
        ids.open.insert(id.clone(), admission.handle.clone());
        Ok(admission)
    }

    /// Cancels the call of that id for its client; an id that is unknown or answered means nothing. It is free at
    /// once: nothing will be sent under it any more.
    pub(crate) fn cancel(&self, id: &Id, reason: Option<String>) {
        let call = self.lock().open.remove(id);
        if let Some(call) = call {
            call.cancel(Cause::ClientCancelled, reason);
        }
    }

    /// Frees an id, unless it names another call by now.
    pub(crate) fn remove(&self, id: &Id, call: &CallHandle) {
        let mut ids = self.lock();
        if ids.open.get(id).is_some_and(|there| there.id() == call.id()) {
            ids.open.remove(id);
        }
    }

    /// Cancels every call of this client, now and to come.
    pub(crate) fn leave(&self, cause: Cause) {
        let open: Vec<CallHandle> = {
            let mut ids = self.lock();
            ids.left = true;
            ids.open.drain().map(|(_, call)| call).collect()
        };
        for call in open {
            call.cancel(cause, None);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Ids> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
