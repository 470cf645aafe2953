//! One request and its response, from its first byte to its last, whatever its caller does meanwhile.
//!
//! In 2026-07-28 a cancel closes the response. In a session it is a notification of its own, which may overtake the
//! request: a server ignores a cancel of what it does not know. So the notification waits until the request has left,
//! and a server that shows only later that it has the request is told again. Where the server gave no session, the
//! response is closed as well.

use super::Link;
use super::headers::{Manner, SESSION};
use super::sse::Events;
use super::stream::{Got, cause, is_events};
use super::upload::Upload;
use crate::RpcError;
use crate::message::{self, Message};
use crate::peer::cancel::Order;
use crate::peer::letter;
use crate::peer::slot::Slot;
use crate::peer::words::{CancelFate, Lost};
use reqwest::{Body, Response};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long a cancel waits for the server to show that it has the request.
const OVERTAKE: Duration = Duration::from_millis(250);
/// How long it is waited for that the server shows so, to tell it of a cancel again.
const AGAIN_WITHIN: Duration = Duration::from_secs(30);
/// How often a response is asked for again that brings nothing new.
const RESUMES: u32 = 5;
/// The first pause before that; it doubles.
const PAUSE: Duration = Duration::from_millis(100);

enum Event {
    Stopped,
    Ordered,
    /// How the response ended without an answer, if so.
    Done(Option<Lost>),
    /// A notification of a cancel is over. Whether it may have overtaken the request.
    Told(bool),
}

/// A delivery of a cancel.
type Telling = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Carries a request until it is answered, lost or cancelled.
pub(super) async fn carry(link: Arc<Link>, slot: Arc<Slot>, manner: Manner, json: String) {
    let connection = Arc::clone(&link.connection);
    let stateless = manner.is_stateless();
    // The server has shown that it has the request, or never will.
    let arrived = CancellationToken::new();
    let mut exchange = Box::pin(exchange(&link, &slot, manner, json, &arrived));
    let (mut done, mut telling, mut is_first) = (false, None::<Telling>, true);
    loop {
        let told = async {
            match &mut telling {
                Some(telling) => Some(telling.await),
                None => None,
            }
        };
        let event = tokio::select! {
            biased;
            () = connection.stop.cancelled() => Event::Stopped,
            () = slot.orders.notified() => Event::Ordered,
            lost = &mut exchange, if !done => Event::Done(lost),
            Some(overtaken) = told => Event::Told(overtaken),
        };
        match event {
            Event::Stopped => return connection.lose(&slot, connection.lost().unwrap_or(Lost::Closed)),
            Event::Ordered if slot.is_revoked() => return,
            Event::Ordered => match slot.take_order() {
                Some(Order { teller, .. }) if stateless => {
                    drop(exchange);
                    connection.lose(&slot, Lost::Cancelled);
                    return teller.tell(CancelFate::StreamClosed);
                }
                Some(order) => {
                    is_first = true;
                    telling = Some(Box::pin(tell(link.clone(), slot.id, order, arrived.clone())));
                }
                None => {}
            },
            Event::Done(lost) => {
                done = true;
                arrived.cancel();
                if let Some(lost) = lost {
                    connection.lose(&slot, lost);
                }
            }
            // A server without sessions cannot know which request that was: it may only see the response close.
            Event::Told(_) if link.session.get().is_none() => {
                return connection.lose(&slot, Lost::Cancelled);
            }
            Event::Told(overtaken) => {
                is_first = false;
                let again = || -> Telling { Box::pin(tell_again(link.clone(), slot.id, arrived.clone())) };
                telling = (overtaken && !done).then(again);
            }
        }
        // An answer that is there ends its response by itself.
        let forsaken = slot.is_abandoned() && !slot.is_over();
        if telling.is_none() && (done || forsaken) {
            return;
        }
        if done && !is_first && slot.is_answered() {
            return;
        }
    }
}

/// Notifies the server of a cancel. True if nothing shows that it had the request before.
async fn tell(link: Arc<Link>, id: u64, order: Order, arrived: CancellationToken) -> bool {
    let overtaken = tokio::time::timeout(OVERTAKE, arrived.cancelled()).await.is_err();
    let json = letter::cancelled(id, order.reason.as_deref());
    order.teller.tell(match link.control(json).await {
        Ok(()) => CancelFate::Acknowledged,
        Err(lost) => CancelFate::Failed(lost.to_string()),
    });
    overtaken
}

/// Notifies the server of the same cancel once it has the request.
async fn tell_again(link: Arc<Link>, id: u64, arrived: CancellationToken) -> bool {
    if tokio::time::timeout(AGAIN_WITHIN, arrived.cancelled()).await.is_err() {
        return false;
    }
    if let Err(lost) = link.control(letter::cancelled(id, None)).await {
        tracing::debug!("a cancel was not told a second time: {lost}");
    }
    false
}

/// Sends the request and reads its response. `None` if that brought the answer.
async fn exchange(
    link: &Arc<Link>,
    slot: &Arc<Slot>,
    manner: Manner,
    json: String,
    arrived: &CancellationToken,
) -> Option<Lost> {
    let headers = match link.headers(&manner) {
        Ok(headers) => headers,
        Err(lost) => return Some(lost),
    };
    let body = Body::wrap(Upload::new(json, Some(Arc::clone(slot))));
    let response = match link.target.client.post(link.url.clone()).headers(headers).body(body).send().await {
        Ok(response) => response,
        Err(error) if slot.is_handed_over() => return Some(Lost::Broken(cause(error))),
        Err(error) => return Some(Lost::NotSent(unconnected(error))),
    };
    arrived.cancel();
    if manner == Manner::Opening
        && let Some(session) = response.headers().get(SESSION)
    {
        let _only_once = link.session.set(session.clone());
    }
    if response.status().is_success() && is_events(&response) {
        let resumable = !manner.is_stateless();
        return follow(link, slot, response, resumable).await;
    }
    whole(link, slot, response, &manner).await
}

fn unconnected(error: reqwest::Error) -> String {
    format!("no connection ({}); check that the server runs, and its URL", cause(error))
}

/// A response that is no stream.
async fn whole(link: &Link, slot: &Arc<Slot>, response: Response, manner: &Manner) -> Option<Lost> {
    let status = response.status().as_u16();
    let body = match link.whole(response).await {
        Ok(body) => body,
        Err(lost) => return Some(lost),
    };
    match status {
        401 | 403 => return Some(Lost::Refused { status }),
        // It may say why in an answer to this request; what it means is that there is no such session.
        404 if *manner == Manner::InSession && link.session.get().is_some() && !is_method_missing(&body) => {
            link.gone();
            return Some(Lost::SessionGone);
        }
        _ => {}
    }
    let taken = link.connection.take(&body, Some(slot));
    if slot.is_over() {
        return None;
    }
    Some(match (status, taken) {
        (200..=299, Ok(())) => Lost::Broken("what it answered is no answer to the request".to_owned()),
        (200..=299, Err(_)) if body.is_empty() => {
            Lost::Broken("it took the request and gave no answer".to_owned())
        }
        (200..=299, Err(why)) => Lost::Broken(format!("what it answered is no message: {why}")),
        _ => Lost::Refused { status },
    })
}

/// Whether a body says that the method is unknown, and not that the session is.
fn is_method_missing(body: &[u8]) -> bool {
    match message::parse(body) {
        Ok(Message::Response(response)) => {
            response.outcome.is_err_and(|error| RpcError::of(error).code == RpcError::METHOD_NOT_FOUND)
        }
        _ => false,
    }
}

/// Reads a stream up to the answer. One that breaks off is asked for again where it can be.
async fn follow(link: &Arc<Link>, slot: &Arc<Slot>, response: Response, resumable: bool) -> Option<Lost> {
    let mut events = Events::new(link.connection.options.message);
    let mut next = Some(response);
    let mut lost = Lost::Ended;
    let (mut tries, mut seen) = (0, None);
    loop {
        if let Some(response) = next.take() {
            lost = link.pump(&mut events, response, Some(slot)).await;
            if slot.is_over() {
                return None;
            }
        }
        let Some(last_id) = events.last_id().map(ToOwned::to_owned) else { return Some(lost) };
        if seen.as_ref() != Some(&last_id) {
            (tries, seen) = (0, Some(last_id.clone()));
        }
        // After a cancel a server may end the stream: that is its answer.
        let may_go_on = resumable && !slot.is_cancelled() && !matches!(lost, Lost::TooLarge(_));
        if !may_go_on || tries == RESUMES {
            return Some(lost);
        }
        tokio::time::sleep(events.retry().unwrap_or(PAUSE * (1 << tries))).await;
        tries += 1;
        match link.get(Some(&last_id)).await {
            Got::Events(response) => next = Some(*response),
            Got::Failed(_) => {}
            Got::Nothing(_) => return Some(lost),
            Got::Missing if link.is_alive().await => return Some(lost),
            Got::Missing => return Some(Lost::SessionGone),
        }
    }
}
