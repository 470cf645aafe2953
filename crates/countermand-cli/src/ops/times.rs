//! Times, as people read them: in UTC, and short where that is clear.

use super::rfc3339;
use countermand::core::Timestamp;
use std::time::Duration;

const A_DAY: Duration = Duration::from_secs(24 * 3600);

/// To the second: `2026-11-24T19:50:03Z`.
pub(super) fn seconds(at: Timestamp) -> String {
    rfc3339(at).chars().take(19).chain(['Z']).collect()
}

/// The time of a day that is not over yet, `19:50:03Z`; the day of what is older, `2026-11-23`.
pub(super) fn short(at: Timestamp, now: Timestamp) -> String {
    let whole = seconds(at);
    if now.since(at) < A_DAY { whole[11..].to_owned() } else { whole[..10].to_owned() }
}
