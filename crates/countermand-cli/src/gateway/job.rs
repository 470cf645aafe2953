//! One call of a tool that has an operation: starts it, watches it, answers.

use super::{Gateway, ServedTool, written::Written};
use crate::{answer, config::OnReissue};
use countermand::{
    core::{
        CallId, Cause, NewRow, OnDisconnect, OperationId, Phase, Principal, Row,
        ports::{Clock as _, Lines, Upstream},
    },
    engine::{Operation, View},
    template::inputs_of,
};
use countermand_mcp::{Answer, Call, Delivery, Level, Move};
use serde_json::{Map, Value, json, value::RawValue};
use std::sync::Arc;
use tokio::time::Instant;

/// What woke the call.
enum Woke {
    Ended(Cause, Option<String>),
    Moved(Move),
    Changed(Option<View>),
    Wrote(Lines),
    TimedOut,
}

/// Serves one call. The operation is durable before anything is sent, and goes on under the
/// engine's care whatever becomes of this future.
pub(super) async fn serve(
    gateway: &Gateway,
    tool: &Arc<ServedTool>,
    call: Call,
    arguments: Map<String, Value>,
) -> Answer {
    let timeout = Instant::now() + tool.config.timeout;
    let row = new_row(gateway, tool, &call, &arguments);
    let upstream = match with_secrets(gateway, tool, arguments) {
        Ok(upstream) => upstream,
        Err(error) => return Answer::result(answer::error(&capitalised(&error), None)),
    };
    // A client that has left already starts nothing.
    if call.handle.cause().is_some_and(|(cause, _)| cause.is_the_clients()) {
        return silence();
    }
    let started = match tool.config.on_reissue {
        OnReissue::New => gateway.engine.start(row, &tool.stored, upstream).await,
        OnReissue::Attach => gateway.engine.start_or_attach(row, &tool.stored, upstream).await,
    };
    let operation = match started {
        Ok(operation) => operation,
        Err(error) => {
            tracing::error!(tool = tool.config.name, "{error}");
            return Answer::result(answer::error(&capitalised(&error.to_string()), None));
        }
    };
    // An operation that cannot be stopped may be joined although its cancel is wanted.
    let known = if operation.joined() { operation.view().row.cause } else { None };
    let asked = call.progress.is_some() || call.log.is_some();
    let written = Written::of(asked.then(|| operation.output()));
    let served =
        Served { tool, call, operation, known, progress: 0.0, told_id: false, told_error: None, written };
    served.watch(timeout).await
}

fn new_row(gateway: &Gateway, tool: &ServedTool, call: &Call, arguments: &Map<String, Value>) -> Row {
    let now = gateway.clock.now();
    let (owner, epoch) = gateway.engine.identity();
    let new = NewRow {
        id: OperationId(uuid::Uuid::now_v7()),
        call: CallId(call.handle.id()),
        session: call.client.session.clone(),
        request_id: Some(call.request_id.get().to_owned()),
        principal: Principal(call.client.principal.clone()),
        tool: tool.config.name.clone(),
        args_hash: countermand::core::row::hash_json(&Value::Object(arguments.clone())),
        inputs: inputs_of(&tool.config.definition, &tool.kept(arguments)),
        definition: tool.stored.hash.clone(),
        policy: tool.stored.policy.clone(),
        upstream: tool.config.definition.upstream.name().to_owned(),
        key: now.dice.key(),
        on_disconnect: tool.on_disconnect(call),
        owner,
        epoch,
    };
    Row::new(new, now.at)
}

/// An answer that changes nothing for the operation.
fn said(text: &str, row: &Row) -> Answer {
    Answer::result(answer::error(text, Some(row)))
}

/// The call's own performer, where its create needs arguments that are never kept.
fn with_secrets(
    gateway: &Gateway,
    tool: &ServedTool,
    arguments: Map<String, Value>,
) -> Result<Option<Arc<dyn Upstream>>, String> {
    if !tool.config.accepted.write_only {
        return Ok(None);
    }
    gateway
        .upstreams
        .for_call(&tool.config.definition, arguments)
        .map(Some)
        .map_err(|error| error.to_string())
}

/// Nobody reads it: the registry sends nothing for a call that its client has ended.
fn silence() -> Answer {
    Answer::result(answer::error("The call was ended by its client.", None))
}

struct Served<'a> {
    tool: &'a ServedTool,
    call: Call,
    operation: Operation,
    /// What had ended it for others before this call joined.
    known: Option<Cause>,
    progress: f64,
    told_id: bool,
    told_error: Option<String>,
    written: Written,
}

impl Served<'_> {
    async fn watch(mut self, timeout: Instant) -> Answer {
        let mut view = self.operation.view();
        loop {
            self.report(&view);
            if let Some(answer) = self.ended_elsewhere(&view) {
                return answer;
            }
            // The answer waits for a client that may come back: until it does, its leaving can still be a cancel.
            if view.is_over() && !awaits_client(&view) {
                return self.finish(view, timeout).await;
            }
            let woke = tokio::select! {
                biased;
                (cause, reason) = self.call.handle.cancelled() => Woke::Ended(cause, reason),
                moved = self.call.presence.moved() => Woke::Moved(moved),
                changed = self.operation.changed() => Woke::Changed(changed),
                lines = self.written.next() => Woke::Wrote(lines),
                () = tokio::time::sleep_until(timeout) => Woke::TimedOut,
            };
            match woke {
                Woke::Ended(cause, reason) => return self.end(cause, reason).await,
                Woke::Moved(Move::Left) => self.operation.client_away(Cause::ClientDisconnected),
                Woke::Moved(Move::Returned) => self.operation.client_returned(),
                Woke::TimedOut => {
                    // Should the client be faster, its cause stands, and the next turn sees it.
                    self.call.handle.cancel(Cause::Deadline, None);
                }
                Woke::Changed(Some(newer)) => view = newer,
                Woke::Wrote(lines) => self.show(lines),
                Woke::Changed(None) => return self.lost(&view),
            }
        }
    }

    /// The operation was cancelled by something that is not this call's word: its lifetime, an operator, or a client
    /// that stayed away for too long.
    fn ended_elsewhere(&self, view: &View) -> Option<Answer> {
        let cause = view.row.cause.filter(|cause| self.known != Some(*cause))?;
        self.call.handle.cancel(cause, None);
        if cause.is_the_clients() {
            return Some(silence());
        }
        let text = answer::ended_by(cause, Some(&view.row), self.tool.config.timeout);
        Some(said(&text, &view.row))
    }

    /// The call was ended: the operation learns why, and who ended it decides whether anybody is told.
    async fn end(mut self, cause: Cause, reason: Option<String>) -> Answer {
        let detached = self.operation.view().row.on_disconnect == OnDisconnect::Detach;
        match cause {
            Cause::ClientDisconnected | Cause::SessionEnded => self.operation.client_left(cause),
            Cause::Shutdown if detached => self.operation.client_left(Cause::ClientDisconnected),
            cause => self.operation.cancel(cause, reason),
        }
        if cause.is_the_clients() {
            return silence();
        }
        // Told once the wish is durable, so that what is said has happened.
        let wanted = self.operation.heard().await;
        let view = self.operation.view();
        let mut text = answer::ended_by(cause, Some(&view.row), self.tool.config.timeout);
        if wanted == Some(false) && !detached {
            text.push_str(" Other calls wait for it, so it was not cancelled.");
        }
        said(&text, &view.row)
    }

    /// It has come to its end. A result may have to be read first; a cancel still wins.
    async fn finish(mut self, view: View, timeout: Instant) -> Answer {
        if let Some(lines) = self.written.rest() {
            self.show(lines);
        }
        let delivers = view.has_completed() && matches!(view.row.phase, Phase::Ended | Phase::Completed);
        if !delivers {
            let text = answer::without_result(&view);
            return self.deliver(answer::error(&text, Some(&view.row)));
        }
        let result = tokio::select! {
            biased;
            (cause, reason) = self.call.handle.cancelled() => Err((cause, reason)),
            () = tokio::time::sleep_until(timeout) => {
                self.call.handle.cancel(Cause::Deadline, None);
                Err(self.call.handle.cause().unwrap_or((Cause::Deadline, None)))
            }
            result = self.operation.result() => Ok(result),
        };
        match result {
            Err((cause, reason)) => self.end(cause, reason).await,
            Ok(Ok(payload)) => {
                let uri = format!("countermand://operations/{}/result", view.row.id);
                let result = self.tool.result(&payload, &uri, Some(&view.row));
                self.deliver(result)
            }
            Ok(Err(trouble)) => {
                let text = format!(
                    "It finished upstream, but its result could not be read: {}. This was {}.",
                    trouble.message,
                    answer::named(&view.row)
                );
                self.deliver(answer::error(&text, Some(&view.row)))
            }
        }
    }

    /// Nobody drives it any more: somebody else does, or the engine is going down.
    fn lost(&self, view: &View) -> Answer {
        let text = format!(
            "The gateway does not follow it any more; the ledger keeps it. {} This is {}.",
            answer::sentence(&view.row),
            answer::named(&view.row)
        );
        said(&text, &view.row)
    }

    /// The answer that the operation owes: it learns whether it was sent.
    fn deliver(self, result: Box<RawValue>) -> Answer {
        let (answer, fate) = Answer::result(result).delivery();
        let handle = self.call.handle.clone();
        self.operation.deliver_when(async move {
            match fate.await {
                Ok(Delivery::Sent) => Ok(()),
                Ok(Delivery::Suppressed(cause)) => {
                    Err((cause, handle.cause().and_then(|(_, reason)| reason)))
                }
                Err(_) => Err((Cause::ClientDisconnected, None)),
            }
        });
        answer
    }

    /// Shows what it has written to a client that asked for it. Lines are counted: one that is missing was one too many.
    fn show(&mut self, lines: Lines) {
        let shown = self.written.shown(lines);
        for (number, line) in shown {
            if let Some(progress) = &self.call.progress {
                self.progress = number;
                progress.send(number, None, Some(&line));
            }
            if let Some(log) = &self.call.log {
                let id = self.operation.id().to_string();
                log.send(Level::Info, "countermand", &json!({ "message": line, "operation": { "id": id } }));
            }
        }
    }

    /// Tells a client that asked for it how far it is: the upstream's id first.
    fn report(&mut self, view: &View) {
        let row = &view.row;
        let started = row.upstream_id.is_some() && !self.told_id;
        self.told_id |= started;
        if let Some(progress) = &self.call.progress {
            if started {
                progress.send(0.0, None, Some(&format!("started {}", answer::named(row))));
            }
            if let Some(value) = view.progress.filter(|value| *value > self.progress) {
                self.progress = value;
                progress.send(value, None, None);
            }
        }
        let trouble = row.last_error.is_some() && row.last_error != self.told_error;
        if let Some(log) = &self.call.log
            && (started || trouble)
        {
            let what = if trouble { "trouble upstream" } else { "started upstream" };
            let data =
                json!({ "message": what, "operation": answer::operation(row), "error": row.last_error });
            log.send(if trouble { Level::Warning } else { Level::Info }, "countermand", &data);
        }
        self.told_error.clone_from(&row.last_error);
    }
}

/// Whether its grace runs: the client is away, and may still come back for the answer.
fn awaits_client(view: &View) -> bool {
    view.row.disconnect_at.is_some() && !view.row.phase.is_settled()
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
