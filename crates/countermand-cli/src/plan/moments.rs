//! What a cancel does, by the moment at which it comes.

use super::{Moment, command, show};
use crate::config::{SESSION_GRACE, Tool};
use countermand::{
    core::{Lookup, OnDisconnect, WhenCompleted},
    definition::{
        CancelDefinition, Effect, FindDefinition, HttpDefinition, JobDefinition, UndoDefinition, Work,
    },
    template::RequestTemplate,
};

/// Collects what happens at a moment.
pub(super) struct At(Moment);

impl At {
    pub(super) fn new(moment: &'static str, when: &'static str) -> Self {
        Self(Moment { moment, when, what: Vec::new(), sends: Vec::new() })
    }

    pub(super) fn say(mut self, sentence: impl Into<String>) -> Self {
        self.0.what.push(sentence.into());
        self
    }

    /// Says what happens with a request; `{}` stands for it.
    fn send(mut self, sentence: &str, request: &RequestTemplate) -> Self {
        let line = show::line(request);
        self.0.what.push(sentence.replace("{}", &line));
        self.0.sends.push(line);
        self
    }

    /// Notes a request that a sentence has told already.
    fn sends(mut self, request: &RequestTemplate) -> Self {
        self.0.sends.push(show::line(request));
        self
    }

    pub(super) fn each(self, steps: &[UndoDefinition]) -> Self {
        steps.iter().fold(self, |mut at, step| {
            let line = show::undo(step);
            at.0.what.push(format!("Undo: {line}"));
            at.0.sends.push(line);
            at
        })
    }
}

/// Every moment of a tool, in the order of its life.
pub(super) fn of(tool: &Tool) -> Vec<Moment> {
    let mut moments = match &tool.definition.work {
        Work::Job(job) => of_job(tool, job),
        Work::Http(http) if http.effect == Effect::Once => of_write(tool, http),
        Work::Http(http) => of_read(http),
        Work::Command(command) => command::of_command(tool, command),
    };
    moments.extend(vanished(tool));
    moments.extend(match &tool.definition.work {
        Work::Command(_) => command::our_end(tool),
        Work::Job(_) | Work::Http(_) => our_end(tool),
    });
    moments.into_iter().map(|At(moment)| moment).collect()
}

fn of_read(http: &HttpDefinition) -> Vec<At> {
    vec![
        At::new("before_create", "before anything is sent").say("Nothing is sent."),
        At::new("create_in_flight", "in flight")
            .send("The connection of {} is closed at once, which the upstream sees.", &http.request)
            .say("Nothing is owed: it changes nothing upstream."),
        At::new("done", "answered, not delivered").say("The answer is dropped."),
    ]
}

fn of_write(tool: &Tool, http: &HttpDefinition) -> Vec<At> {
    let shield = show::time(tool.definition.policy.shield);
    let in_flight = At::new("create_in_flight", "in flight").send(
        &format!(
            "{{}} may go on for {shield}: to abort it would not undo it, only hide whether it happened."
        ),
        &http.request,
    );
    vec![
        before(),
        after_completed(tool, in_flight, "Once it has completed, "),
        lost(tool, http.find.as_ref(), &http.request),
        after_completed(
            tool,
            At::new("done", "completed, not delivered"),
            "The cancel wins: no answer is sent, and ",
        ),
    ]
}

fn of_job(tool: &Tool, job: &JobDefinition) -> Vec<At> {
    let shield = show::time(tool.definition.policy.shield);
    let in_flight = At::new("create_in_flight", "create in flight")
        .send(&format!("{{}} may go on for {shield}, so that its id is learnt."), &job.create.request);
    let running = At::new("running", "running");
    let mut moments = vec![
        before(),
        then_stop(tool, job, in_flight),
        lost(tool, job.find.as_ref(), &job.create.request),
        stop(tool, job, running),
    ];
    if let CancelDefinition::Request { request, force } = &job.cancel {
        moments.push(cancel_fails(request));
        moments.push(not_confirmed(tool, job, request, force.as_ref()));
    }
    let done = At::new("done", "done, not delivered");
    moments.push(after_completed(tool, done, "The cancel wins: no result is sent, and "));
    moments
}

pub(super) fn before() -> At {
    At::new("before_create", "before anything is sent").say("Nothing is sent: it never existed upstream.")
}

/// Stops a job whose id is known, or says that it cannot be stopped.
fn stop(tool: &Tool, job: &JobDefinition, at: At) -> At {
    let undo = &tool.definition.compensate;
    match &job.cancel {
        CancelDefinition::Request { request, .. } => {
            let within = show::time(tool.definition.policy.confirm_within);
            let twice =
                if job.status.states.cancelled.is_empty() { "" } else { "; `cancelled` is read twice" };
            at.send("{} is sent: its answer is a receipt, no outcome.", request)
                .send(
                    &format!("{{}} must say within {within} that it has ended{twice}."),
                    &job.status.request,
                )
                .each(undo)
        }
        CancelDefinition::Unsupported(_) => {
            let at = match &tool.definition.mark {
                Some(mark) => at.send("It cannot be stopped: {} marks it.", mark),
                None => at.say("It cannot be stopped, and runs on."),
            };
            let lifetime = show::time(tool.definition.policy.lifetime);
            let at = at.send(
                &format!("{{}} is read until it ends; {lifetime} after its start it becomes an orphan."),
                &job.status.request,
            );
            match (undo.as_slice(), tool.definition.policy.when_completed) {
                ([], _) => at,
                (undo, WhenCompleted::Compensate) => at.say("Once it has ended it is undone.").each(undo),
                (undo, WhenCompleted::Keep) => {
                    at.say("If it fails it is undone; if it completes its effects stay.").each(undo)
                }
            }
        }
    }
}

/// What follows once the create has told the id: the same as while it runs.
fn then_stop(tool: &Tool, job: &JobDefinition, at: At) -> At {
    let steps = stop(tool, job, At::new("", "")).0;
    let next = match (&job.cancel, &tool.definition.mark) {
        (CancelDefinition::Request { request, .. }, _) => {
            format!("Then {}, as when running.", show::line(request))
        }
        (CancelDefinition::Unsupported(_), Some(mark)) => {
            format!("Then {} marks it, as when running.", show::line(mark))
        }
        (CancelDefinition::Unsupported(_), None) => "Then it runs on, as when running.".to_owned(),
    };
    let mut at = at.say(next);
    at.0.sends.extend(steps.sends);
    at
}

/// The answer of the create was lost: what finds out whether there is anything to stop.
fn lost(tool: &Tool, find: Option<&FindDefinition>, create: &RequestTemplate) -> At {
    let (found, on) = match &tool.definition.work {
        Work::Job(_) | Work::Command(_) => ("it runs", "when running"),
        Work::Http(_) => ("it has completed", "in flight"),
    };
    let policy = &tool.definition.policy;
    let at = At::new("create_answer_lost", "create's answer lost");
    let horizon = show::time(policy.horizon);
    match (find, policy.key_window) {
        (Some(find), _) => {
            let misses = match policy.find {
                Some(Lookup::Eventual) => "Twice not found",
                _ => "Not found",
            };
            at.send(&format!("{{}} tells whether {found}; if so, on as {on}."), &find.request).say(format!(
                "{misses} at least {horizon} after the create's connection ended: it counts as never created."
            ))
        }
        (None, Some(window)) => {
            let window = show::time(window);
            at.send(
                &format!("{{}} is sent again with the same key, within {window} of the first time."),
                create,
            )
            .say(format!("If {found} then, on as {on}; without an answer it becomes an orphan."))
        }
        (None, None) => {
            at.say("Nobody can tell whether it was created: it is an orphan at once, for an operator.")
        }
    }
}

fn cancel_fails(cancel: &RequestTemplate) -> At {
    At::new("cancel_fails", "cancel fails")
        .send("429, 5xx, timeout: {} is sent again, after 200ms, then every 2s, after a minute every 60s; each time the status is read.", cancel)
        .say("While the upstream is left alone because it fails (`breaker`), each is delayed by at most 2s, and sent all the same.")
        .say("404, 409, 410: the status decides.")
        .say("401, 403: an orphan at once, with an alarm; retried once a minute.")
}

fn not_confirmed(
    tool: &Tool,
    job: &JobDefinition,
    cancel: &RequestTemplate,
    force: Option<&RequestTemplate>,
) -> At {
    let policy = &tool.definition.policy;
    let both = format!(
        "{} is read, and {} sent, again and again.",
        show::line(&job.status.request),
        show::line(cancel)
    );
    let at = At::new("not_confirmed", "accepted, still running")
        .say(both)
        .sends(&job.status.request)
        .sends(cancel);
    let at = match force.zip(policy.force_after) {
        Some((force, after)) => {
            at.send(&format!("From {} on {{}} is sent instead.", show::time(after)), force)
        }
        None => at,
    };
    let told = if tool.on_orphan.is_some() { ", somebody is told (`on_orphan`)" } else { "" };
    at.say(format!(
        "After {} it is an orphan: an alarm{told}, and retries for 24h; then it waits for an operator.",
        show::time(policy.confirm_within)
    ))
}

/// What becomes of work that completed although its cancel was wanted.
pub(super) fn after_completed(tool: &Tool, at: At, so: &str) -> At {
    let undo = &tool.definition.compensate;
    if tool.definition.policy.when_completed == WhenCompleted::Compensate && !undo.is_empty() {
        at.say(format!("{so}it is undone.")).each(undo)
    } else {
        at.say(format!("{so}its effects stay: `finished before the cancel`."))
    }
}

fn vanished(tool: &Tool) -> Vec<At> {
    let doors = [
        ("client_vanishes_stdio", "stdio client gone", OnDisconnect::Cancel),
        ("client_vanishes_http_2026", "HTTP client gone (2026)", OnDisconnect::Cancel),
        ("client_vanishes_http_2025", "HTTP client gone (2025)", OnDisconnect::Grace(SESSION_GRACE)),
    ];
    let durable = !matches!(&tool.definition.work, Work::Http(http) if http.effect == Effect::None);
    doors
        .into_iter()
        .map(|(moment, when, default)| {
            let at = At::new(moment, when);
            match tool.on_disconnect.unwrap_or(default) {
                OnDisconnect::Cancel => at.say("A cancel at once, as above."),
                OnDisconnect::Grace(grace) => {
                    at.say(format!("It has {} to come back; then a cancel, as above.", show::time(grace)))
                }
                OnDisconnect::Detach if durable => {
                    at.say("The call ends; the operation goes on upstream, bounded by its lifetime.")
                }
                OnDisconnect::Detach => at.say("The call ends, and with it its request."),
            }
        })
        .collect()
}

fn our_end(tool: &Tool) -> Vec<At> {
    let killed = At::new("gateway_killed", "gateway killed");
    let down = At::new("gateway_shuts_down", "gateway shuts down");
    if matches!(&tool.definition.work, Work::Http(http) if http.effect == Effect::None) {
        return vec![
            killed.say("Its connections die with it; nothing was started that could run on."),
            down.say("Its request is aborted, and the client told."),
        ];
    }
    let killed = killed.say("The ledger knows it: it was written before anything was sent.");
    if tool.on_disconnect == Some(OnDisconnect::Detach) {
        let on = "The next start goes on with it, until it ends.";
        return vec![killed.say(on), down.say("It goes on upstream.").say(on)];
    }
    let killed = match tool.on_disconnect {
        Some(OnDisconnect::Grace(grace)) => killed.say(format!(
            "The next start asks what became of it, and cancels it {} later, as above.",
            show::time(grace)
        )),
        Some(_) => killed.say("The next start asks what became of it, and cancels it, as above."),
        None => killed.say(format!(
            "The next start asks what became of it, and cancels it, as above: at once, or {} later where it was called over HTTP in a session (2025).",
            show::time(SESSION_GRACE)
        )),
    };
    let down = down.say("A cancel at once, as above; the client is told.").say(
        "What is not confirmed within `serve --grace` stays in the ledger: the next start goes on with it.",
    );
    vec![killed, down]
}
