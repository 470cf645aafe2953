//! Progress of a call, on its way to the client that asked for it.

use crate::CallHandle;
use crate::json::{raw_members, raw_object};
use crate::message;
use serde_json::value::RawValue;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Where a transport takes the notifications of a call. Never blocks.
pub(crate) trait Sink: Send + Sync {
    /// Takes one notification, on one line, if there is room and `call` is still open. Says whether it did.
    fn offer(&self, call: &CallHandle, json: &str) -> bool;

    /// Takes a message that nothing newer makes up for, if there is room and `call`, where there is one, is still open.
    fn insist(&self, call: Option<&CallHandle>, json: &str) -> bool;
}

/// Sends progress of one call. A cheap clone.
#[derive(Clone)]
pub struct Progress(Arc<Inner>);

struct Inner {
    handle: CallHandle,
    token: Box<RawValue>,
    last: Mutex<Option<f64>>,
    sink: Arc<dyn Sink>,
}

impl Progress {
    pub(crate) fn new(handle: CallHandle, token: &RawValue, sink: Arc<dyn Sink>) -> Self {
        Self(Arc::new(Inner { handle, token: token.to_owned(), last: Mutex::new(None), sink }))
    }

    /// Tells the client how far the call is. Never blocks.
    ///
    /// Nothing is sent if `progress` is not above the last one sent, if a number is not finite, or if the call has
    /// been cancelled or answered. A client that does not read misses some: where there is no room, progress is
    /// dropped or replaced by newer progress.
    pub fn send(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let mut last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| progress <= last) {
            return;
        }
        let Some(json) = message::write_progress(&self.0.token, progress, total, message) else { return };
        if self.0.sink.offer(&self.0.handle, &json) {
            *last = Some(progress);
        }
    }
}

impl Progress {
    /// Tells the client what somebody else's progress notification says: its params, but with the client's own token. On
    /// the same terms as [`send`](Self::send).
    pub fn pass_on(&self, progress: f64, params: &RawValue) {
        let mut last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| progress <= last) {
            return;
        }
        let mut members = raw_members(params).unwrap_or_default();
        for (name, value) in &mut members {
            if name == "progressToken" {
                value.clone_from(&self.0.token);
            }
        }
        let params = raw_object(members.iter().map(|(name, value)| (name.as_str(), value)));
        if self
            .0
            .sink
            .offer(&self.0.handle, &message::write_notification("notifications/progress", Some(&params)))
        {
            *last = Some(progress);
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("call", &self.0.handle.id()).field("token", &self.0.token).finish()
    }
}

/// A transport that keeps what it takes.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct Kept(pub(crate) Mutex<Vec<String>>);

#[cfg(test)]
impl Sink for Kept {
    fn offer(&self, call: &CallHandle, json: &str) -> bool {
        call.while_open(|| {
            self.0.lock().unwrap().push(json.to_owned());
            true
        })
    }

    fn insist(&self, call: Option<&CallHandle>, json: &str) -> bool {
        let keep = || {
            self.0.lock().unwrap().push(json.to_owned());
            true
        };
        call.map_or_else(keep, |call| call.while_open(keep))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countermand_core::Cause;

    fn started() -> (Progress, CallHandle, Arc<Kept>) {
        let (handle, kept) = (CallHandle::detached(), Arc::new(Kept::default()));
        let token = RawValue::from_string("7".to_owned()).unwrap();
        (Progress::new(handle.clone(), &token, kept.clone()), handle, kept)
    }

    #[test]
    fn progress_must_increase() {
        let (progress, _, kept) = started();
        for value in [1.0, 1.0, 0.5, f64::INFINITY, 2.0] {
            progress.send(value, None, None);
        }
        assert_eq!(kept.0.lock().unwrap().len(), 2);
    }

    #[test]
    fn somebody_elses_progress_is_passed_on_under_the_clients_token_and_as_it_was_written() {
        let (progress, _, kept) = started();
        let params = r#"{"progressToken":"theirs","progress":1.0,"x":[ 1.0 ]}"#;
        let params = RawValue::from_string(params.to_owned()).unwrap();
        progress.pass_on(1.0, &params);
        progress.pass_on(1.0, &params);
        let expected = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1.0,"x":[ 1.0 ]}}"#;
        assert_eq!(*kept.0.lock().unwrap(), [expected]);
    }

    #[test]
    fn nothing_is_sent_after_a_cancel_of_any_cause_or_after_the_answer() {
        for cause in Cause::ALL {
            let (progress, handle, kept) = started();
            handle.cancel(cause, None);
            progress.send(1.0, None, None);
            assert!(kept.0.lock().unwrap().is_empty(), "{cause}");
        }
        let (progress, handle, kept) = started();
        handle.settle(|| ()).unwrap();
        progress.send(1.0, None, None);
        assert!(kept.0.lock().unwrap().is_empty());
    }
}
