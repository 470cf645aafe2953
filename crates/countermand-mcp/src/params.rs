//! The params of requests: the few members that the wire itself reads.

use crate::json::{Members, is_object, text};
use crate::message::Id;
use crate::{Level, Revision, RpcError};
use serde_json::value::RawValue;
use std::borrow::Cow;

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// The params of one request, and its `_meta`.
#[derive(Default)]
pub(crate) struct Params<'a> {
    members: Option<Members<'a>>,
    meta_raw: Option<&'a RawValue>,
    meta: Option<Members<'a>>,
}

impl<'a> Params<'a> {
    pub(crate) fn of(raw: Option<&'a RawValue>) -> Result<Self, RpcError> {
        let invalid = |why: &str| RpcError::invalid_params(format!("Invalid params: {why}"));
        let members = match raw {
            None => None,
            Some(raw) => Some(Members::of(raw).map_err(|error| invalid(&format!("params: {error}")))?),
        };
        let meta_raw = members.as_ref().and_then(|members| members.given("_meta"));
        let meta = match meta_raw {
            None => None,
            Some(raw) => Some(Members::of(raw).map_err(|error| invalid(&format!("_meta: {error}")))?),
        };
        Ok(Self { members, meta_raw, meta })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.members.as_ref()?.given(name)
    }

    pub(crate) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(text)
    }

    pub(crate) fn meta(&self) -> Option<&'a RawValue> {
        self.meta_raw
    }

    fn in_meta(&self, name: &str) -> Option<&'a RawValue> {
        self.meta.as_ref()?.given(name)
    }

    /// The revision that the request names for itself.
    pub(crate) fn revision(&self) -> Option<Cow<'a, str>> {
        self.in_meta(VERSION).and_then(text)
    }

    /// Where the client wants progress to go. A token that is neither a string nor a number is none.
    pub(crate) fn progress_token(&self) -> Option<&'a RawValue> {
        self.in_meta("progressToken").filter(|raw| Id::of(raw).is_some())
    }

    /// The level of log messages that a stateless request wants for itself.
    pub(crate) fn log_level(&self) -> Result<Option<Level>, RpcError> {
        match self.in_meta(LOG_LEVEL) {
            None => Ok(None),
            Some(raw) => text(raw).unwrap_or_default().parse().map(Some),
        }
    }

    /// The level that `logging/setLevel` sets.
    pub(crate) fn level(&self) -> Result<Level, RpcError> {
        self.text("level").unwrap_or_default().parse()
    }

    /// Whether `_meta` says what a stateless request must say.
    pub(crate) fn require_metadata(&self, revision: Revision) -> Result<(), RpcError> {
        if !revision.is_stateless() {
            return Ok(());
        }
        let missing: Vec<&str> = [
            (VERSION, self.revision().is_some()),
            (CAPABILITIES, self.in_meta(CAPABILITIES).is_some_and(is_object)),
        ]
        .into_iter()
        .filter_map(|(name, there)| (!there).then_some(name))
        .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(RpcError::invalid_params(format!(
            "Invalid params: request _meta is missing or has malformed required fields: {}",
            missing.join(", ")
        )))
    }

    /// What a method is asked with. `tools/call`: the tool's name, its arguments, and all other members but `_meta`.
    /// Any other: all members but that.
    pub(crate) fn asked(&self, method: &str) -> Result<Asked<'a>, RpcError> {
        if method != "tools/call" {
            return Ok(Asked { tool: Cow::Borrowed(""), arguments: None, extra: self.all_but(&["_meta"]) });
        }
        let Some(name) = self.text("name") else {
            return Err(RpcError::invalid_params("Invalid params: `name` must be the name of a tool"));
        };
        let arguments = self.get("arguments");
        if arguments.is_some_and(|raw| !is_object(raw)) {
            return Err(RpcError::invalid_params("Invalid params: `arguments` must be an object"));
        }
        Ok(Asked { tool: name, arguments, extra: self.all_but(&["name", "arguments", "_meta"]) })
    }

    fn all_but(&self, names: &[&str]) -> Vec<(String, Box<RawValue>)> {
        let members = self.members.iter().flat_map(Members::iter);
        members
            .filter(|(member, _)| !names.contains(member))
            .map(|(member, raw)| (member.to_owned(), raw.to_owned()))
            .collect()
    }
}

/// What a request asks for.
pub(crate) struct Asked<'a> {
    /// The tool's name; of another method empty.
    pub(crate) tool: Cow<'a, str>,
    pub(crate) arguments: Option<&'a RawValue>,
    pub(crate) extra: Vec<(String, Box<RawValue>)>,
}

/// What `notifications/cancelled` names, and why. `None` if it is malformed, which is to be ignored.
pub(crate) fn cancelled(params: Option<&RawValue>) -> Option<(Id, Option<String>)> {
    let members = Members::of(params?).ok()?;
    let id = Id::of(members.get("requestId")?)?;
    Some((id, members.get("reason").and_then(text).map(Cow::into_owned)))
}
