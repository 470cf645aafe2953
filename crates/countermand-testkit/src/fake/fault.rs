//! Faults: what the fake does instead of the right thing, for how many requests.

use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::gate::{Filter, Subject};
use super::lock;

/// What happens instead of the normal answer. *Commit* is the normal effect of the request: a job exists, a cancel is
/// taken, rows are deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// No commit; this status, and `Retry-After` in seconds.
    Status(u16, Option<u32>),
    /// The commit, and this status all the same.
    StatusAfterCommit(u16),
    /// No commit, no answer: the connection stays open until the peer leaves.
    HangBeforeCommit,
    /// The commit, and no answer: the connection stays open until the peer leaves.
    HangAfterCommit,
    /// No commit; a RST.
    ResetBeforeCommit,
    /// The commit, then a RST.
    ResetAfterCommit,
    /// No answer; the commit happens after the peer has left, and not before a hold at [`Gate::Body`](super::Gate::Body)
    /// lets it: a create that was still on its way. Only creates and orders do this; the rest hang before commit.
    LateCreate,
    /// The commit, and a 2xx whose body is a page for humans.
    NotJson,
    /// The commit, and a 2xx without a body and without a `Location`.
    EmptyBody,
    /// A cancel is answered with 202, and the job runs on, saying so.
    CancelIgnored,
    /// A cancel is answered with 202, the next status read says `cancelled`, and then the job completes.
    CancelledThenDone,
    /// A cancel is answered with 202, the next status read says `cancelled`, and the ones after it say `running`.
    CancelledThenRunning,
    /// 404, though the job lives.
    Vanish,
    /// A look-up finds nothing, whatever there is.
    StaleList,
    /// The commit, and the right answer padded to this many bytes.
    HugeBody(u64),
    /// The same, of which nobody says how long it is: it ends with its connection.
    UnsizedBody(u64),
    /// The commit, and the right answer whose body comes one byte per 100 ms.
    Trickle,
    /// No commit; a 307 to this URL.
    Redirect(String),
}

impl Fault {
    /// How the record calls it.
    pub fn name(&self) -> String {
        match self {
            Fault::Status(code, _) => format!("status {code}"),
            Fault::StatusAfterCommit(code) => format!("status_after_commit {code}"),
            Fault::HangBeforeCommit => "hang_before_commit".into(),
            Fault::HangAfterCommit => "hang_after_commit".into(),
            Fault::ResetBeforeCommit => "reset_before_commit".into(),
            Fault::ResetAfterCommit => "reset_after_commit".into(),
            Fault::LateCreate => "late_create".into(),
            Fault::NotJson => "not_json".into(),
            Fault::EmptyBody => "empty_body".into(),
            Fault::CancelIgnored => "cancel_ignored".into(),
            Fault::CancelledThenDone => "cancelled_then_done".into(),
            Fault::CancelledThenRunning => "cancelled_then_running".into(),
            Fault::Vanish => "vanish".into(),
            Fault::StaleList => "stale_list".into(),
            Fault::HugeBody(bytes) => format!("huge_body {bytes}"),
            Fault::UnsizedBody(bytes) => format!("unsized_body {bytes}"),
            Fault::Trickle => "trickle".into(),
            Fault::Redirect(url) => format!("redirect {url}"),
        }
    }
}

#[derive(Debug)]
struct Entry {
    filter: Filter,
    fault: Fault,
    /// For how many more requests; `None` is for all.
    left: Option<u32>,
}

/// All faults that wait for their request, oldest first. A request takes the first that matches.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Vec<Entry>>);

impl Faults {
    pub(crate) fn add(&self, filter: Filter, fault: Fault, times: Option<u32>) {
        if times != Some(0) {
            lock(&self.0).push(Entry { filter, fault, left: times });
        }
    }

    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }

    pub(crate) fn take(&self, subject: Subject<'_>) -> Option<Fault> {
        let mut entries = lock(&self.0);
        let at = entries.iter().position(|entry| entry.filter.matches(subject))?;
        let entry = &mut entries[at];
        let fault = entry.fault.clone();
        match &mut entry.left {
            None => {}
            Some(1) => drop(entries.remove(at)),
            Some(left) => *left -= 1,
        }
        Some(fault)
    }
}
