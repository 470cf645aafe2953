//! Log messages of a call, for the client that asked for them (`logging/setLevel`, or a request's own level).

use crate::json::quoted;
use crate::progress::Sink;
use crate::{CallHandle, Level};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// Sends log messages of one call. A cheap clone.
#[derive(Clone)]
pub struct Log {
    handle: CallHandle,
    threshold: Level,
    sink: Arc<dyn Sink>,
}

impl Log {
    pub(crate) fn new(handle: CallHandle, threshold: Level, sink: Arc<dyn Sink>) -> Self {
        Self { handle, threshold, sink }
    }

    /// Tells the client something. Never blocks.
    ///
    /// Nothing is sent below the level that the client asked for, or if the call has been cancelled or answered. A
    /// client that does not read misses some.
    pub fn send(&self, level: Level, logger: &str, data: &Value) {
        if level < self.threshold {
            return;
        }
        self.sink.offer(&self.handle, &write(level, logger, data));
    }
}

fn write(level: Level, logger: &str, data: &Value) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{}","logger":{},"data":{data}}}}}"#,
        level.as_str(),
        quoted(logger)
    )
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("call", &self.handle.id()).field("threshold", &self.threshold).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Kept;
    use countermand_core::Cause;
    use serde_json::json;

    #[test]
    fn only_what_the_client_asked_for_is_sent_and_nothing_after_its_cancel() {
        let (handle, kept) = (CallHandle::detached(), Arc::new(Kept::default()));
        let log = Log::new(handle.clone(), Level::Warning, kept.clone());
        log.send(Level::Notice, "a", &json!("quiet"));
        log.send(Level::Error, "a", &json!({"loud": "\n"}));
        handle.cancel(Cause::ClientCancelled, None);
        log.send(Level::Error, "a", &json!("late"));
        let kept = kept.0.lock().unwrap();
        let expected = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","logger":"a","data":{"loud":"\n"}}}"#;
        assert_eq!(*kept, [expected]);
    }
}
