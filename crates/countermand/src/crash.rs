//! Moments at which a test kills this very process, as a crash would. Only with the feature `crash-points`, which
//! no build for use has; without it [`crash_point!`](crate::crash_point) is nothing.
//!
//! Armed by the environment: [`POINT`] names a [`CrashPoint`], with `:N` for the N-th time that it is passed, or is
//! `trace`, which kills nothing. [`MARK`] is a file to which each point that is passed (traced) or that kills adds its name.

use std::{
    fmt,
    io::Write as _,
    str::FromStr,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// The variable that names the point.
pub const POINT: &str = "COUNTERMAND_CRASH";

/// The variable that names the file for the mark.
pub const MARK: &str = "COUNTERMAND_CRASH_MARK";

macro_rules! moments {
    ($($(#[$doc:meta])* $name:ident = $word:literal),+ $(,)?) => {
        /// Something that a process can die right before, or right after.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Moment {
            $($(#[$doc])* #[doc = concat!("`", $word, "`")] $name),+
        }

        impl Moment {
            /// Every one of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Its name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),+ }
            }
        }
    };
}

moments! {
    // Durable writes that begin an operation.
    Definition = "definition_commit",
    Intent = "intent_commit",
    // Durable writes of what happened, by the event's name.
    CreateStarted = "create_started_commit",
    Created = "created_commit",
    CreateNotSent = "create_not_sent_commit",
    CreateThrottled = "create_throttled_commit",
    CreateRefused = "create_refused_commit",
    CreateLost = "create_lost_commit",
    Found = "found_commit",
    NotFound = "not_found_commit",
    FindFailed = "find_failed_commit",
    SeenRunning = "seen_running_commit",
    SeenEnded = "seen_ended_commit",
    SeenMissing = "seen_missing_commit",
    StatusFailed = "status_failed_commit",
    HeldUp = "held_up_commit",
    CancelWanted = "cancel_wanted_commit",
    ClientLeft = "client_left_commit",
    ClientReturned = "client_returned_commit",
    CancelAccepted = "cancel_accepted_commit",
    CancelNotAccepted = "cancel_not_accepted_commit",
    Marked = "marked_commit",
    MarkFailed = "mark_failed_commit",
    Undone = "undone_commit",
    UndoRefused = "undo_refused_commit",
    UndoFailed = "undo_failed_commit",
    Delivered = "delivered_commit",
    TakenOver = "taken_over_commit",
    TimePassed = "time_passed_commit",
    Resolved = "resolved_commit",
    RetryWanted = "retry_wanted_commit",
    // The removal of an operator's request that was done.
    RequestAnswered = "request_answered_commit",
    // Requests to the upstream: before the first byte, and when the answer is here and nobody has been told.
    Create = "create_call",
    Replay = "replay_call",
    Find = "find_call",
    Status = "status_call",
    Cancel = "cancel_call",
    Force = "force_call",
    Mark = "mark_call",
    Undo = "undo_call",
    Result = "result_call",
    // The answer to the client: before it is handed to the transport, and when the transport has it.
    Answer = "answer",
}

impl Moment {
    /// The write of what happened.
    pub fn of_event(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|moment| moment.as_str().strip_suffix("_commit") == Some(name))
    }

    /// The request to the upstream.
    pub const fn of_turn(turn: countermand_core::Turn) -> Self {
        use countermand_core::Turn;
        match turn {
            Turn::Create => Self::Create,
            Turn::Replay => Self::Replay,
            Turn::Find => Self::Find,
            Turn::Status => Self::Status,
            Turn::Cancel => Self::Cancel,
            Turn::Force => Self::Force,
            Turn::Mark => Self::Mark,
            Turn::Undo => Self::Undo,
        }
    }
}

/// A place at which a process can be made to die.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CrashPoint {
    /// Right before it.
    Before(Moment),
    /// Right after it.
    After(Moment),
}

impl CrashPoint {
    /// Every one of them.
    pub fn all() -> impl Iterator<Item = Self> {
        Moment::ALL.iter().flat_map(|moment| [Self::Before(*moment), Self::After(*moment)])
    }
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before(moment) => write!(f, "before_{}", moment.as_str()),
            Self::After(moment) => write!(f, "after_{}", moment.as_str()),
        }
    }
}

impl FromStr for CrashPoint {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::all()
            .find(|point| point.to_string() == name)
            .ok_or_else(|| format!("`{name}` is no crash point"))
    }
}

/// What the environment asks for.
enum Armed {
    Trace,
    At { point: CrashPoint, left: AtomicU32 },
}

fn armed() -> Option<&'static Armed> {
    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
    ARMED
        .get_or_init(|| {
            let asked = std::env::var(POINT).ok()?;
            if asked == "trace" {
                return Some(Armed::Trace);
            }
            let (name, nth) = asked.split_once(':').unwrap_or((&asked, "1"));
            match (name.parse(), nth.parse()) {
                (Ok(point), Ok(nth)) => Some(Armed::At { point, left: AtomicU32::new(nth) }),
                _ => {
                    tracing::error!("{POINT} names no crash point: {asked}");
                    None
                }
            }
        })
        .as_ref()
}

/// Passes a point; dies where it is the one.
pub fn pass(point: CrashPoint) {
    match armed() {
        Some(Armed::Trace) => mark(&point.to_string()),
        Some(Armed::At { point: at, left }) if *at == point && left.fetch_sub(1, Ordering::SeqCst) == 1 => {
            mark(&point.to_string());
            let _we_are_dead =
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            // The signal may have gone to another thread of ours: not one step more here.
            loop {
                std::thread::park();
            }
        }
        Some(Armed::At { .. }) | None => {}
    }
}

/// Passes the write of an event. One that has no moment is traced all the same, so that whoever reads the trace finds out.
pub fn pass_event(side: fn(Moment) -> CrashPoint, event: &str) {
    match Moment::of_event(event) {
        Some(moment) => pass(side(moment)),
        None if matches!(armed(), Some(Armed::Trace)) => mark(&format!("no moment for {event}")),
        None => {}
    }
}

fn mark(point: &str) {
    let Some(path) = std::env::var_os(MARK) else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    if let Err(error) = file.and_then(|mut file| file.write_all(format!("{point}\n").as_bytes())) {
        tracing::error!("failed to leave the mark of a crash point: {error}");
    }
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use countermand_core::event::Event;

    #[test]
    fn a_point_is_found_by_its_name() {
        for point in CrashPoint::all() {
            assert_eq!(point.to_string().parse(), Ok(point));
        }
        assert_eq!("after_intent_commit".parse(), Ok(CrashPoint::After(Moment::Intent)));
        assert!("after_lunch".parse::<CrashPoint>().is_err());
    }

    #[test]
    fn the_write_of_an_event_has_a_moment() {
        assert_eq!(Moment::of_event(Event::CreateStarted.name()), Some(Moment::CreateStarted));
        assert_eq!(Moment::of_event("answer"), None);
        let moment = Moment::of_event(Event::RetryWanted.name()).expect("is one");
        assert_eq!(moment.as_str(), "retry_wanted_commit");
    }
}
