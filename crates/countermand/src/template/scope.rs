//! What placeholders stand for while a request is rendered.

use super::{Name, Place, Placeholder};
use countermand_core::{Key, Row};
use serde_json::{Map, Value};
use std::{borrow::Cow, time::Duration};

/// The values that placeholders stand for.
#[derive(Debug, Clone)]
pub struct Scope<'a> {
    /// The call's arguments, or those of them that a row keeps.
    pub args: Cow<'a, Map<String, Value>>,
    /// The upstream's id, as far as it is known.
    pub id: Option<Cow<'a, str>>,
    /// Our idempotency key; a read-only request has none.
    pub key: Option<Key>,
    /// The key of the undo request that is sent.
    pub undo_key: Option<Key>,
    /// The operation's lifetime.
    pub lifetime: Option<Duration>,
    /// What `save` kept.
    pub saved: Cow<'a, Map<String, Value>>,
}

/// Why a request could not be filled in. Names the placeholder and the place, never the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to fill in {}{place}: {problem}", placeholder_in(.placeholder))]
pub struct RenderError {
    /// Where.
    pub place: Place,
    /// Which placeholder, without its `${}`.
    pub placeholder: Option<String>,
    /// Why, and what to do.
    pub problem: String,
}

fn placeholder_in(placeholder: &Option<String>) -> String {
    placeholder.as_ref().map(|name| format!("`${{{name}}}` in ")).unwrap_or_default()
}

impl RenderError {
    pub(super) fn of(place: &Place, placeholder: &Placeholder, problem: impl Into<String>) -> Self {
        Self {
            place: place.clone(),
            placeholder: Some(placeholder.name.to_string()),
            problem: problem.into(),
        }
    }

    pub(super) fn at(place: &Place, problem: impl Into<String>) -> Self {
        Self { place: place.clone(), placeholder: None, problem: problem.into() }
    }
}

impl<'a> Scope<'a> {
    /// What a row knows. Its arguments are gone once it is settled.
    pub fn of_row(row: &'a Row) -> Self {
        Self {
            args: row.inputs.values().map_or_else(|| Cow::Owned(Map::new()), Cow::Borrowed),
            id: row.upstream_id.as_ref().map(|id| Cow::Borrowed(id.as_str())),
            key: Some(row.key),
            undo_key: row.undo_key,
            lifetime: Some(row.lifetime()),
            saved: Cow::Borrowed(&row.detail),
        }
    }

    /// What a call knows that has no row: its arguments.
    pub fn of_call(args: &'a Map<String, Value>) -> Self {
        Self {
            args: Cow::Borrowed(args),
            id: None,
            key: None,
            undo_key: None,
            lifetime: None,
            saved: Cow::Owned(Map::new()),
        }
    }

    /// The same, owning what it holds.
    pub fn into_owned(self) -> Scope<'static> {
        Scope {
            args: Cow::Owned(self.args.into_owned()),
            id: self.id.map(|id| Cow::Owned(id.into_owned())),
            key: self.key,
            undo_key: self.undo_key,
            lifetime: self.lifetime,
            saved: Cow::Owned(self.saved.into_owned()),
        }
    }

    /// What a placeholder stands for. `None` is an argument that was not given; what an operation does
    /// not know is an error, since a request without it would mean something else.
    pub(super) fn value(
        &self,
        place: &Place,
        wanted: &Placeholder,
    ) -> Result<Option<Cow<'_, Value>>, RenderError> {
        let text = |text: String| Some(Cow::Owned(Value::String(text)));
        let value = match &wanted.name {
            Name::Arg(members) => return Ok(member(&self.args, members).map(Cow::Borrowed)),
            Name::Id => self.id.as_ref().and_then(|id| text(id.clone().into_owned())),
            Name::Key => self.key.and_then(|key| text(key.to_string())),
            Name::OwnName => self.key.and_then(|key| text(key.name())),
            Name::UndoKey => self.undo_key.and_then(|key| text(key.to_string())),
            Name::LifetimeSecs => self.lifetime.map(|lifetime| Cow::Owned(Value::from(lifetime.as_secs()))),
            Name::Saved(name) => self.saved.get(name).filter(|v| !v.is_null()).map(Cow::Borrowed),
        };
        if value.is_none() {
            let problem = match &wanted.name {
                Name::Id => "the upstream's id is not known".to_owned(),
                Name::Saved(name) => format!("no answer so far held what `save` calls `{name}`"),
                _ => "this request has none".to_owned(),
            };
            return Err(RenderError::of(place, wanted, problem));
        }
        Ok(value)
    }
}

/// The argument, or a deeper member of it.
pub(super) fn member<'v>(args: &'v Map<String, Value>, members: &[String]) -> Option<&'v Value> {
    let (first, deeper) = members.split_first()?;
    deeper.iter().try_fold(args.get(first)?, |value, member| value.as_object()?.get(member))
}
