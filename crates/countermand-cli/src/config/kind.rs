//! What job and http have in common: what the core decides by, and what a reader of one makes.

use super::{
    checked::Accepted,
    fields::{Fields, Reader},
};
use countermand::{
    core::{Kind, Policy, WhenCompleted},
    definition::Work,
};
use std::{collections::BTreeSet, time::Duration};

/// The hard bound of an operation, where the config does not say.
pub const DEFAULT_LIFETIME: Duration = Duration::from_secs(3600);
/// How long a create in flight may go on after a cancel, where the config does not say.
pub const DEFAULT_SHIELD: Duration = Duration::from_secs(30);
/// When an unconfirmed cancel counts as late, where the config does not say.
pub const DEFAULT_CONFIRM_WITHIN: Duration = Duration::from_secs(30);
/// The shortest time between two polls, where the config does not say.
pub const DEFAULT_POLL_EVERY: Duration = Duration::from_secs(1);
/// The longest time between two polls, where the config does not say and `every` is not longer.
pub const DEFAULT_POLL_MAX: Duration = Duration::from_secs(10);

/// What reading a kind makes: its work, its rules, and what the rest of the tool may name.
#[derive(Debug)]
pub struct Made {
    /// What it does.
    pub work: Work,
    /// The rules, without those of the siblings.
    pub policy: Policy,
    /// How long a call may take, where the config does not say.
    pub default_timeout: Duration,
    /// Risks that it accepts.
    pub accepted: Accepted,
}

/// What `${op.saved.NAME}` can name.
#[derive(Debug, Default)]
pub struct Saved {
    /// Saved by the create.
    pub early: BTreeSet<String>,
    /// Saved by a status read.
    pub late: BTreeSet<String>,
}

/// The bounds that both kinds have.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// `lifetime`.
    pub lifetime: Duration,
    /// `shield`.
    pub shield: Duration,
    /// `horizon`.
    pub horizon: Duration,
}

/// Reads the bounds: the lifetime of the kind, shield and horizon of its create.
pub fn bounds(reader: &Reader<'_>, kind: &Fields<'_>, create: Option<&Fields<'_>>) -> Bounds {
    let lifetime = kind.get("lifetime").and_then(|node| reader.duration(node));
    let time = |name: &str| create.and_then(|f| f.get(name)).and_then(|node| reader.duration(node));
    let shield = time("shield").unwrap_or(DEFAULT_SHIELD);
    Bounds {
        lifetime: lifetime.unwrap_or(DEFAULT_LIFETIME),
        shield,
        horizon: time("horizon").unwrap_or(shield.saturating_mul(2)),
    }
}

/// The rules of an operation whose kind says nothing else.
pub fn policy(kind: Kind, bounds: Bounds) -> Policy {
    Policy {
        kind,
        can_cancel: false,
        confirm_within: DEFAULT_CONFIRM_WITHIN,
        force_after: None,
        find: None,
        key_window: None,
        shield: bounds.shield,
        horizon: bounds.horizon,
        poll_every: DEFAULT_POLL_EVERY,
        poll_max: DEFAULT_POLL_MAX,
        lifetime: bounds.lifetime,
        undo_steps: 0,
        when_completed: WhenCompleted::Keep,
        mark: false,
    }
}
