//! The performer of a program's definition.

use super::{Commands, NotStarted, run::Run, verdict};
use crate::{
    definition::{CommandDefinition, ToolDefinition, UndoDefinition},
    process::{Runner, Stop},
    template::Scope,
};
use countermand_core::{
    Row, UpstreamId,
    event::{CancelAnswer, CreateAnswer, FindAnswer, RequestAnswer, StatusAnswer, Trouble},
    ports::{BoxFuture, Created, Lines, Payload, Permit, Read, Upstream},
};
use serde_json::{Map, Value};
use std::{borrow::Cow, sync::Arc, time::Duration};

/// How long a status read waits for the end.
const WAIT: Duration = Duration::from_secs(5);

/// The same while something else may be due meanwhile: a harder cancel waits for the read.
const WAIT_FOR_STOP: Duration = Duration::from_millis(500);

/// The id of a program of which nobody knows the process.
const LOST: &str = "lost";

/// The performer of a program's definition.
#[derive(Debug)]
pub(crate) struct CommandRun {
    commands: Arc<Commands>,
    definition: ToolDefinition,
    command: CommandDefinition,
    /// The call's arguments, for a create that must not be stored whole (`writeOnly`).
    arguments: Option<Map<String, Value>>,
}

impl CommandRun {
    pub(crate) fn new(
        commands: Arc<Commands>,
        definition: ToolDefinition,
        command: CommandDefinition,
        arguments: Option<Map<String, Value>>,
    ) -> Self {
        Self { commands, definition, command, arguments }
    }

    async fn create(&self, row: &Row) -> CreateAnswer {
        let mut scope = Scope::of_row(row);
        if let Some(arguments) = &self.arguments {
            scope.args = Cow::Borrowed(arguments);
        }
        match self.commands.start(&self.command.program, &scope, row, self.command.max_bytes).await {
            Ok(run) => {
                let id = run.control.leader().map(|leader| UpstreamId(leader.to_string()));
                let saved = place(run.control.cgroup());
                self.commands.keep(row.id, run);
                CreateAnswer::Created { id, saved }
            }
            Err(NotStarted::ForNow(trouble)) => CreateAnswer::NotSent(trouble),
            Err(NotStarted::Refused(trouble)) => CreateAnswer::Refused(trouble),
        }
    }

    async fn find(&self, row: &Row) -> FindAnswer {
        if let Some(run) = self.commands.known(row.id) {
            let id = run.control.leader().map(|leader| UpstreamId(leader.to_string()));
            return FindAnswer::Hit { id, saved: place(run.control.cgroup()) };
        }
        let runner = match self.commands.runner() {
            Ok(runner) => runner,
            Err(trouble) => return FindAnswer::Failed(trouble),
        };
        match runner.find(&row.id.to_string()).await {
            // It was about to be started, and whoever did it has died. That nothing lives does not prove that nothing ran: it
            // would have been killed with its parent. So it counts as started, and is ended and undone as such.
            Ok(found) => {
                let id = found.map_or_else(|| LOST.to_owned(), |found| found.oldest.to_string());
                FindAnswer::Hit { id: Some(UpstreamId(id)), saved: place(None) }
            }
            Err(error) => FindAnswer::Failed(Trouble::new(format!(
                "failed to look for its processes in /proc: {error}"
            ))),
        }
    }

    /// The program; where this process has not started it, what is left of it, which is told to stop.
    fn run(&self, row: &Row, stop: Stop) -> Result<Arc<Run>, Trouble> {
        if let Some(run) = self.commands.known(row.id) {
            return Ok(run);
        }
        let run = Arc::new(Run::left(self.commands.adopt(row, stop)?));
        self.commands.keep(row.id, run.clone());
        Ok(run)
    }

    async fn status(&self, row: &Row) -> Read {
        let run = match self.run(row, self.command.stop) {
            Ok(run) => run,
            Err(trouble) => {
                return Read { answer: StatusAnswer::Failed(trouble), progress: None, payload: None };
            }
        };
        let wait = if row.cancel_wanted() { WAIT_FOR_STOP } else { WAIT };
        match tokio::time::timeout(wait, run.ended()).await {
            // Nothing is awaited from here on: what is taken out of the program's output arrives.
            Ok(exit) => verdict::ended(&self.command, row, &run, exit),
            Err(_) => Read {
                answer: StatusAnswer::Running {
                    state: "alive".into(),
                    listed: true,
                    retry_after: None,
                    saved: Map::new(),
                },
                progress: None,
                payload: None,
            },
        }
    }

    fn cancel(&self, row: &Row, force: bool) -> CancelAnswer {
        let stop = if force { Stop::NOW } else { self.command.stop };
        match self.run(row, stop) {
            Ok(run) => {
                run.control.stop(stop);
                let signal = stop.signal.name();
                CancelAnswer::Accepted { how: format!("SIG{signal} is sent") }
            }
            Err(trouble) => CancelAnswer::NotAccepted(trouble),
        }
    }

    async fn undo(&self, row: &Row) -> RequestAnswer {
        match usize::try_from(row.undo_next).ok().and_then(|next| self.definition.compensate.get(next)) {
            Some(UndoDefinition::Program(program)) => {
                self.commands.undo(program, &Scope::of_row(row), row).await
            }
            Some(UndoDefinition::Request(_)) => {
                RequestAnswer::Refused(Trouble::new("a command has no upstream to send its undo request to"))
            }
            None => {
                RequestAnswer::Refused(Trouble::new(format!("the tool has no undo {}", row.undo_next + 1)))
            }
        }
    }

    async fn lines(&self, row: &Row, after: u64) -> Lines {
        match self.commands.known(row.id) {
            Some(run) => {
                let (last, lines) = run.capture.lines_after(after).await;
                Lines { last, lines }
            }
            None => std::future::pending().await,
        }
    }
}

/// Where its processes are.
fn place(cgroup: Option<String>) -> Map<String, Value> {
    let mut saved = Map::new();
    saved.insert("world".into(), Value::String(Runner::world()));
    saved.extend(cgroup.map(|cgroup| ("cgroup".to_owned(), Value::String(cgroup))));
    saved
}

impl Upstream for CommandRun {
    fn admit(&self) -> BoxFuture<'_, Permit> {
        Box::pin(std::future::ready(Permit(Box::new(()))))
    }

    fn is_local(&self) -> bool {
        true
    }

    fn create<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, Created> {
        Box::pin(async move { Created { answer: self.create(row).await, payload: None } })
    }

    fn find<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, FindAnswer> {
        Box::pin(self.find(row))
    }

    fn status<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, Read> {
        Box::pin(self.status(row))
    }

    fn cancel<'a>(&'a self, row: &'a Row, force: bool) -> BoxFuture<'a, CancelAnswer> {
        Box::pin(async move { self.cancel(row, force) })
    }

    fn mark<'a>(&'a self, _: &'a Row) -> BoxFuture<'a, RequestAnswer> {
        let trouble = Trouble::new("a command can be stopped, and has no mark");
        Box::pin(std::future::ready(RequestAnswer::Refused(trouble)))
    }

    fn undo<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, RequestAnswer> {
        Box::pin(self.undo(row))
    }

    fn result<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, Result<Payload, Trouble>> {
        Box::pin(async move { Err(verdict::no_result(row)) })
    }

    fn lines<'a>(&'a self, row: &'a Row, after: u64) -> BoxFuture<'a, Lines> {
        Box::pin(self.lines(row, after))
    }
}
