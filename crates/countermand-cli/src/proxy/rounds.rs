//! What a server asks its client in the middle of a request, between the eras: older servers ask by requests of their own,
//! 2026-07-28 by results that require input and a request that is made again.

use super::{Proxy, server::Server};
use super::{
    call::{InFlight, Origin, cancel},
    link::Link,
    raw,
};
use countermand::core::Cause;
use countermand_mcp::{Ask, Call, Outgoing, RpcError};
use serde_json::value::RawValue;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Rounds of one request.
pub(super) const MOST: usize = 10;

/// How long a request waits for the round that brings its answer, and no longer than a request may take. Abandoned rounds
/// send no sign.
const ROUND_WITHIN: Duration = Duration::from_secs(300);

const STATE: &str = "requestState";
const RESPONSES: &str = "inputResponses";
/// The one question of a round of ours.
const QUESTION: &str = "question";

/// The requests that wait for their next round, by the state that their clients hold.
#[derive(Default)]
pub(super) struct Waiting(Mutex<HashMap<String, Parked>>);

/// A request that waits.
pub(super) struct Parked {
    pub(super) server: Arc<Server>,
    pub(super) flight: InFlight,
    pub(super) ask: Ask,
    pub(super) origin: Origin,
}

impl Waiting {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Parked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parked {
    /// It waits no more.
    async fn end(self, proxy: &Proxy, cause: Cause, why: &str) {
        let Self { server, flight, ask, origin } = self;
        cancel(proxy, &server, &origin, flight, cause, None).await;
        // Only then: a server that hears it first answers, and there would be nothing to cancel.
        ask.answer(Err(RpcError::new(RpcError::INTERNAL_ERROR, why)));
    }
}

/// We are leaving: nobody can come back.
pub(super) async fn cancel_all(proxy: &Proxy) {
    let waiting = std::mem::take(&mut *proxy.waiting.lock());
    let why = "the gateway is shutting down";
    futures_util::future::join_all(waiting.into_values().map(|it| it.end(proxy, Cause::Shutdown, why))).await;
}

/// The result that asks a client of 2026-07-28 what an older server asks. The request waits for the round that brings the
/// answer, and is cancelled if none does.
pub(super) fn park(proxy: &Arc<Proxy>, parked: Parked) -> Box<RawValue> {
    let state = format!("countermand-{}", uuid::Uuid::new_v4());
    let mut asked = vec![("method".to_owned(), raw::quoted(&parked.ask.method))];
    if let Some(params) = &parked.ask.params {
        asked.push(("params".to_owned(), params.clone()));
    }
    let result = vec![
        ("resultType".to_owned(), raw::quoted("input_required")),
        ("inputRequests".to_owned(), raw::object(&vec![(QUESTION.to_owned(), raw::object(&asked))])),
        (STATE.to_owned(), raw::quoted(&state)),
    ];
    let within = ROUND_WITHIN.min(parked.server.config.timeout);
    proxy.waiting.lock().insert(state.clone(), parked);
    let proxy = Arc::clone(proxy);
    proxy.clone().tools.tasks.spawn(async move {
        tokio::select! {
            () = tokio::time::sleep(within) => {}
            () = proxy.leaving.cancelled() => return,
        }
        let abandoned = proxy.waiting.lock().remove(&state);
        if let Some(parked) = abandoned {
            parked.end(&proxy, Cause::Deadline, "its client has not come back with an answer").await;
        }
    });
    raw::object(&result)
}

/// The request that this one is the next round of; the server's question is answered by it.
///
/// # Errors
/// Where such a request does not wait any more, or was somebody else's.
pub(super) fn resumed(
    proxy: &Proxy,
    call: &Call,
    outgoing: &mut Outgoing,
) -> Result<Option<InFlight>, RpcError> {
    let Some(state) = raw::text(&outgoing.params, STATE).filter(|state| state.starts_with("countermand-"))
    else {
        return Ok(None);
    };
    let gone = || {
        RpcError::invalid_params(
            "The request that this one goes on with does not wait any more; make it anew",
        )
    };
    let mut waiting = proxy.waiting.lock();
    if waiting.get(&state).is_none_or(|parked| parked.origin.principal != call.client.principal) {
        return Err(gone());
    }
    let responses = raw::members(raw::get(&outgoing.params, RESPONSES));
    let Some(response) = raw::get(&responses, QUESTION) else {
        return Err(RpcError::invalid_params(format!(
            "Invalid params: `{RESPONSES}` has no answer to `{QUESTION}`"
        )));
    };
    let Parked { flight, ask, .. } = waiting.remove(&state).ok_or_else(gone)?;
    drop(waiting);
    ask.answer(Ok(response.to_owned()));
    Ok(Some(flight))
}

/// What a result of 2026-07-28 requires of a client of an older revision.
pub(super) struct Required {
    requests: Vec<(String, String, Option<Box<RawValue>>)>,
    state: Option<Box<RawValue>>,
}

/// What a result requires, if it does, and its client cannot read that.
pub(super) fn required(call: &Call, link: &Link, result: &RawValue) -> Option<Required> {
    if call.client.revision.is_stateless() || !link.peer.hello().revision.is_stateless() {
        return None;
    }
    let mut result = raw::members(Some(result));
    if raw::text(&result, "resultType").as_deref() != Some("input_required") {
        return None;
    }
    let requests = raw::members(raw::get(&result, "inputRequests"));
    let requests = requests.into_iter().filter_map(|(key, request)| {
        let mut request = raw::members(Some(&request));
        Some((key, raw::text(&request, "method")?, raw::take(&mut request, "params")))
    });
    Some(Required { requests: requests.collect(), state: raw::take(&mut result, STATE) })
}

impl Required {
    /// Asks the client, and says what the request is to be made again with.
    ///
    /// # Errors
    /// The client's refusal.
    pub(super) async fn of_client(self, call: &Call) -> Result<raw::Members, RpcError> {
        let asking = self.requests.iter().map(|(key, method, params)| async move {
            call.back.ask(method, params.as_deref()).await.map(|answer| (key.clone(), answer))
        });
        let answers = futures_util::future::try_join_all(asking).await?;
        let mut more = vec![(RESPONSES.to_owned(), raw::object(&answers))];
        more.extend(self.state.map(|state| (STATE.to_owned(), state)));
        Ok(more)
    }
}

/// The request by which a client of 2026-07-28 hears what belongs to no request of its own.
pub(super) const LISTEN: &str = "subscriptions/listen";

/// The member of a notification's `_meta` that names such a request.
pub(super) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The same message with the client's id of a subscription in place of the server's.
pub(super) fn renumbered(message: Box<RawValue>, theirs: &RawValue, ours: &RawValue) -> Box<RawValue> {
    let mut members = raw::members(Some(&message));
    let mut meta = raw::members(raw::get(&members, "_meta"));
    if raw::get(&meta, SUBSCRIPTION).is_none_or(|id| id.get() != theirs.get()) {
        return message;
    }
    raw::set(&mut meta, SUBSCRIPTION, ours.to_owned());
    raw::set(&mut members, "_meta", raw::object(&meta));
    raw::object(&members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_keeps_the_id_that_its_client_gave_it() {
        let note = raw::json(r#"{"x":1.0,"_meta":{"a":[ ],"io.modelcontextprotocol/subscriptionId":7}}"#);
        let other = renumbered(note.clone(), &raw::json("8"), &raw::json("\"s\""));
        assert_eq!(other.get(), note.get());
        let renumbered = renumbered(note, &raw::json("7"), &raw::json("\"s\""));
        assert_eq!(
            renumbered.get(),
            r#"{"x":1.0,"_meta":{"a":[ ],"io.modelcontextprotocol/subscriptionId":"s"}}"#
        );
    }
}
