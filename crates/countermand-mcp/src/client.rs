//! A client as a handler sees it: who it is, and how to say something to it, or to ask it something, by ourselves.

use crate::message::{self, Id, Response};
use crate::progress::Sink;
use crate::{CallHandle, Revision, RpcError, TransportKind};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// One client of the wire: that of a connection, of a session, or of a request that stands alone. A cheap clone.
#[derive(Debug, Clone)]
pub struct Client {
    /// Names a connection's or session's client among all of this process; a request that stands alone has none.
    pub id: Option<Uuid>,
    /// Who calls.
    pub principal: String,
    /// The name of its session, where the transport has sessions. Not the session's id, which is a secret of its
    /// client.
    pub session: Option<String>,
    /// The revision that it is served under.
    pub revision: Revision,
    /// What carries it.
    pub transport: TransportKind,
    /// What it has said of itself: the params of its `initialize`, or the `_meta` of a request that stands alone.
    pub introduction: Option<Arc<RawValue>>,
    /// What is said to it beside its requests. One that stands alone hears nothing there.
    pub back: Backchannel,
    pub(crate) gone: CancellationToken,
}

impl Client {
    /// Waits until its connection or session has ended. Never completes for a request that stands alone.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Whether its connection or session has ended.
    pub fn is_gone(&self) -> bool {
        self.gone.is_cancelled()
    }
}

/// A way to a client for what it has not asked for. A cheap clone.
#[derive(Clone)]
pub struct Backchannel {
    sink: Option<Arc<dyn Sink>>,
    call: Option<CallHandle>,
    asks: Option<Arc<Asks>>,
}

impl Backchannel {
    /// A way that leads nowhere.
    pub fn nowhere() -> Self {
        Self { sink: None, call: None, asks: None }
    }

    /// Beside a client's requests.
    pub(crate) fn beside(sink: Arc<dyn Sink>, asks: Arc<Asks>) -> Self {
        Self { sink: Some(sink), call: None, asks: Some(asks) }
    }

    /// On the response of one call, for as long as that is open. Without `asks` the client can be asked nothing there.
    pub(crate) fn of_call(call: CallHandle, sink: Arc<dyn Sink>, asks: Option<Arc<Asks>>) -> Self {
        Self { sink: Some(sink), call: Some(call), asks }
    }

    /// Sends a notification. Never blocks. False if it could not be sent: the client has gone or does not read, or the
    /// call has been ended.
    pub fn notify(&self, method: &str, params: Option<&RawValue>) -> bool {
        self.put(&message::write_notification(method, params))
    }

    /// Whether the client can be asked something this way.
    pub fn can_ask(&self) -> bool {
        self.sink.is_some() && self.asks.is_some()
    }

    /// Asks the client something, and waits for its answer for as long as it takes.
    ///
    /// # Errors
    /// What the client answered; or [`RpcError::INTERNAL_ERROR`] if it cannot be asked, or has gone.
    ///
    /// # Cancel safety
    /// Dropping the future tells the client that the answer is not wanted any more.
    pub async fn ask(&self, method: &str, params: Option<&RawValue>) -> Result<Box<RawValue>, RpcError> {
        let unasked =
            || RpcError::new(RpcError::INTERNAL_ERROR, "The client of this call could not be asked");
        let asks = self.asks.clone().ok_or_else(unasked)?;
        let (number, answered) = asks.register();
        let mut asked = Asked { way: self.clone(), asks, number, open: false };
        if !self.put(&message::write_request(number, method, params)) {
            return Err(unasked());
        }
        asked.open = true;
        let answer = answered.await;
        asked.open = false;
        answer.unwrap_or_else(|_| Err(unasked()))
    }

    fn put(&self, json: &str) -> bool {
        self.sink.as_ref().is_some_and(|sink| sink.insist(self.call.as_ref(), json))
    }
}

impl fmt::Debug for Backchannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backchannel").field("call", &self.call).field("can_ask", &self.can_ask()).finish()
    }
}

/// A question that is out.
struct Asked {
    way: Backchannel,
    asks: Arc<Asks>,
    number: u64,
    open: bool,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.asks.forget(self.number);
        if self.open {
            let params = format!(r#"{{"requestId":{}}}"#, self.number);
            let params = RawValue::from_string(params).ok();
            self.way.notify("notifications/cancelled", params.as_deref());
        }
    }
}

type Answers = HashMap<u64, oneshot::Sender<Result<Box<RawValue>, RpcError>>>;

/// What one client has been asked and has not answered. The ids are ours, counted up.
#[derive(Default)]
pub(crate) struct Asks(Mutex<(u64, Answers)>);

impl Asks {
    fn register(&self) -> (u64, oneshot::Receiver<Result<Box<RawValue>, RpcError>>) {
        let (sender, receiver) = oneshot::channel();
        let mut book = self.lock();
        book.0 += 1;
        let number = book.0;
        book.1.insert(number, sender);
        (number, receiver)
    }

    fn forget(&self, number: u64) {
        self.lock().1.remove(&number);
    }

    /// Takes a client's answer. One to nothing that was asked means nothing.
    pub(crate) fn answered(&self, response: &Response<'_>) {
        let number = response.id.and_then(Id::of).and_then(|id| match id {
            Id::Number(number) => number.parse().ok(),
            Id::Text(_) => None,
        });
        let waiting = number.and_then(|number: u64| self.lock().1.remove(&number));
        if let Some(waiting) = waiting {
            let result = response.outcome.map(ToOwned::to_owned).map_err(RpcError::of);
            let _nobody_waits = waiting.send(result);
        }
    }

    /// The client has gone: whoever waits for an answer learns it.
    pub(crate) fn close(&self) {
        self.lock().1.clear();
    }

    fn lock(&self) -> MutexGuard<'_, (u64, Answers)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Kept;
    use futures_util::FutureExt as _;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    fn answer(asks: &Asks, id: Option<&str>, outcome: Result<&str, &str>) {
        let id = id.map(raw);
        let (Ok(json) | Err(json)) = outcome;
        let json = raw(json);
        let outcome = if outcome.is_ok() { Ok(&*json) } else { Err(&*json) };
        asks.answered(&Response { id: id.as_deref(), outcome });
    }

    fn way() -> (Backchannel, Arc<Asks>, Arc<Kept>) {
        let (asks, kept) = (Arc::new(Asks::default()), Arc::new(Kept::default()));
        (Backchannel::beside(kept.clone(), asks.clone()), asks, kept)
    }

    #[test]
    fn an_answer_goes_to_the_question_of_its_id_and_ids_are_typed() {
        let (way, asks, kept) = way();
        let mut first = Box::pin(way.ask("roots/list", None));
        let mut second = Box::pin(way.ask("elicitation/create", None));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        answer(&asks, Some("\"2\""), Ok("{}"));
        answer(&asks, Some("7"), Ok("{}"));
        answer(&asks, None, Ok("{}"));
        assert!(second.as_mut().now_or_never().is_none());
        answer(&asks, Some("2"), Ok(r#"{"a":1.0}"#));
        assert_eq!(second.now_or_never().unwrap().unwrap().get(), r#"{"a":1.0}"#);
        let asked = r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#;
        assert_eq!(kept.0.lock().unwrap()[0], asked);
    }

    #[test]
    fn a_question_that_nobody_waits_for_any_more_is_taken_back_and_an_answered_one_is_not() {
        let (way, asks, kept) = way();
        let mut asked = Box::pin(way.ask("roots/list", None));
        assert!(asked.as_mut().now_or_never().is_none());
        drop(asked);
        let taken_back = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        assert_eq!(kept.0.lock().unwrap()[1], taken_back);
        let mut asked = Box::pin(way.ask("roots/list", None));
        assert!(asked.as_mut().now_or_never().is_none());
        answer(&asks, Some("2"), Err(r#"{"code":-1,"message":"no"}"#));
        assert_eq!(asked.now_or_never().unwrap().unwrap_err().message, "no");
        assert_eq!(kept.0.lock().unwrap().len(), 3);
    }

    #[test]
    fn a_client_that_goes_answers_nothing_and_one_without_a_way_cannot_be_asked() {
        let (way, asks, _) = way();
        let mut asked = Box::pin(way.ask("roots/list", None));
        assert!(asked.as_mut().now_or_never().is_none());
        asks.close();
        assert_eq!(asked.now_or_never().unwrap().unwrap_err().code, RpcError::INTERNAL_ERROR);
        let nowhere = Backchannel::nowhere();
        assert!(!nowhere.can_ask() && !nowhere.notify("notifications/message", None));
        assert!(nowhere.ask("roots/list", None).now_or_never().unwrap().is_err());
    }
}
