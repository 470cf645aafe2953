//! What bounds a tool, what it undoes, its requests, and what cannot be promised.

use super::{Bound, Program, Request, Risk, Undo, command, show};
use crate::config::Tool;
use countermand::{
    core::WhenCompleted,
    definition::{CancelDefinition, Effect, Work},
    process::StopSignal,
    template::{BodyTemplate, InheritTemplate},
};
use std::time::Duration;

/// What bounds it, the client's bound first.
pub(super) fn bounds(tool: &Tool) -> Vec<Bound> {
    let bound = |bound, time: Duration, what: &str| Bound {
        bound,
        time: show::time(time),
        millis: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        what: what.to_owned(),
    };
    let policy = &tool.definition.policy;
    let mut bounds = vec![bound(
        "timeout",
        tool.timeout,
        "the call, as its client sees it: then a cancel, and an error at once",
    )];
    match &tool.definition.work {
        Work::Http(http) if http.effect == Effect::None => return bounds,
        Work::Http(_) => {
            bounds.push(bound(
                "lifetime",
                policy.lifetime,
                "the operation, with or without a client: then a cancel",
            ));
            bounds.push(bound("shield", policy.shield, "the request in flight after a cancel"));
        }
        Work::Job(job) => {
            let then = if policy.can_cancel { "then a cancel" } else { "then an orphan, for an operator" };
            let what = format!("the operation, with or without a client: {then}");
            bounds.push(bound("lifetime", policy.lifetime, &what));
            bounds.push(bound("shield", policy.shield, "the create in flight after a cancel"));
            if policy.can_cancel {
                bounds.push(bound(
                    "confirm_within",
                    policy.confirm_within,
                    "the cancel without a confirmation: then an orphan",
                ));
            }
            if let (CancelDefinition::Request { force: Some(_), .. }, Some(after)) =
                (&job.cancel, policy.force_after)
            {
                bounds.push(bound("force.after", after, "the gentle cancel: then the forced one"));
            }
        }
        Work::Command(command) => {
            let what = "the program, with or without a client: then a cancel";
            bounds.push(bound("lifetime", policy.lifetime, what));
            let then = if command.stop.signal == StopSignal::Term {
                "SIGKILL"
            } else {
                "SIGTERM, and 1s later SIGKILL"
            };
            let what = format!("obeying SIG{}: then {then}", command.stop.signal.name());
            bounds.push(bound("stop.grace", command.stop.grace, &what));
            let what = "the end of its last process after a cancel: then an orphan";
            bounds.push(bound("confirm_within", policy.confirm_within, what));
            return bounds;
        }
    }
    bounds.push(bound(
        "horizon",
        policy.horizon,
        "a create whose answer was lost: later it cannot arrive any more",
    ));
    if let Some(window) = policy.key_window {
        bounds.push(bound("key_window", window, "sending the create again with its key"));
    }
    bounds
}

/// What is undone.
pub(super) fn undo(tool: &Tool) -> Option<Undo> {
    let steps = &tool.definition.compensate;
    if steps.is_empty() {
        return None;
    }
    let after_completed = tool.definition.policy.when_completed == WhenCompleted::Compensate;
    let ended = match &tool.definition.work {
        Work::Job(_) => "after it was cancelled, has failed, or is gone",
        Work::Command(_) => "after it was cancelled, or has failed",
        Work::Http(_) => "never by itself",
    };
    let when = match (&tool.definition.work, after_completed) {
        (Work::Job(_) | Work::Command(_), true) => {
            format!("{ended}; also after it completed although its cancel was wanted")
        }
        (Work::Job(_) | Work::Command(_), false) => {
            format!("{ended}; what completed is kept, even if its cancel was wanted")
        }
        (Work::Http(_), true) => "after it completed although its cancel was wanted".to_owned(),
        (Work::Http(_), false) => format!("{ended}: `when_completed: keep`"),
    };
    Some(Undo { when, after_completed, sends: steps.iter().map(show::undo).collect() })
}

/// What a cancel does, in one line.
pub(super) fn summary(tool: &Tool) -> String {
    let policy = &tool.definition.policy;
    let undone = match undo(tool) {
        Some(undo) if undo.after_completed || policy.can_cancel => {
            format!(", then {}", undo.sends.join(", "))
        }
        _ => String::new(),
    };
    match &tool.definition.work {
        Work::Http(http) if http.effect == Effect::None => "a cancel closes its connection".to_owned(),
        Work::Command(command) => format!(
            "a cancel ends it and all that it has started: {}{undone}",
            command::signals(command.stop)
        ),
        Work::Http(_) => format!("a cancel waits for it, {} at most{undone}", show::time(policy.shield)),
        Work::Job(job) => match &job.cancel {
            CancelDefinition::Request { request, .. } => format!(
                "a cancel sends {} and confirms by {}{undone}",
                show::line(request),
                show::line(&job.status.request)
            ),
            CancelDefinition::Unsupported(_) => {
                let mark = tool.definition.mark.as_ref();
                let mark = mark.map_or(String::new(), |mark| format!(" sends {} and", show::line(mark)));
                format!(
                    "a cancel CANNOT stop it:{mark} watches it for {} at most{undone}",
                    show::time(policy.lifetime)
                )
                .replace(": watches", ": it watches")
            }
        },
    }
}

/// Each request as configured.
pub(super) fn requests(tool: &Tool) -> Vec<Request> {
    let requests = tool.definition.requests().into_iter();
    requests
        .map(|(purpose, request)| Request {
            purpose,
            request: show::line(request),
            headers: show::headers(request).into_iter().collect(),
            body: show::body(request),
            form: matches!(request.body, BodyTemplate::Form(_)),
        })
        .collect()
}

/// Each program as configured.
pub(super) fn programs(tool: &Tool) -> Vec<Program> {
    let programs = tool.definition.programs().into_iter();
    programs
        .map(|(purpose, program)| Program {
            purpose,
            run: program.run.iter().map(|template| template.source().to_owned()).collect(),
            cwd: program.cwd.clone(),
            env: show::variables(program).into_iter().collect(),
            inherit_env: match &program.inherit {
                InheritTemplate::All => None,
                InheritTemplate::Only(names) => Some(names.clone()),
            },
            stdin: show::stdin(program),
        })
        .collect()
}

/// What cannot be promised, the worst first.
pub(super) fn risks(tool: &Tool) -> Vec<Risk> {
    let mut risks = Vec::new();
    let mut risk = |risk, what: String| risks.push(Risk { risk, what });
    let policy = &tool.definition.policy;
    let undone = !tool.definition.compensate.is_empty();
    match &tool.definition.work {
        Work::Http(http) if http.effect == Effect::None => {
            risk(
                "abort_only",
                "Whether the upstream stops working when its connection is closed is up to the upstream."
                    .into(),
            );
            return risks;
        }
        Work::Command(_) => {
            let why = "Without a control group (version 2, writable) a process escapes that leaves its session and group, clears its environment, and whose parents have exited before the stop.";
            risk("escapes", why.into());
            let why = "It does not outlive the gateway: what it did until then stays unfinished.";
            risk("ends_with_us", why.into());
        }
        Work::Http(_) => {
            risk("sent_is_sent", "Once it is sent it cannot be stopped, only waited for.".into())
        }
        Work::Job(job) => {
            if let CancelDefinition::Unsupported(why) = &job.cancel {
                risk(
                    "cannot_be_stopped",
                    format!("It cannot be stopped upstream: {}.", why.trim_end_matches('.')),
                );
            }
        }
    }
    if tool.accepted.lost_id {
        let why = "A create whose answer is lost is never found again (`lost_id: accept`): it may run on unseen, and an operator is told.";
        risk("lost_id", why.into());
    }
    if policy.find.is_none() && policy.key_window.is_some() {
        let why = "A lost create is found only by sending it again, which creates it where it was not; after the key's window it is an orphan.";
        risk("replay_creates", why.into());
    }
    if tool.accepted.assumed_window {
        let why = "The key's window is assumed (5m): if it is shorter, sending the create again may start a second one. Say `key_window`.";
        risk("assumed_window", why.into());
    }
    if tool.accepted.write_only && !matches!(tool.definition.work, Work::Command(_)) {
        let why = "A lost create is never sent again: its writeOnly arguments are not kept.";
        risk("never_replayed", why.into());
    }
    if undone {
        let why =
            "An undo that is refused, or fails for 24h, is left to an operator (`compensation_failed`).";
        risk("undo_may_fail", why.into());
    } else {
        risk("effects_stay", "What it has done by then stays done: there is no `compensate`.".into());
    }
    risks
}
