//! What one server has in hand.

use super::{
    event::{EventKind, How},
    letter,
    process::Options,
    report::Report,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, io};
use tokio::time::Instant;

/// A call that a tool works on.
pub(super) struct Work {
    /// The id as it was written.
    pub(super) id: String,
    pub(super) tag: String,
    pub(super) on_cancel: OnCancel,
    /// When it is finished; else when it is released.
    pub(super) until: Option<Instant>,
}

/// What a cancel does to the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnCancel {
    /// Nothing: it is finished in its time, and answers then.
    Ignore,
    /// It stops, and answers nothing.
    Obey,
    /// It answers at once, as if it had finished.
    Answer,
    /// It answers at once that it was cancelled, as some do, and runs on.
    Pretend,
}

pub(super) struct State {
    pub(super) options: Options,
    pub(super) report: Report,
    pub(super) works: Vec<Work>,
    /// What the client was asked, by the ids of the questions: the ids of the calls.
    pub(super) asked: BTreeMap<String, String>,
    pub(super) questions: u64,
}

impl State {
    pub(super) fn is_stateless(&self) -> bool {
        self.options.revision == "2026-07-28"
    }

    /// A whole result: 2026-07-28 wants its type said.
    pub(super) fn answer(&self, id: &str, mut result: Value) -> io::Result<()> {
        if self.is_stateless() && result["resultType"].is_null() {
            result["resultType"] = "complete".into();
        }
        letter::say(&letter::result(id, &result.to_string()))
    }

    pub(super) fn begin(&mut self, work: Work) {
        let id = serde_json::from_str(&work.id).unwrap_or_default();
        self.report.tell(&EventKind::Working { tag: work.tag.clone(), id });
        self.works.push(work);
    }

    /// When the next work is finished.
    pub(super) fn next(&self) -> Option<Instant> {
        self.works.iter().filter_map(|work| work.until).min()
    }

    /// Finishes what has come to its time, or has this tag.
    pub(super) fn finish(&mut self, tag: Option<&str>) -> io::Result<()> {
        let now = Instant::now();
        let is_done = |work: &mut Work| match tag {
            Some(tag) => work.tag == tag,
            None => work.until.is_some_and(|until| until <= now),
        };
        let done: Vec<Work> = self.works.extract_if(.., is_done).collect();
        for work in done {
            self.worked(&work, How::Finished);
            self.done(&work)?;
        }
        Ok(())
    }

    fn done(&self, work: &Work) -> io::Result<()> {
        let text = json!({ "type": "text", "text": format!("{} is done", work.tag) });
        self.answer(&work.id, json!({ "content": [text], "structuredContent": { "tag": work.tag } }))
    }

    fn worked(&mut self, work: &Work, how: How) {
        let id = serde_json::from_str(&work.id).unwrap_or_default();
        self.report.tell(&EventKind::Worked { tag: work.tag.clone(), id, how });
    }

    /// A cancel has arrived.
    pub(super) fn cancel(&mut self, id: &str) -> io::Result<()> {
        let Some(at) = self.works.iter().position(|work| work.id == id) else { return Ok(()) };
        match self.works[at].on_cancel {
            OnCancel::Ignore => Ok(()),
            OnCancel::Obey => {
                self.asked.retain(|_, call| call != id);
                let work = self.works.remove(at);
                self.worked(&work, How::Obeyed);
                Ok(())
            }
            OnCancel::Answer => {
                let work = self.works.remove(at);
                self.worked(&work, How::Finished);
                self.done(&work)
            }
            OnCancel::Pretend => {
                letter::say(&letter::error(id, r#"{"code":-32800,"message":"Request cancelled"}"#))
            }
        }
    }
}
