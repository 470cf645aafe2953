//! A cancel on its way, and what becomes of it.

use super::words::CancelFate;
use tokio::sync::watch;

/// What became of a cancel, later. A clone tells the same.
#[derive(Debug, Clone)]
pub struct Receipt(watch::Receiver<Option<CancelFate>>);

impl Receipt {
    /// Waits until it is known what became of the cancel. The bounds of the transport hold: the notification of an
    /// HTTP session is given up after [`HttpTarget::patience`](super::HttpTarget::patience); over streams it takes as
    /// long as the server does not read, until the connection ends.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe; the cancel goes its way whether it is waited for or not.
    pub async fn fate(&mut self) -> CancelFate {
        match self.0.wait_for(Option::is_some).await {
            Ok(fate) => fate.clone().unwrap_or(CancelFate::Needless),
            Err(_) => CancelFate::Failed("the connection has ended".to_owned()),
        }
    }

    pub(super) fn known(fate: CancelFate) -> Self {
        Self(watch::channel(Some(fate)).1)
    }

    /// Whether another cancel may help.
    pub(super) fn is_worth_repeating(&self) -> bool {
        let told = self.0.has_changed().is_ok();
        match &*self.0.borrow() {
            None => !told,
            Some(fate) => matches!(fate, CancelFate::Failed(_)),
        }
    }
}

/// Tells a [`Receipt`]. Dropped without a word, the cancel has failed.
pub(super) struct Teller(watch::Sender<Option<CancelFate>>);

impl Teller {
    pub(super) fn new() -> (Self, Receipt) {
        let (sender, receiver) = watch::channel(None);
        (Self(sender), Receipt(receiver))
    }

    pub(super) fn tell(self, fate: CancelFate) {
        self.0.send_replace(Some(fate));
    }
}

/// A cancel that is to be delivered.
pub(super) struct Order {
    pub(super) reason: Option<String>,
    pub(super) teller: Teller,
}

/// What a cancel comes to.
pub(super) enum Ordered {
    /// It is known, or on its way.
    Known(Receipt),
    /// The request had not been sent, and now never will be.
    Revoked(Receipt),
    /// It is to be delivered.
    Deliver(Receipt, Order),
}
