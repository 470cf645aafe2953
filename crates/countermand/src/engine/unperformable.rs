//! What stands in for an upstream that cannot be made from a stored definition: nothing is ever sent, and every answer says why.

use countermand_core::{
    Row,
    event::{CancelAnswer, CreateAnswer, FindAnswer, RequestAnswer, StatusAnswer, Trouble},
    ports::{BoxFuture, Created, Payload, Permit, Read, Upstream},
};

/// An upstream that nothing can be asked of: nothing is ever sent, and every answer says why.
pub struct Unperformable(String);

impl Unperformable {
    /// `why` it cannot be performed, in words without secrets.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    fn trouble(&self) -> Trouble {
        Trouble::new(self.0.clone())
    }

    fn say<T: Send + 'static>(&self, answer: impl FnOnce(Trouble) -> T) -> BoxFuture<'_, T> {
        let answer = answer(self.trouble());
        Box::pin(async move { answer })
    }
}

impl Upstream for Unperformable {
    fn admit(&self) -> BoxFuture<'_, Permit> {
        Box::pin(async { Permit(Box::new(())) })
    }

    fn create<'a>(&'a self, _row: &'a Row) -> BoxFuture<'a, Created> {
        self.say(|trouble| Created { answer: CreateAnswer::NotSent(trouble), payload: None })
    }

    fn find<'a>(&'a self, _row: &'a Row) -> BoxFuture<'a, FindAnswer> {
        self.say(FindAnswer::Failed)
    }

    fn status<'a>(&'a self, _row: &'a Row) -> BoxFuture<'a, Read> {
        self.say(|trouble| Read { answer: StatusAnswer::Failed(trouble), progress: None, payload: None })
    }

    fn cancel<'a>(&'a self, _row: &'a Row, _force: bool) -> BoxFuture<'a, CancelAnswer> {
        self.say(CancelAnswer::NotAccepted)
    }

    fn mark<'a>(&'a self, _row: &'a Row) -> BoxFuture<'a, RequestAnswer> {
        self.say(RequestAnswer::Failed)
    }

    fn undo<'a>(&'a self, _row: &'a Row) -> BoxFuture<'a, RequestAnswer> {
        self.say(RequestAnswer::Failed)
    }

    fn result<'a>(&'a self, _row: &'a Row) -> BoxFuture<'a, Result<Payload, Trouble>> {
        self.say(Err)
    }
}
