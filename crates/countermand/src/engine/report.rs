//! What the log says of an operation.

use countermand_core::{Phase, Row, event::Alarm};

/// What happened to it, for whoever follows the log.
pub(super) fn happened(row: &Row, event: &str, note: Option<&str>, before: Phase) {
    let upstream_id = row.upstream_id.as_ref().map(ToString::to_string);
    let cause = row.cause.map(|cause| cause.as_str());
    if row.cancel_wanted() {
        tracing::info!(
            operation = %row.id, tool = row.tool, upstream_id, cause, reason = row.reason, note, from = %before, to = %row.phase,
            "{event}"
        );
    } else {
        tracing::debug!(operation = %row.id, tool = row.tool, upstream_id, note, from = %before, to = %row.phase, "{event}");
    }
}

/// What an operator should know at once, with all ids and what to do.
pub(super) fn alarm(row: &Row, alarm: Alarm) {
    let (what, todo) = match alarm {
        Alarm::Orphaned => (
            "an operation may still run upstream: what is owed to it is late or failing",
            "it is retried; look at the upstream by the id or the key, `countermand ops show` tells what was tried",
        ),
        Alarm::Unauthorised => (
            "the upstream refuses our credentials",
            "correct the credentials of this upstream and restart; what is owed is retried once a minute",
        ),
        Alarm::TookBack => (
            "the upstream took back that it had stopped",
            "what it says now counts; do not trust its `cancelled`",
        ),
        Alarm::NeedsIntervention => (
            "an operation could not be settled within 24 h, and nothing more is tried",
            "end it upstream by its id or key, then `countermand ops resolve`, or `countermand ops retry`",
        ),
        Alarm::CompensationFailed => (
            "an operation's effects could not be undone",
            "undo them by hand, then `countermand ops resolve`, or `countermand ops retry`",
        ),
    };
    tracing::error!(
        operation = %row.id,
        tool = row.tool,
        upstream = row.upstream,
        upstream_id = row.upstream_id.as_ref().map(ToString::to_string),
        key = %row.key,
        phase = %row.phase,
        cause = row.cause.map(|cause| cause.as_str()),
        last_error = row.last_error,
        todo,
        "{what}"
    );
}
