//! Performs programs: as tools, and as what undoes the work of others.
//!
//! The program is the operation. Its id is its identity; its status, whether anything of it lives; its cancel, the way to stop it;
//! its look-up, a search for its name. What an earlier process of ours has left is ended as soon as anybody asks for it: its
//! pipes are gone, and nobody will learn how it exits.

mod capture;
mod performer;
mod run;
mod undo;
mod verdict;

pub(crate) use performer::CommandRun;

use crate::{
    process::{Containment, Control, Identity, Inherit, Process, Runner, Spawn, Stdin, Stop},
    secret::{Secret, Secrets},
    template::{InheritTemplate, ProgramTemplate, RenderedVariable, Scope},
};
use countermand_core::{OperationId, Row, event::Trouble};
use run::Run;
use std::{
    collections::HashMap,
    ffi::OsString,
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};
use tokio_util::task::TaskTracker;

/// How long it is remembered how a program has ended, and what it wrote last.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The programs of a process, whatever tools they are of.
pub(crate) struct Commands {
    secrets: Arc<Secrets>,
    runner: OnceLock<Runner>,
    running: Mutex<HashMap<OperationId, Arc<Run>>>,
    undoing: Mutex<HashMap<OperationId, Arc<Run>>>,
    tasks: TaskTracker,
}

impl Commands {
    pub(crate) fn new(secrets: Arc<Secrets>) -> Self {
        Self {
            secrets,
            runner: OnceLock::new(),
            running: Mutex::default(),
            undoing: Mutex::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// What runs programs; made when the first one is needed.
    pub(crate) fn runner(&self) -> Result<&Runner, Trouble> {
        if let Some(runner) = self.runner.get() {
            return Ok(runner);
        }
        let made = Runner::new(Containment::Cgroup).map_err(|error| {
            Trouble::new(format!("failed to start the thread that starts programs: {error}"))
        })?;
        Ok(self.runner.get_or_init(|| made))
    }

    /// Ends every program that runs: as `stop` says, at once from `within` on.
    ///
    /// # Cancel safety
    /// If the future is dropped, everything has been told to stop.
    pub(crate) async fn close(&self, stop: Stop, within: Duration) {
        if let Some(runner) = self.runner.get() {
            runner.close(stop, within).await;
        }
    }

    /// Starts a program for an operation. What it writes is captured; of its standard output as much as `max_bytes`.
    async fn start(
        &self,
        program: &ProgramTemplate,
        scope: &Scope<'_>,
        row: &Row,
        max_bytes: u64,
    ) -> Result<Arc<Run>, NotStarted> {
        let refused = |message: String| NotStarted::Refused(Trouble::new(message));
        let rendered = program.render(scope).map_err(|error| refused(error.to_string()))?;
        let mut env: Vec<(OsString, OsString)> = Vec::new();
        let mut secrets: Vec<Secret> = Vec::new();
        for (name, value) in rendered.env {
            let value = match value {
                RenderedVariable::Value(value) => value,
                RenderedVariable::Secret(reference) => {
                    let secret = self.secrets.resolve(&reference).await;
                    let secret =
                        secret.map_err(|error| NotStarted::ForNow(Trouble::new(error.to_string())))?;
                    secrets.push(secret.clone());
                    secret.expose().to_owned()
                }
            };
            env.push((name.into(), value.into()));
        }
        let spawn = Spawn {
            operation: row.id.to_string(),
            argv: rendered.argv.into_iter().map(OsString::from).collect(),
            cwd: program.cwd.as_ref().map(Into::into),
            inherit: match &program.inherit {
                InheritTemplate::All => Inherit::All,
                InheritTemplate::Only(names) => Inherit::Only(names.clone()),
            },
            env,
            stdin: rendered.stdin.map_or(Stdin::Null, Stdin::Bytes),
            ..Spawn::default()
        };
        let runner = self.runner().map_err(NotStarted::ForNow)?;
        match runner.spawn(spawn).await {
            Ok(Process { control, pipes }) => {
                Ok(Arc::new(Run::new(control, pipes, secrets, max_bytes, &self.tasks)))
            }
            Err(error) if error.may_pass() => Err(NotStarted::ForNow(Trouble::new(error.to_string()))),
            Err(error) => Err(refused(error.to_string())),
        }
    }

    /// What an earlier process of ours has left of an operation, being stopped.
    fn adopt(&self, row: &Row, stop: Stop) -> Result<Control, Trouble> {
        let known = |name: &str| row.detail.get(name).and_then(|value| value.as_str());
        let here = known("world").is_some_and(|world| world == Runner::world());
        let leader = row.upstream_id.as_ref().and_then(|id| id.as_str().parse::<Identity>().ok());
        let runner = self.runner()?;
        Ok(runner.adopt(&row.id.to_string(), leader.filter(|_| here), known("cgroup").filter(|_| here), stop))
    }

    fn running(&self) -> MutexGuard<'_, HashMap<OperationId, Arc<Run>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn undoing(&self) -> MutexGuard<'_, HashMap<OperationId, Arc<Run>>> {
        self.undoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, id: OperationId) -> Option<Arc<Run>> {
        self.running().get(&id).cloned()
    }

    /// Keeps a program under its operation's name until a while after its end.
    fn keep(self: &Arc<Self>, id: OperationId, run: Arc<Run>) {
        self.running().insert(id, run.clone());
        let commands = self.clone();
        self.tasks.spawn(async move {
            run.control.ended().await;
            tokio::time::sleep(REMEMBERED).await;
            let mut running = commands.running();
            if running.get(&id).is_some_and(|kept| Arc::ptr_eq(kept, &run)) {
                running.remove(&id);
            }
        });
    }
}

impl fmt::Debug for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Commands")
    }
}

/// Why nothing runs.
enum NotStarted {
    /// It may the next time.
    ForNow(Trouble),
    /// Nor would it the next time.
    Refused(Trouble),
}
