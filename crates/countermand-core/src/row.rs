//! An operation as the ledger keeps it.

use crate::{
    Cause,
    ids::{CallId, DefinitionHash, Key, OperationId, Owner, Principal, UpstreamId},
    phase::{Desired, Kind, Outcome, Phase},
    policy::{OnDisconnect, Policy},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::{sync::Arc, time::Duration};

/// One operation.
///
/// A flat row with a phase, not an enum with its data inside the variants: the columns outlive the phases that
/// set them (an orphan keeps its id, an ended operation its cancel), and the ledger stores
/// them side by side. [`step`](crate::step()) is the only place that changes them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Row {
    /// Its name here.
    pub id: OperationId,
    /// The call that started it.
    pub call: CallId,
    /// The client's session, where the transport has one.
    pub session: Option<String>,
    /// The JSON-RPC id of the call, as JSON text.
    pub request_id: Option<String>,
    /// Who called.
    pub principal: Principal,
    /// The tool that was called.
    pub tool: String,
    /// SHA-256 (hex) of the call's arguments.
    pub args_hash: String,
    /// The arguments that later requests name, and nothing else.
    pub inputs: Inputs,
    /// The definition it was started under.
    pub definition: DefinitionHash,
    /// What that definition says for its life.
    pub policy: Arc<Policy>,
    /// The name of its upstream.
    pub upstream: String,
    /// What kind of effect it is.
    pub kind: Kind,
    /// What its kind keeps for itself, for a job the values of `save`.
    pub detail: Map<String, Value>,
    /// The operation that it is a step of.
    pub parent: Option<OperationId>,
    /// Which step it is.
    pub ordinal: u32,
    /// Where it is in its life.
    pub phase: Phase,
    /// What an orphan (or one that needs intervention) owed when it became one.
    pub was: Option<Phase>,
    /// What we want of it.
    pub desired: Desired,
    /// What first wanted its cancel.
    pub cause: Option<Cause>,
    /// The client's words with its cancel.
    pub reason: Option<String>,
    /// How it ended upstream.
    pub outcome: Option<Outcome>,
    /// Its idempotency key.
    pub key: Key,
    /// The idempotency key of the undo request that is next.
    pub undo_key: Option<Key>,
    /// Which undo request is next.
    pub undo_next: u32,
    /// What the upstream calls it.
    pub upstream_id: Option<UpstreamId>,
    /// What its client's leaving means for it.
    pub on_disconnect: OnDisconnect,
    /// Whether somebody waits for its answer.
    pub awaited: bool,
    /// When a cancel became owed to the upstream.
    pub cancel_requested_at: Option<Timestamp>,
    /// Since when it is in its phase.
    pub phase_since: Timestamp,
    /// Since when the upstream does not know its id (or, in `unknown`, when a look-up first missed it).
    pub missing_since: Option<Timestamp>,
    /// When its create was first sent.
    pub create_sent_at: Option<Timestamp>,
    /// From when on no create of it can still arrive upstream; `None` while one is in flight.
    pub create_horizon: Option<Timestamp>,
    /// The end of its lifetime.
    pub hard_deadline: Timestamp,
    /// When the grace of a client that has left ends.
    pub disconnect_at: Option<Timestamp>,
    /// When we learnt that it has ended upstream.
    pub ended_seen_at: Option<Timestamp>,
    /// When its answer reached the transport.
    pub delivered_at: Option<Timestamp>,
    /// When it was settled.
    pub settled_at: Option<Timestamp>,
    /// How often what is owed now was tried and not accepted; for a cancel, how often it was sent.
    pub attempts: u32,
    /// The request that is sent next, at `turn_at`.
    pub turn: Option<Turn>,
    /// When `turn` is due.
    pub turn_at: Option<Timestamp>,
    /// When the cancel is sent (again).
    pub cancel_at: Option<Timestamp>,
    /// When the operation next needs attention: the earliest of its turns and its timers.
    pub next_at: Option<Timestamp>,
    /// What last went wrong, in words without secrets.
    pub last_error: Option<String>,
    /// Which process holds it.
    pub owner: Owner,
    /// The incarnation of the holder.
    pub epoch: u64,
    /// Until when it is held; `None` where a lock on the whole ledger holds it.
    pub lease_until: Option<Timestamp>,
    /// Counts the writes.
    pub version: u64,
    /// When it was written first.
    pub created_at: Timestamp,
    /// When it was written last.
    pub updated_at: Timestamp,
}

/// The requests that an operation can owe its upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Turn {
    /// The create.
    Create,
    /// The create once more, with the same key.
    Replay,
    /// The look-up by key.
    Find,
    /// A status read.
    Status,
    /// The cancel.
    Cancel,
    /// The forced cancel.
    Force,
    /// The mark of what cannot be stopped.
    Mark,
    /// The undo request number `undo_next`.
    Undo,
}

impl Turn {
    /// Every one of them.
    pub const ALL: &'static [Self] = &[
        Self::Create,
        Self::Replay,
        Self::Find,
        Self::Status,
        Self::Cancel,
        Self::Force,
        Self::Mark,
        Self::Undo,
    ];

    /// The word in the ledger.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Replay => "replay",
            Self::Find => "find",
            Self::Status => "status",
            Self::Cancel => "cancel",
            Self::Force => "force",
            Self::Mark => "mark",
            Self::Undo => "undo",
        }
    }
}

/// The argument values that an operation's later requests name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inputs {
    /// The values, by argument name.
    Values(Map<String, Value>),
    /// Their SHA-256 (hex), once the operation is settled.
    Sealed(String),
}

impl Inputs {
    /// Replaces the values by their hash.
    pub fn seal(&mut self) {
        if let Self::Values(values) = self {
            *self = Self::Sealed(hash_json(&Value::Object(std::mem::take(values))));
        }
    }

    /// The values, until they are sealed.
    pub fn values(&self) -> Option<&Map<String, Value>> {
        match self {
            Self::Values(values) => Some(values),
            Self::Sealed(_) => None,
        }
    }
}

/// SHA-256 (hex) of a JSON value's text.
pub fn hash_json(value: &Value) -> String {
    let mut hash = Sha256::new();
    hash.update(value.to_string().as_bytes());
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What calls must have in common to be identical.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Who called.
    pub principal: Principal,
    /// The tool.
    pub tool: String,
    /// The definition that it had.
    pub definition: DefinitionHash,
    /// The hash of all arguments.
    pub args_hash: String,
}

/// What is known of an operation before anything is sent.
#[derive(Debug, Clone)]
pub struct NewRow {
    /// Its name here.
    pub id: OperationId,
    /// The call that starts it.
    pub call: CallId,
    /// The client's session.
    pub session: Option<String>,
    /// The JSON-RPC id of the call, as JSON text.
    pub request_id: Option<String>,
    /// Who called.
    pub principal: Principal,
    /// The tool that was called.
    pub tool: String,
    /// SHA-256 (hex) of the call's arguments.
    pub args_hash: String,
    /// The arguments that later requests name.
    pub inputs: Map<String, Value>,
    /// The definition it is started under.
    pub definition: DefinitionHash,
    /// What that definition says for its life.
    pub policy: Arc<Policy>,
    /// The name of its upstream.
    pub upstream: String,
    /// Its idempotency key.
    pub key: Key,
    /// What its client's leaving means for it.
    pub on_disconnect: OnDisconnect,
    /// Which process holds it.
    pub owner: Owner,
    /// The incarnation of the holder.
    pub epoch: u64,
}

impl Row {
    /// A row in phase `intent`, its create due at once.
    pub fn new(new: NewRow, at: Timestamp) -> Self {
        let hard_deadline = at + new.policy.lifetime;
        let mut row = Self {
            id: new.id,
            call: new.call,
            session: new.session,
            request_id: new.request_id,
            principal: new.principal,
            tool: new.tool,
            args_hash: new.args_hash,
            inputs: Inputs::Values(new.inputs),
            definition: new.definition,
            kind: new.policy.kind,
            policy: new.policy,
            upstream: new.upstream,
            detail: Map::new(),
            parent: None,
            ordinal: 0,
            phase: Phase::Intent,
            was: None,
            desired: Desired::Run,
            cause: None,
            reason: None,
            outcome: None,
            key: new.key,
            undo_key: None,
            undo_next: 0,
            upstream_id: None,
            on_disconnect: new.on_disconnect,
            awaited: true,
            cancel_requested_at: None,
            phase_since: at,
            missing_since: None,
            create_sent_at: None,
            create_horizon: None,
            hard_deadline,
            disconnect_at: None,
            ended_seen_at: None,
            delivered_at: None,
            settled_at: None,
            attempts: 0,
            turn: Some(Turn::Create),
            turn_at: Some(at),
            cancel_at: None,
            next_at: None,
            last_error: None,
            owner: new.owner,
            epoch: new.epoch,
            lease_until: None,
            version: 0,
            created_at: at,
            updated_at: at,
        };
        row.next_at = crate::due::next_at(&row);
        row
    }

    /// A row for something that was asked for without one, once a cancel of it is wanted: a call of an existing MCP
    /// server. In phase `cancel_requested`, its cancel due at once.
    pub fn forwarded(
        new: NewRow,
        upstream_id: UpstreamId,
        (cause, reason): (Cause, Option<String>),
        at: Timestamp,
    ) -> Self {
        let mut row = Self {
            phase: Phase::CancelRequested,
            desired: Desired::Cancel,
            cause: Some(cause),
            reason,
            upstream_id: Some(upstream_id),
            awaited: false,
            cancel_requested_at: Some(at),
            turn: None,
            turn_at: None,
            cancel_at: Some(at),
            ..Self::new(new, at)
        };
        row.next_at = crate::due::next_at(&row);
        row
    }

    /// What an identical call has in common with the one that started it.
    pub fn identity(&self) -> Identity {
        Identity {
            principal: self.principal.clone(),
            tool: self.tool.clone(),
            definition: self.definition.clone(),
            args_hash: self.args_hash.clone(),
        }
    }

    /// What the row owes: its phase, or for an orphan what it was.
    pub fn owes(&self) -> Phase {
        match self.phase {
            Phase::Orphaned | Phase::NeedsIntervention => self.was.unwrap_or(self.phase),
            phase => phase,
        }
    }

    /// Until when a replay of the create may be sent; `None` where it never may.
    ///
    /// The upstream must still know the key when the replay *arrives*, and that can be as late as
    /// the horizon of a connection that lasted as long as the shield. Of a window too short for
    /// that, the first half is used.
    pub fn replay_until(&self) -> Option<Timestamp> {
        let window = self.policy.key_window?;
        let on_its_way = self.policy.shield.saturating_add(self.policy.horizon);
        Some(self.create_sent_at? + (window - on_its_way.min(window / 2)))
    }

    /// Whether a replay of the create may be sent at this time.
    pub(crate) fn may_replay(&self, at: Timestamp) -> bool {
        self.replay_until().is_some_and(|until| at < until)
    }

    /// Whether a cancel is wanted.
    pub fn cancel_wanted(&self) -> bool {
        self.desired == Desired::Cancel
    }

    /// The operation's lifetime in whole seconds, for `${op.lifetime_secs}`.
    pub fn lifetime(&self) -> Duration {
        self.policy.lifetime
    }
}
