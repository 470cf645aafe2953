//! While the upstream works: `running`, and `draining` where it cannot be stopped.

use super::{Illegal, Legal, Life, client_left};
use crate::{
    event::{Alarm, Event, RequestAnswer, StatusAnswer, Trouble},
    phase::Outcome,
    row::Turn,
    schedule::{self, MARK_ATTEMPTS, MISSING_FOR, UNAUTHORISED_PAUSE},
};

pub(super) fn running(life: &mut Life, event: Event) -> Legal {
    match event {
        Event::StatusAnswered(answer) => {
            status(life, answer);
            Ok(())
        }
        Event::CancelWanted { cause, reason, .. } => {
            life.want_cancel(cause, reason);
            life.owe_cancel();
            Ok(())
        }
        Event::ClientLeft { cause } => {
            client_left(life, cause, Life::owe_cancel);
            Ok(())
        }
        Event::ClientReturned => life.client_returned(),
        _ => Err(Illegal),
    }
}

fn status(life: &mut Life, answer: StatusAnswer) {
    let late = life.row.phase == crate::phase::Phase::Orphaned;
    match answer {
        StatusAnswer::Ended { end, error, saved } => {
            life.save(saved);
            life.end(end.outcome(), error);
        }
        StatusAnswer::Running { .. } if late => {
            // It is back: whoever waited has been told that it was lost, so its lifetime bounds it.
            life.enter(crate::phase::Phase::Running);
            poll_again(life, None);
        }
        StatusAnswer::Running { state, listed, retry_after, saved } => {
            still_there(life, &state, listed, saved);
            poll_again(life, retry_after);
        }
        StatusAnswer::Missing => {
            if missing_for_long(life) && !late {
                life.trouble("the upstream has not known the id for 10 s".into());
                poll_again(life, None);
                return life.orphan();
            }
            poll_again(life, None);
        }
        StatusAnswer::Failed(trouble) => failed_read(life, trouble),
    }
}

pub(super) fn draining(life: &mut Life, event: Event) -> Legal {
    match event {
        Event::StatusAnswered(answer) => {
            match answer {
                StatusAnswer::Ended { end, error, saved } => {
                    life.save(saved);
                    life.end(end.outcome(), error);
                }
                StatusAnswer::Running { state, listed, retry_after, saved } => {
                    still_there(life, &state, listed, saved);
                    poll_again(life, retry_after);
                }
                StatusAnswer::Missing if missing_for_long(life) => life.end(Outcome::Gone, None),
                StatusAnswer::Missing => poll_again(life, None),
                StatusAnswer::Failed(trouble) => failed_read(life, trouble),
            }
            Ok(())
        }
        Event::MarkAnswered(answer) if life.row.turn == Some(Turn::Mark) => {
            marked(life, answer);
            Ok(())
        }
        Event::CancelWanted { .. } | Event::ClientLeft { .. } | Event::ClientReturned => again(life),
        _ => Err(Illegal),
    }
}

/// A further wish for what is already wanted is history.
pub(super) fn again(life: &mut Life) -> Legal {
    life.persist = true;
    Ok(())
}

fn marked(life: &mut Life, answer: RequestAnswer) {
    life.persist = true;
    match answer {
        RequestAnswer::Failed(trouble) if life.row.attempts + 1 < MARK_ATTEMPTS => {
            let pause = life.tried(trouble.retry_after);
            life.trouble(trouble.message);
            return life.turn(Turn::Mark, life.at() + pause);
        }
        RequestAnswer::Refused(trouble) | RequestAnswer::Failed(trouble) => {
            life.trouble(format!("the mark was not set: {}", trouble.message));
        }
        RequestAnswer::Done => {}
    }
    life.row.attempts = 0;
    life.turn(Turn::Status, life.at());
}

/// Notes what a read said of something that has not ended.
pub(super) fn still_there(
    life: &mut Life,
    state: &str,
    listed: bool,
    saved: serde_json::Map<String, serde_json::Value>,
) {
    if life.row.missing_since.take().is_some() {
        life.persist = true;
    }
    life.save(saved);
    if !listed {
        life.trouble(format!("the upstream says `{state}`, which is none of the configured states"));
    }
}

/// Notes that the id is not known; true once that has lasted long enough to count.
pub(super) fn missing_for_long(life: &mut Life) -> bool {
    let at = life.at();
    if life.row.missing_since.is_none() {
        life.persist = true;
    }
    at.since(*life.row.missing_since.get_or_insert(at)) >= MISSING_FOR
}

fn poll_again(life: &mut Life, retry_after: Option<std::time::Duration>) {
    let pause = schedule::poll(&life.row, retry_after, life.now);
    life.turn(Turn::Status, life.at() + pause);
}

fn failed_read(life: &mut Life, trouble: Trouble) {
    let mut pause = schedule::poll(&life.row, trouble.retry_after, life.now);
    if trouble.unauthorised {
        pause = pause.max(UNAUTHORISED_PAUSE);
        if life.row.last_error.as_ref() != Some(&trouble.message) {
            life.alarm(Alarm::Unauthorised);
        }
    }
    life.trouble(trouble.message);
    life.turn(Turn::Status, life.at() + pause);
}
