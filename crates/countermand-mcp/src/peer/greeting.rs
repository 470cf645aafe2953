//! How a connection begins: which revision the server speaks, and what it says of itself.
//!
//! A server of 2026-07-28 answers `server/discover`; an older one wants `initialize`, and may answer anything else with
//! any error or with silence. Only the errors that 2026-07-28 has brought tell that a server is of that revision.

use super::connection::{Connection, Letter, Spoken};
use super::letter;
use super::pending::Pending;
use super::slot::Happened;
use super::words::{Hello, Lost, Outgoing, PeerError};
use crate::json::{Members, text};
use crate::{Revision, RpcError};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;

const DISCOVER: &str = "server/discover";
const INITIALIZE: &str = "initialize";

/// Sends the first requests. The connection's transport does.
pub(super) trait Opener {
    /// Sends a request as that revision has it; it is never cancelled.
    fn open(&self, ask: Outgoing, revision: Revision) -> Pending;

    /// Tells the server that it is initialized, and waits until that has been sent.
    async fn initialized(&self) -> Result<(), PeerError>;
}

/// What a first request came to.
enum Said {
    Result(Box<RawValue>),
    Error(RpcError),
    Lost(Lost),
}

async fn said(pending: &mut Pending) -> Said {
    loop {
        match pending.next().await {
            Happened::Answered(Ok(result)) => return Said::Result(result),
            Happened::Answered(Err(error)) => return Said::Error(error),
            Happened::Lost(lost) => return Said::Lost(lost),
            // Asks are answered with an error as they are dropped.
            Happened::Progress(_) | Happened::Noted { .. } | Happened::Asked(_) => {}
        }
    }
}

/// What `server/discover` has shown.
enum Probed {
    Stateless(Hello),
    /// It speaks revisions that begin with `initialize`; this one, where it has named them.
    Older(Option<Revision>),
    Failed(PeerError),
}

/// Gets to know the server. Bounded by the options, and abortable: if this future is dropped, nothing goes on.
pub(super) async fn greet<O: Opener>(connection: &Arc<Connection>, opener: &O) -> Result<Hello, PeerError> {
    let within = connection.options.connect_within;
    let mut at = DISCOVER;
    let greeted = tokio::time::timeout(within, find_out(connection, opener, &mut at)).await;
    let hello = greeted.unwrap_or(Err(PeerError::Silent { method: at, within }))?;
    Ok(hello)
}

async fn find_out<O: Opener>(
    connection: &Arc<Connection>,
    opener: &O,
    at: &mut &'static str,
) -> Result<Hello, PeerError> {
    let prefer = connection.introduction.prefer;
    let hello = if prefer.is_stateless() {
        let mut probe = discover(opener);
        let patience = connection.options.probe_within;
        match tokio::time::timeout(patience, said(&mut probe)).await {
            Ok(said) => match probed(connection, said) {
                Probed::Stateless(hello) => hello,
                Probed::Failed(error) => return Err(error),
                Probed::Older(revision) => {
                    *at = INITIALIZE;
                    let revision = revision.unwrap_or(Revision::NEWEST_WITH_INITIALIZE);
                    initialize(connection, opener, revision).await?
                }
            },
            Err(_) => {
                *at = INITIALIZE;
                // It may only be slow to start: then it answers both, the probe first.
                either(connection, opener, probe).await?
            }
        }
    } else {
        *at = INITIALIZE;
        match initialize(connection, opener, prefer).await {
            Ok(hello) => hello,
            Err(refused @ (PeerError::Refused { .. } | PeerError::NoCommonRevision { .. }))
            | Err(refused @ PeerError::Lost { lost: Lost::Refused { .. }, .. }) => {
                *at = DISCOVER;
                match probed(connection, said(&mut discover(opener)).await) {
                    Probed::Stateless(hello) => hello,
                    _ => return Err(refused),
                }
            }
            Err(error) => return Err(error),
        }
    };
    let spoken = Spoken { revision: hello.revision, version: hello.version.clone() };
    let _only_once = connection.spoken.set(spoken);
    if !hello.revision.is_stateless() {
        opener.initialized().await?;
    }
    Ok(hello)
}

fn discover<O: Opener>(opener: &O) -> Pending {
    let ask = Outgoing { method: DISCOVER.to_owned(), ..Outgoing::default() };
    opener.open(ask, Revision::V2026_07_28)
}

fn probed(connection: &Connection, said: Said) -> Probed {
    let result = match said {
        Said::Result(result) => result,
        Said::Error(error) => return refused(error),
        Said::Lost(Lost::Refused { status: status @ (401 | 403) }) => {
            return Probed::Failed(PeerError::Unauthorized { status });
        }
        // Over HTTP each request has a response of its own: whatever became of this one, the next may be answered.
        Said::Lost(Lost::Refused { .. } | Lost::Ended | Lost::Broken(_)) if connection.lost().is_none() => {
            return Probed::Older(None);
        }
        Said::Lost(lost) => return Probed::Failed(PeerError::Lost { method: DISCOVER, lost }),
    };
    let Some(named) = versions(&result, "supportedVersions") else { return Probed::Older(None) };
    if !named.iter().any(|version| version == Revision::V2026_07_28.as_str()) {
        return older(&named);
    }
    match hello(result, Revision::V2026_07_28, Revision::V2026_07_28.as_str().to_owned(), DISCOVER) {
        Ok(hello) => Probed::Stateless(hello),
        Err(error) => Probed::Failed(error),
    }
}

/// What an error tells: 2026-07-28 has brought three of them, and any other is an older server's.
fn refused(error: RpcError) -> Probed {
    match error.code {
        RpcError::UNSUPPORTED_REVISION => {
            let named = error.data.as_deref().and_then(|data| versions(data, "supported"));
            named.map_or(Probed::Older(None), |named| older(&named))
        }
        RpcError::HEADER_MISMATCH | RpcError::MISSING_CAPABILITY => {
            Probed::Failed(PeerError::Refused { method: DISCOVER, error: bounded(error) })
        }
        _ => Probed::Older(None),
    }
}

/// The newest of those revisions that begins with `initialize`.
fn older(named: &[String]) -> Probed {
    let ours = Revision::ALL.into_iter().filter(|revision| !revision.is_stateless());
    match ours.into_iter().find(|revision| named.iter().any(|it| it == revision.as_str())) {
        Some(revision) => Probed::Older(Some(revision)),
        // Its older ones may do as well: it will say which one it takes.
        None if named.iter().any(|version| is_older(version)) => Probed::Older(None),
        None => Probed::Failed(PeerError::NoCommonRevision { theirs: shown(&named.join(", ")) }),
    }
}

/// Initializes, while the probe may still be answered. The first that succeeds counts.
async fn either<O: Opener>(
    connection: &Arc<Connection>,
    opener: &O,
    mut probe: Pending,
) -> Result<Hello, PeerError> {
    let late = async {
        match probed(connection, said(&mut probe).await) {
            Probed::Stateless(hello) => hello,
            _ => std::future::pending().await,
        }
    };
    let initialized = initialize(connection, opener, Revision::NEWEST_WITH_INITIALIZE);
    tokio::select! {
        biased;
        hello = late => Ok(hello),
        initialized = initialized => initialized,
    }
}

async fn initialize<O: Opener>(
    connection: &Arc<Connection>,
    opener: &O,
    revision: Revision,
) -> Result<Hello, PeerError> {
    let introduction = &connection.introduction;
    let version = serde_json::value::to_raw_value(revision.as_str());
    let version = version.map_err(|_| PeerError::Target("the revision cannot be written".to_owned()))?;
    let ask = Outgoing {
        method: INITIALIZE.to_owned(),
        params: vec![
            ("protocolVersion".to_owned(), version),
            ("capabilities".to_owned(), introduction.capabilities.clone()),
            ("clientInfo".to_owned(), introduction.client_info.clone()),
        ],
        ..Outgoing::default()
    };
    let result = match said(&mut opener.open(ask, revision)).await {
        Said::Result(result) => result,
        Said::Error(error) => return Err(PeerError::Refused { method: INITIALIZE, error: bounded(error) }),
        Said::Lost(Lost::Refused { status: status @ (401 | 403) }) => {
            return Err(PeerError::Unauthorized { status });
        }
        Said::Lost(lost) => return Err(PeerError::Lost { method: INITIALIZE, lost }),
    };
    let named = Members::of(&result)
        .ok()
        .and_then(|it| it.get("protocolVersion").and_then(text).map(Cow::into_owned));
    let Some(named) = named else {
        return Err(PeerError::Malformed { method: INITIALIZE, why: "names no `protocolVersion`" });
    };
    let revision = match Revision::from_date(&named) {
        Some(revision) if !revision.is_stateless() => revision,
        // What they have not and 2025-06-18 has, a server of theirs does not use.
        None if is_older(&named) => Revision::V2025_06_18,
        _ => return Err(PeerError::NoCommonRevision { theirs: shown(&named) }),
    };
    hello(result, revision, named, INITIALIZE)
}

fn hello(
    raw: Box<RawValue>,
    revision: Revision,
    version: String,
    method: &'static str,
) -> Result<Hello, PeerError> {
    let malformed = |why| PeerError::Malformed { method, why };
    let members = Members::of(&raw).map_err(|_| malformed("is no object, or names a member twice"))?;
    let own = |name| members.given(name).map(ToOwned::to_owned);
    let in_meta = || {
        let meta = Members::of(members.given("_meta")?).ok()?;
        meta.given("io.modelcontextprotocol/serverInfo").map(ToOwned::to_owned)
    };
    let capabilities = match own("capabilities") {
        Some(capabilities) => capabilities,
        None => return Err(malformed("names no `capabilities`")),
    };
    let server_info = own("serverInfo").or_else(in_meta);
    let instructions = members.given("instructions").and_then(text).map(Cow::into_owned);
    Ok(Hello { revision, version, capabilities, server_info, instructions, raw })
}

fn versions(raw: &RawValue, name: &str) -> Option<Vec<String>> {
    let members = Members::of(raw).ok()?;
    serde_json::from_str(members.given(name)?.get()).ok()
}

/// Whether it is a revision from before the oldest of ours: dates compare as text.
fn is_older(version: &str) -> bool {
    let is_date = version.len() == 10 && version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    is_date && version < Revision::V2025_06_18.as_str()
}

/// What the server says is as long as it likes; what we say of it is not.
fn shown(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).take(200).collect()
}

fn bounded(error: RpcError) -> RpcError {
    RpcError { message: shown(&error.message), ..error }
}

/// Over one pair of streams all goes its way in order.
pub(super) struct InLine<'a>(pub(super) &'a Arc<Connection>);

impl Opener for InLine<'_> {
    fn open(&self, ask: Outgoing, revision: Revision) -> Pending {
        let connection = Arc::clone(self.0);
        let slot = connection.open(false);
        let json = connection.write(&slot, &ask, revision);
        connection.post(Letter { json, slot: Some(Arc::clone(&slot)), teller: None, in_order: true });
        Pending { slot, connection }
    }

    async fn initialized(&self) -> Result<(), PeerError> {
        let json = letter::notification("notifications/initialized", None);
        self.0.post(Letter { json, slot: None, teller: None, in_order: true });
        Ok(())
    }
}
