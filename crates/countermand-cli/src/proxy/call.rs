//! One request that is passed on to a server, from its client's word to the server's, and what its client does meanwhile.

use super::{
    Proxy,
    forward::Forwarded,
    link::{Link, Voice, Way, pass_on},
    raw,
    rounds::{self, Parked},
    server::Server,
};
use crate::{absence, answer};
use countermand::{
    core::{
        CallId, Cause, NewRow, OnDisconnect, OperationId, Phase, Principal, Row, UpstreamId,
        event::CancelAnswer, ports::Clock as _, row::hash_json,
    },
    engine::Operation,
};
use countermand_mcp::{Answer, Ask, Call, Happened, Lost, Outgoing, Pending, RpcError};
use serde_json::value::RawValue;
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::Instant};

/// How long the record of a cancel may hold the cancel itself up.
const RECORD_WITHIN: Duration = Duration::from_secs(1);

/// As good as no timeout.
const FOREVER: Duration = Duration::from_secs(60 * 60 * 24 * 365);

/// How long a caller that is still there waits to be told what became of the cancel.
const TOLD_WITHIN: Duration = Duration::from_secs(2);

/// A request on its way.
pub(super) struct Passed<'a> {
    pub(super) proxy: &'a Arc<Proxy>,
    pub(super) server: &'a Arc<Server>,
    pub(super) call: Call,
    /// What the server is asked; of its `_meta` only what the client has written.
    pub(super) outgoing: Outgoing,
}

/// What ends the waiting.
enum Woke {
    Ended(Cause, Option<String>),
    Happened(Happened),
    /// A question of the server to a client that is asked by results.
    Question(Ask),
}

/// A request that the server has.
pub(super) struct InFlight {
    pub(super) link: Arc<Link>,
    pub(super) pending: Pending,
    pub(super) voice: Voice,
    /// What the server asks without saying on whose behalf, where this client is asked by results.
    pub(super) questions: Option<mpsc::UnboundedReceiver<Ask>>,
}

impl Passed<'_> {
    /// Passes it on, and answers with what the server answers.
    pub(super) async fn serve(mut self) -> Answer {
        // Who listens does so for as long as it likes.
        let timeout =
            Instant::now() + if self.is_subscription() { FOREVER } else { self.server.config.timeout };
        let parked = match rounds::resumed(self.proxy, &self.call, &mut self.outgoing) {
            Ok(parked) => parked,
            Err(error) => return Answer::error(error),
        };
        let flight = match parked {
            Some(flight) => flight,
            None => match self.send().await {
                Ok(flight) => flight,
                Err(answer) => return answer,
            },
        };
        self.follow(flight, timeout).await
    }

    /// Sends it, over a connection that is made where there is none.
    async fn send(&self) -> Result<InFlight, Answer> {
        let link = tokio::select! {
            _ = self.call.handle.cancelled() => {
                return Err(self.failed("The call was ended before the server was asked."));
            }
            link = self.link() => link.map_err(|why| self.failed(&why))?,
        };
        let (way, questions) = if self.is_asked_by_results() {
            let (sender, questions) = mpsc::unbounded_channel();
            (Way::ByResults(sender), Some(questions))
        } else {
            (Way::Back(self.call.back.clone()), None)
        };
        // Before it is sent: what the server asks on its behalf finds its way.
        let voice = link.voice(way);
        let pending = link.peer.request(self.outgoing.clone());
        if self.is_for_one_call() {
            let link = Arc::clone(&link);
            self.proxy.tools.tasks.spawn(async move {
                link.idle().await;
                link.close().await;
            });
        }
        Ok(InFlight { link, pending, voice, questions })
    }

    /// Whether a result may require input of its client. No other requests can be made again with it.
    fn is_asked_by_results(&self) -> bool {
        self.call.client.revision.is_stateless()
            && matches!(self.call.method.as_str(), "tools/call" | "prompts/get" | "resources/read")
    }

    /// It is no work: it lasts until its client ends it, and is ended in no other way.
    fn is_subscription(&self) -> bool {
        self.call.method == rounds::LISTEN
    }

    /// Only what has effects of its own is worth a process of its own.
    fn is_for_one_call(&self) -> bool {
        self.server.is_for_one_call() && self.call.method == "tools/call"
    }

    async fn link(&self) -> Result<Arc<Link>, String> {
        match self.is_for_one_call() {
            true => self.server.link_of_call(&self.call.client).await,
            false => self.server.link(&self.call.client).await,
        }
    }

    async fn follow(mut self, mut flight: InFlight, timeout: Instant) -> Answer {
        let policy = self.on_disconnect();
        let presence = std::mem::take(&mut self.call.presence);
        let mut given_up = std::pin::pin!(absence::given_up(policy, timeout, presence));
        let handle = self.call.handle.clone();
        let (mut round, mut again) = (0, true);
        loop {
            let woke = tokio::select! {
                biased;
                (cause, reason) = handle.cancelled() => Woke::Ended(cause, reason),
                cause = given_up.as_mut() => {
                    handle.cancel(cause, None);
                    let (cause, reason) = handle.cause().unwrap_or((cause, None));
                    Woke::Ended(cause, reason)
                }
                happened = flight.pending.next() => Woke::Happened(happened),
                Some(ask) = question(&mut flight.questions) => Woke::Question(ask),
            };
            match woke {
                Woke::Ended(cause, _) if policy == OnDisconnect::Detach && is_gone(cause) => {
                    return self.detach(flight, timeout);
                }
                Woke::Ended(cause, reason) => return self.end(flight, cause, reason).await,
                Woke::Question(ask) => return self.park(flight, ask),
                Woke::Happened(Happened::Progress(note)) => {
                    if let Some(progress) = &self.call.progress {
                        progress.pass_on(note.progress, &note.raw);
                    }
                }
                Woke::Happened(Happened::Noted { method, params }) => {
                    let params = params.map(|params| self.noted(&method, params, &flight.pending));
                    self.call.back.notify(&method, params.as_deref());
                }
                Woke::Happened(Happened::Asked(ask)) => {
                    if self.is_asked_by_results() {
                        return self.park(flight, ask);
                    }
                    self.proxy.tools.tasks.spawn(pass_on(ask, self.call.back.clone()));
                }
                Woke::Happened(Happened::Answered(Ok(result))) => {
                    match rounds::required(&self.call, &flight.link, &result) {
                        Some(required) if round < rounds::MOST => {
                            round += 1;
                            // A client of an older revision is asked what the result requires, and the request is made again.
                            let answered = tokio::select! {
                                answered = required.of_client(&self.call) => answered,
                                (cause, reason) = handle.cancelled() => return self.end(flight, cause, reason).await,
                            };
                            match answered {
                                Ok(more) => {
                                    let mut outgoing = self.outgoing.clone();
                                    for (name, value) in more {
                                        raw::set(&mut outgoing.params, &name, value);
                                    }
                                    flight.pending = flight.link.peer.request(outgoing);
                                }
                                Err(error) => return Answer::error(error),
                            }
                        }
                        _ => return Answer::result(self.answered(result, &flight.pending)),
                    }
                }
                Woke::Happened(Happened::Answered(Err(error))) => return Answer::error(error),
                // The server had ended, and has not seen it: another one is asked.
                Woke::Happened(Happened::Lost(Lost::NotSent(_))) if again && flight.link.is_dead() => {
                    again = false;
                    flight = match self.send().await {
                        Ok(flight) => flight,
                        Err(answer) => return answer,
                    };
                }
                Woke::Happened(Happened::Lost(lost)) => return self.lost(&flight.link, &lost).await,
            }
        }
    }

    /// What the client's disconnect means.
    fn on_disconnect(&self) -> OnDisconnect {
        absence::policy(self.server.config.on_disconnect, &self.call.client)
    }

    /// What names the server's id of a subscription names the client's instead.
    fn noted(&self, method: &str, params: Box<RawValue>, pending: &Pending) -> Box<RawValue> {
        if self.is_subscription() && method.starts_with("notifications/") {
            return rounds::renumbered(params, pending.id(), &self.call.request_id);
        }
        params
    }

    fn answered(&self, result: Box<RawValue>, pending: &Pending) -> Box<RawValue> {
        if self.is_subscription() {
            return rounds::renumbered(result, pending.id(), &self.call.request_id);
        }
        result
    }

    /// Answers with a question; the request waits for the round that brings the answer.
    fn park(self, flight: InFlight, ask: Ask) -> Answer {
        let origin = Origin::of(&self.call, &self.name());
        let server = Arc::clone(self.server);
        Answer::result(rounds::park(self.proxy, Parked { server, flight, ask, origin }))
    }

    /// The call's client has gone, and the request goes on without it, until it is answered or its time is over.
    fn detach(self, mut flight: InFlight, timeout: Instant) -> Answer {
        let (proxy, server) = (Arc::clone(self.proxy), Arc::clone(self.server));
        let origin = Origin::of(&self.call, &self.name());
        self.proxy.tools.tasks.spawn(async move {
            loop {
                tokio::select! {
                    happened = flight.pending.next() => {
                        if matches!(happened, Happened::Answered(_) | Happened::Lost(_)) {
                            return;
                        }
                    }
                    () = tokio::time::sleep_until(timeout) => break,
                    () = proxy.leaving.cancelled() => break,
                }
            }
            let cause = if proxy.leaving.is_cancelled() { Cause::Shutdown } else { Cause::Deadline };
            cancel(&proxy, &server, &origin, flight, cause, None).await;
        });
        self.failed("The call's client has left; it goes on without it.")
    }

    /// The client, or somebody for it, has ended the call: the server is told, and that is recorded.
    async fn end(self, mut flight: InFlight, cause: Cause, reason: Option<String>) -> Answer {
        if self.is_subscription() {
            // Nothing of it can run on, so there is nothing to record or to follow.
            let said = reason.unwrap_or_else(|| cause.to_string());
            let _goes_its_way = flight.pending.cancel(Some(&said));
            return self.failed("The subscription was ended.");
        }
        let origin = Origin::of(&self.call, &self.name());
        let told = cancel(self.proxy, self.server, &origin, flight, cause, reason).await;
        if cause.is_the_clients() {
            // Nobody reads it: the registry sends nothing for a call that its client has ended.
            return self.failed("The call was ended by its client.");
        }
        let text = answer::ended_by(cause, told.as_ref(), self.server.config.timeout);
        match self.call.method.as_str() {
            "tools/call" => Answer::result(answer::error(&text, told.as_ref())),
            _ => Answer::error(RpcError::new(RpcError::INTERNAL_ERROR, text)),
        }
    }

    /// Nothing comes any more: what is said depends on what is known.
    async fn lost(&self, link: &Link, lost: &Lost) -> Answer {
        let name = &self.server.config.name;
        let exit = match link.program() {
            Some(program) => tokio::time::timeout(Duration::from_secs(3), program.exited())
                .await
                .map(|exit| format!(" Its process ended: {exit}."))
                .unwrap_or_default(),
            None => String::new(),
        };
        let text = match lost {
            Lost::NotSent(_) => format!("The MCP server `{name}` was not asked: {lost}.{exit}"),
            _ => format!(
                "The MCP server `{name}` did not answer the call: {lost}.{exit} Whether the call took effect is not known; the next one finds the server started again."
            ),
        };
        self.failed(&text)
    }

    /// What the request is called in the ledger.
    fn name(&self) -> String {
        if self.call.tool.is_empty() { self.call.method.clone() } else { self.call.tool.clone() }
    }

    fn failed(&self, text: &str) -> Answer {
        failed(&self.call.method, text)
    }
}

/// Whether it is the cause of a client that has gone without a word about the call.
fn is_gone(cause: Cause) -> bool {
    matches!(cause, Cause::ClientDisconnected | Cause::SessionEnded)
}

/// A failure of ours, as the method wants it.
pub(super) fn failed(method: &str, text: &str) -> Answer {
    match method {
        "tools/call" => Answer::result(answer::error(text, None)),
        _ => Answer::error(RpcError::new(RpcError::INTERNAL_ERROR, text)),
    }
}

async fn question(questions: &mut Option<mpsc::UnboundedReceiver<Ask>>) -> Option<Ask> {
    match questions {
        Some(questions) => questions.recv().await,
        None => std::future::pending().await,
    }
}

/// Whose a request is, for the record.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) principal: String,
    call: uuid::Uuid,
    session: Option<String>,
    request_id: Box<RawValue>,
    name: String,
    args_hash: String,
}

impl Origin {
    fn of(call: &Call, name: &str) -> Self {
        let arguments = call.arguments.as_deref().and_then(|raw| serde_json::from_str(raw.get()).ok());
        Self {
            principal: call.client.principal.clone(),
            call: call.handle.id(),
            session: call.client.session.clone(),
            request_id: call.request_id.clone(),
            name: name.to_owned(),
            args_hash: hash_json(&arguments.unwrap_or_default()),
        }
    }
}

/// Records the cancel of a request and forwards it. While the ledger fails it is forwarded all the same. The row as it is
/// once the server was told.
pub(super) async fn cancel(
    proxy: &Proxy,
    server: &Server,
    origin: &Origin,
    flight: InFlight,
    cause: Cause,
    reason: Option<String>,
) -> Option<Row> {
    let InFlight { link, pending, voice, .. } = flight;
    let now = proxy.clock.now();
    let (owner, epoch) = proxy.engine.identity();
    let new = NewRow {
        id: OperationId(uuid::Uuid::now_v7()),
        call: CallId(origin.call),
        session: origin.session.clone(),
        request_id: Some(origin.request_id.get().to_owned()),
        principal: Principal(origin.principal.clone()),
        tool: origin.name.clone(),
        args_hash: origin.args_hash.clone(),
        inputs: serde_json::Map::new(),
        definition: server.forwarded.hash.clone(),
        policy: server.forwarded.policy.clone(),
        upstream: server.config.name.clone(),
        key: now.dice.key(),
        on_disconnect: OnDisconnect::Cancel,
        owner,
        epoch,
    };
    let row = Row::forwarded(new, UpstreamId::from(pending.id().get()), (cause, reason.clone()), now.at);
    let said = reason.or_else(|| Some(cause.to_string()));
    let then = server.config.unconfirmed.then;
    let forwarded = Arc::new(Forwarded::new(pending, link, voice, said, then));
    let recording = proxy.engine.start(row, &server.forwarded, Some(forwarded.clone()));
    let why = match tokio::time::timeout(RECORD_WITHIN, recording).await {
        Ok(Ok(operation)) => return Some(told(operation, cause).await),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("the ledger has not answered within {} s", RECORD_WITHIN.as_secs()),
    };
    let (tool, server) = (&origin.name, &server.config.name);
    tracing::error!(tool, server, %cause, "a cancel is forwarded without a record: {why}");
    if let CancelAnswer::NotAccepted(trouble) = forwarded.tell().await {
        tracing::error!(tool, server, "{}", trouble.message);
    }
    None
}

/// Waits until the server was told, or it takes too long; the operation is driven on in any case.
async fn told(mut operation: Operation, cause: Cause) -> Row {
    if !cause.is_the_clients() {
        let told = async {
            while operation.view().row.phase == Phase::CancelRequested {
                if operation.changed().await.is_none() {
                    break;
                }
            }
        };
        let _late = tokio::time::timeout(TOLD_WITHIN, told).await;
    }
    let row = Row::clone(&operation.view().row);
    operation.leave_alone();
    row
}
