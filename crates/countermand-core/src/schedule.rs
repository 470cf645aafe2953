//! When something is tried again: retries, polls, and the bounds that design fixes.

use crate::{row::Row, time::Now};
use std::time::Duration;

/// How long an id must be unknown upstream before that counts as evidence.
pub const MISSING_FOR: Duration = Duration::from_secs(10);
/// When an HTTP API that said `cancelled` is read once more.
pub const CONFIRM_AFTER: Duration = Duration::from_secs(1);
/// How long an orphan is retried before it is left to an operator.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(24 * 3600);
/// How often a create that provably was not made is tried.
pub const CREATE_ATTEMPTS: u32 = 4;
/// How often a mark is tried.
pub const MARK_ATTEMPTS: u32 = 5;
/// The least time between an accepted cancel and the next one: an upstream may take a moment.
pub const RESEND_AFTER: Duration = Duration::from_secs(1);
/// The pause after the upstream has refused our credentials.
pub const UNAUTHORISED_PAUSE: Duration = Duration::from_secs(60);

const FIRST_RETRY: Duration = Duration::from_millis(200);
const CAP_AT_FIRST: Duration = Duration::from_secs(2);
const CAP_LATER: Duration = Duration::from_secs(60);
const FIRST_MINUTE: Duration = Duration::from_secs(60);
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3600);
const MISSING_POLL: Duration = Duration::from_secs(1);
const CANCEL_POLL: Duration = Duration::from_millis(200);

/// The pause before retry number `attempts` (from 1) of something owed for `owed_for`: full jitter from 200 ms, doubling,
/// at most 2 s in the first minute and 60 s later. `Retry-After` wins, up to an hour; a zero
/// says nothing, and must not make a storm.
pub fn retry(attempts: u32, owed_for: Duration, retry_after: Option<Duration>, now: Now) -> Duration {
    if let Some(asked) = retry_after.filter(|asked| !asked.is_zero()) {
        return asked.min(LONGEST_RETRY_AFTER);
    }
    let cap = if owed_for < FIRST_MINUTE { CAP_AT_FIRST } else { CAP_LATER };
    let doubled = FIRST_RETRY.saturating_mul(1 << attempts.saturating_sub(1).min(20));
    now.dice.jitter(doubled.min(cap))
}

/// The pause before the next poll of a running operation: a tenth of its age, so that its end is
/// seen late by a tenth at most, within the configured bounds.
pub fn poll(row: &Row, retry_after: Option<Duration>, now: Now) -> Duration {
    let tenth = now.at.since(row.phase_since) / 10;
    let policy = &row.policy;
    let pause = tenth.clamp(policy.poll_every, policy.poll_max.max(policy.poll_every));
    let pause = if row.missing_since.is_some() { pause.min(MISSING_POLL) } else { pause };
    pause.max(retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER))
}

/// The pause before the next status read of an operation whose cancel is out: from 200 ms, a tenth
/// of the time since the cancel, at most 60 s.
pub fn confirm_poll(row: &Row, retry_after: Option<Duration>, now: Now) -> Duration {
    let owed = row.cancel_requested_at.or(row.ended_seen_at).unwrap_or(row.phase_since);
    let pause = (now.at.since(owed) / 10).clamp(CANCEL_POLL, CAP_LATER);
    pause.max(retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER))
}
