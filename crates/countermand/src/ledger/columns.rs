//! How a row lies in its table: one column for each field, in the order of [`COLUMNS`].

use super::error::Failure;
use countermand_core::{
    Cause, DefinitionHash, Inputs, OperationId, Owner, Policy, Principal, Row, Timestamp, Turn, UpstreamId,
};
use rusqlite::types::{FromSql, ToSqlOutput, Type, Value, ValueRef};
use serde::{Serialize, de::DeserializeOwned};
use std::{error::Error, fmt::Display, str::FromStr, sync::Arc};

/// The columns that a row is read from. [`values`] and [`row`] go by the same order.
pub(super) const COLUMNS: [&str; 48] = [
    "id",
    "call",
    "session",
    "request_id",
    "principal",
    "tool",
    "args_hash",
    "inputs",
    "definition",
    "upstream",
    "kind",
    "detail",
    "parent",
    "ordinal",
    "phase",
    "was",
    "desired",
    "cause",
    "reason",
    "outcome",
    "key",
    "undo_key",
    "undo_next",
    "upstream_id",
    "on_disconnect",
    "awaited",
    "cancel_requested_at",
    "phase_since",
    "missing_since",
    "create_sent_at",
    "create_horizon",
    "hard_deadline",
    "disconnect_at",
    "ended_seen_at",
    "delivered_at",
    "settled_at",
    "attempts",
    "turn",
    "turn_at",
    "cancel_at",
    "next_at",
    "last_error",
    "owner",
    "epoch",
    "lease_until",
    "version",
    "created_at",
    "updated_at",
];

/// The column that only the indexes read.
pub(super) const SETTLED: &str = "settled";

/// What is written into [`COLUMNS`], and then into [`SETTLED`]. The policy is the definition's.
pub(super) fn values(row: &Row, version: u64) -> rusqlite::Result<[ToSqlOutput<'_>; COLUMNS.len() + 1]> {
    Ok([
        shown(&row.id),
        shown(&row.call),
        maybe(row.session.as_deref(), text),
        maybe(row.request_id.as_deref(), text),
        text(row.principal.as_str()),
        text(&row.tool),
        text(&row.args_hash),
        json(&row.inputs)?,
        text(row.definition.as_str()),
        text(&row.upstream),
        text(row.kind.as_str()),
        json(&row.detail)?,
        maybe(row.parent, |id| shown(&id)),
        number(row.ordinal),
        text(row.phase.as_str()),
        maybe(row.was, |phase| text(phase.as_str())),
        text(row.desired.as_str()),
        maybe(row.cause, |cause| text(cause.as_str())),
        maybe(row.reason.as_deref(), text),
        maybe(row.outcome, |outcome| text(outcome.as_str())),
        shown(&row.key),
        maybe(row.undo_key, |key| shown(&key)),
        number(row.undo_next),
        maybe(row.upstream_id.as_ref(), |id| text(id.as_str())),
        json(&row.on_disconnect)?,
        number(row.awaited),
        maybe(row.cancel_requested_at, time),
        time(row.phase_since),
        maybe(row.missing_since, time),
        maybe(row.create_sent_at, time),
        maybe(row.create_horizon, time),
        time(row.hard_deadline),
        maybe(row.disconnect_at, time),
        maybe(row.ended_seen_at, time),
        maybe(row.delivered_at, time),
        maybe(row.settled_at, time),
        number(row.attempts),
        maybe(row.turn, |turn| text(turn.as_str())),
        maybe(row.turn_at, time),
        maybe(row.cancel_at, time),
        maybe(row.next_at, time),
        maybe(row.last_error.as_deref(), text),
        text(row.owner.as_str()),
        count(row.epoch)?,
        maybe(row.lease_until, time),
        count(version)?,
        time(row.created_at),
        time(row.updated_at),
        number(row.phase.is_settled()),
    ])
}

/// Reads a row from [`COLUMNS`]; `policy` finds the policy of its definition.
pub(super) fn row(
    stored: &rusqlite::Row<'_>,
    policy: impl FnOnce(&DefinitionHash) -> Result<Arc<Policy>, Failure>,
) -> Result<Row, Failure> {
    let mut from = Cursor::over(stored);
    // The fields are evaluated as they are written here.
    Ok(Row {
        id: from.word()?,
        call: from.word()?,
        session: from.plain()?,
        request_id: from.plain()?,
        principal: Principal(from.plain()?),
        tool: from.plain()?,
        args_hash: from.plain()?,
        inputs: from.json::<Inputs>()?,
        policy: {
            let hash = DefinitionHash(stored.get(from.next)?);
            policy(&hash)?
        },
        definition: DefinitionHash(from.plain()?),
        upstream: from.plain()?,
        kind: from.word()?,
        detail: from.json()?,
        parent: from.maybe_word::<OperationId>()?,
        ordinal: from.plain()?,
        phase: from.word()?,
        was: from.maybe_word()?,
        desired: from.word()?,
        cause: from.one_of(Cause::ALL.as_slice(), Cause::as_str)?,
        reason: from.plain()?,
        outcome: from.maybe_word()?,
        key: from.word()?,
        undo_key: from.maybe_word()?,
        undo_next: from.plain()?,
        upstream_id: from.plain::<Option<String>>()?.map(UpstreamId),
        on_disconnect: from.json()?,
        awaited: from.plain()?,
        cancel_requested_at: from.maybe_time()?,
        phase_since: from.time()?,
        missing_since: from.maybe_time()?,
        create_sent_at: from.maybe_time()?,
        create_horizon: from.maybe_time()?,
        hard_deadline: from.time()?,
        disconnect_at: from.maybe_time()?,
        ended_seen_at: from.maybe_time()?,
        delivered_at: from.maybe_time()?,
        settled_at: from.maybe_time()?,
        attempts: from.plain()?,
        turn: from.one_of(Turn::ALL, Turn::as_str)?,
        turn_at: from.maybe_time()?,
        cancel_at: from.maybe_time()?,
        next_at: from.maybe_time()?,
        last_error: from.plain()?,
        owner: Owner(from.plain()?),
        epoch: from.count()?,
        lease_until: from.maybe_time()?,
        version: from.count()?,
        created_at: from.time()?,
        updated_at: from.time()?,
    })
}

fn text(text: &str) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes()))
}

fn shown(id: &impl Display) -> ToSqlOutput<'static> {
    ToSqlOutput::Owned(Value::Text(id.to_string()))
}

fn number(number: impl Into<i64>) -> ToSqlOutput<'static> {
    ToSqlOutput::Owned(Value::Integer(number.into()))
}

fn time(time: Timestamp) -> ToSqlOutput<'static> {
    number(time.as_micros())
}

pub(super) fn count(count: u64) -> rusqlite::Result<ToSqlOutput<'static>> {
    i64::try_from(count).map(number).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

fn json(value: &impl Serialize) -> rusqlite::Result<ToSqlOutput<'static>> {
    json_text(value).map(|text| ToSqlOutput::Owned(Value::Text(text)))
}

pub(super) fn json_text(value: &impl Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

fn maybe<'a, T>(value: Option<T>, write: impl FnOnce(T) -> ToSqlOutput<'a>) -> ToSqlOutput<'a> {
    value.map_or(ToSqlOutput::Owned(Value::Null), write)
}

/// Reads the columns of a stored row one after the other.
pub(super) struct Cursor<'a, 's> {
    stored: &'a rusqlite::Row<'s>,
    next: usize,
}

impl<'a, 's> Cursor<'a, 's> {
    pub(super) fn over(stored: &'a rusqlite::Row<'s>) -> Self {
        Self { stored, next: 0 }
    }

    pub(super) fn plain<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        let value = self.stored.get(self.next);
        self.next += 1;
        value
    }

    pub(super) fn word<T>(&mut self) -> rusqlite::Result<T>
    where
        T: FromStr<Err: Error + Send + Sync + 'static>,
    {
        let column = self.next;
        self.plain::<String>()?.parse().map_err(|error| unreadable(column, error))
    }

    fn maybe_word<T>(&mut self) -> rusqlite::Result<Option<T>>
    where
        T: FromStr<Err: Error + Send + Sync + 'static>,
    {
        let column = self.next;
        let word = self.plain::<Option<String>>()?;
        word.map(|word| word.parse().map_err(|error| unreadable(column, error))).transpose()
    }

    fn one_of<T: Copy>(&mut self, all: &[T], name: fn(T) -> &'static str) -> rusqlite::Result<Option<T>> {
        let column = self.next;
        let Some(word) = self.plain::<Option<String>>()? else { return Ok(None) };
        let found = all.iter().copied().find(|one| name(*one) == word);
        found.map(Some).ok_or_else(|| unreadable(column, format!("`{word}` is no word of the ledger")))
    }

    pub(super) fn json<T: DeserializeOwned>(&mut self) -> rusqlite::Result<T> {
        let column = self.next;
        self.next += 1;
        let text = self.stored.get_ref(column)?.as_str()?;
        serde_json::from_str(text).map_err(|error| unreadable(column, error))
    }

    pub(super) fn time(&mut self) -> rusqlite::Result<Timestamp> {
        self.plain().map(Timestamp::from_micros)
    }

    fn maybe_time(&mut self) -> rusqlite::Result<Option<Timestamp>> {
        Ok(self.plain::<Option<i64>>()?.map(Timestamp::from_micros))
    }

    pub(super) fn count(&mut self) -> rusqlite::Result<u64> {
        let column = self.next;
        u64::try_from(self.plain::<i64>()?).map_err(|error| unreadable(column, error))
    }
}

fn unreadable(column: usize, error: impl Into<Box<dyn Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
}
