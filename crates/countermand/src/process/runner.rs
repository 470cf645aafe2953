//! Starts programs, finds what earlier processes of ours have left, and ends them all at the end.

use super::{
    Control, Identity, Inherit, OPERATION, Output, Pipes, Process, Spawn, SpawnError, Stdin, Stop,
    census::Census, control::Supervision, locate, members::Members, spawner::Spawner,
};
use crate::platform::{self, Cgroup, CgroupBase};
use std::{
    collections::HashMap,
    ffi::OsString,
    fmt, io,
    os::unix::ffi::OsStrExt as _,
    process::Stdio,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, ChildStdin, Command},
};
use tokio_util::task::TaskTracker;

/// How the processes of a program are kept together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Containment {
    /// In a control group of their own where there can be one, else as `Session`.
    Cgroup,
    /// By session, process group, environment and descent.
    Session,
}

/// Starts programs. Cheap to clone. Every program dies with the last clone, as with the process: what it has started in turn
/// only if [`close`](Self::close) was waited for.
#[derive(Clone)]
pub struct Runner {
    inner: Arc<Inner>,
}

struct Inner {
    spawner: Spawner,
    cgroups: Option<CgroupBase>,
    census: Arc<Census>,
    live: Mutex<Live>,
    number: AtomicU64,
    tasks: TaskTracker,
}

/// What runs.
#[derive(Default)]
struct Live {
    closed: bool,
    controls: HashMap<u64, Control>,
}

/// What an earlier process of ours has left of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The oldest of its processes.
    pub oldest: Identity,
    /// How many live.
    pub alive: usize,
}

impl Runner {
    /// A runner whose thread is ready.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn new(containment: Containment) -> io::Result<Self> {
        let cgroups = match containment {
            Containment::Cgroup => CgroupBase::detect(),
            Containment::Session => None,
        };
        Ok(Self {
            inner: Arc::new(Inner {
                spawner: Spawner::new()?,
                cgroups,
                census: Arc::default(),
                live: Mutex::default(),
                number: AtomicU64::default(),
                tasks: TaskTracker::new(),
            }),
        })
    }

    /// How programs are kept together here.
    pub fn containment(&self) -> Containment {
        if self.inner.cgroups.is_some() { Containment::Cgroup } else { Containment::Session }
    }

    /// This start of the machine: an [`Identity`] means the same process only in the same world.
    pub fn world() -> String {
        platform::world()
    }

    /// Starts a program. One at a time for each operation: they would be stopped together.
    ///
    /// # Errors
    /// [`SpawnError`]; nothing runs then.
    ///
    /// # Cancel safety
    /// If the future is dropped, the program was not started, or is killed, or has the operation's name and is found by it.
    pub async fn spawn(&self, spawn: Spawn) -> Result<Process, SpawnError> {
        let Some(program) = spawn.argv.first() else { return Err(SpawnError::Unnamed) };
        let named = program.to_string_lossy().into_owned();
        if self.inner.lock().closed {
            return Err(SpawnError::Ending { program: named });
        }
        if spawn.cwd.as_ref().is_some_and(|cwd| !cwd.is_dir()) {
            return Err(SpawnError::NoDirectory { program: named });
        }
        let own_path = spawn.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
        let path = own_path.or_else(|| std::env::var_os("PATH"));
        let at = locate(program, spawn.cwd.as_deref(), path.as_deref())?;
        let cgroup = self.cgroup_of(&spawn.operation);
        let start = |entrance| self.inner.spawner.spawn(command(&spawn, at.as_os_str().to_owned(), entrance));
        let entrance = cgroup.as_ref().and_then(|group| group.entrance().ok());
        let (mut started, mut cgroup) = (start(entrance).await, cgroup);
        if let (Some(Err(error)), Some(group)) = (&started, &cgroup) {
            tracing::debug!("`{named}` did not start in a control group of its own: {error}");
            group.remove();
            cgroup = None;
            started = start(None).await;
        }
        let child = match started {
            None => return Err(SpawnError::Ending { program: named }),
            Some(Err(error)) => return Err(SpawnError::Refused { program: named, error }),
            Some(Ok(child)) => child,
        };
        self.supervise(spawn, cgroup, child).map_err(|error| SpawnError::Refused { program: named, error })
    }

    fn supervise(&self, spawn: Spawn, cgroup: Option<Cgroup>, mut child: Child) -> io::Result<Process> {
        // Nobody has waited for it: its number is its own, whether it has exited or not.
        let stat = child.id().map_or(Ok(None), platform::stat)?;
        let leader = stat.map(|stat| stat.id);
        let mut pipes =
            Pipes { stdin: child.stdin.take(), stdout: child.stdout.take(), stderr: child.stderr.take() };
        if let Stdin::Bytes(bytes) = spawn.stdin
            && let Some(stdin) = pipes.stdin.take()
        {
            self.inner.tasks.spawn(feed(stdin, bytes));
        }
        let members = Members::new(spawn.operation, leader, true, cgroup.into_iter().collect());
        let control = self.watch(members, Some(child));
        Ok(Process { control, pipes })
    }

    /// Looks for what is left of an operation.
    ///
    /// # Errors
    /// Where the processes cannot be looked at now: nothing is known then.
    pub async fn find(&self, operation: &str) -> io::Result<Option<Found>> {
        let members = Members::new(operation.to_owned(), None, false, self.made(operation, None));
        let snapshot = self.inner.census.take().await?;
        let alive = tokio::task::spawn_blocking(move || members.alive(&snapshot)).await??;
        let oldest = alive.iter().min_by_key(|member| (member.start, member.pid)).copied();
        Ok(oldest.map(|oldest| Found { oldest, alive: alive.len() }))
    }

    /// The operations of which anything lives whose names begin so, in order.
    ///
    /// # Errors
    /// Where the processes cannot be looked at now: nothing is known then.
    pub async fn names(&self, beginning: &str) -> io::Result<Vec<String>> {
        let (snapshot, beginning) = (self.inner.census.take().await?, beginning.to_owned());
        let look = move || {
            let others = snapshot.processes.iter().filter(|seen| seen.stat.id.pid != std::process::id());
            let mut names = std::collections::BTreeSet::new();
            for seen in others.filter(|seen| !seen.stat.zombie) {
                names.extend(
                    seen.operation()?.filter(|name| name.starts_with(&beginning)).map(ToOwned::to_owned),
                );
            }
            Ok(names.into_iter().collect())
        };
        tokio::task::spawn_blocking(look).await?
    }

    /// Takes over what an earlier process of ours has left of an operation, which may be nothing, and stops it: its pipes are
    /// gone, and nobody will learn how it exits.
    ///
    /// `leader` is the process that was started, if it was in this [`world`](Self::world); `cgroup` where it was.
    pub fn adopt(
        &self,
        operation: &str,
        leader: Option<Identity>,
        cgroup: Option<&str>,
        stop: Stop,
    ) -> Control {
        let members = Members::new(operation.to_owned(), leader, false, self.made(operation, cgroup));
        let control = self.watch(members, None);
        control.stop(stop);
        control
    }

    /// Starts nothing any more, and ends what runs: as `stop` says, at once from `within` on.
    ///
    /// # Cancel safety
    /// If the future is dropped, everything has been told to stop.
    pub async fn close(&self, stop: Stop, within: Duration) {
        let controls: Vec<Control> = {
            let mut live = self.inner.lock();
            live.closed = true;
            live.controls.values().cloned().collect()
        };
        controls.iter().for_each(|control| control.stop(stop));
        let all = async {
            for control in &controls {
                control.ended().await;
            }
        };
        tokio::pin!(all);
        if tokio::time::timeout(within, &mut all).await.is_err() {
            controls.iter().for_each(|control| control.stop(Stop::NOW));
            all.await;
        }
    }

    /// How many programs run.
    pub fn running(&self) -> usize {
        self.inner.lock().controls.len()
    }

    fn watch(&self, members: Members, child: Option<Child>) -> Control {
        let (supervision, control) = Supervision::new(members, self.inner.census.clone(), child);
        let number = self.inner.number.fetch_add(1, Ordering::Relaxed);
        let closed = {
            let mut live = self.inner.lock();
            live.controls.insert(number, control.clone());
            live.closed
        };
        if closed {
            control.stop(Stop::NOW);
        }
        let inner = self.inner.clone();
        self.inner.tasks.spawn(async move {
            let over = || drop(inner.lock().controls.remove(&number));
            supervision.run(over).await;
        });
        control
    }

    /// The control group for an operation, made.
    fn cgroup_of(&self, operation: &str) -> Option<Cgroup> {
        let base = self.inner.cgroups.as_ref()?;
        base.make(&plain(operation))
            .inspect_err(|error| tracing::debug!("no control group for {operation}: {error}"))
            .ok()
    }

    /// The control groups that an operation may have had.
    fn made(&self, operation: &str, known: Option<&str>) -> Vec<Cgroup> {
        let ours = self.inner.cgroups.as_ref().map(|base| base.named(&plain(operation)));
        let known =
            known.and_then(Cgroup::at).filter(|known| ours.as_ref().is_none_or(|o| o.path() != known.path()));
        ours.into_iter().chain(known).collect()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Runner({:?})", self.containment())
    }
}

fn command(spawn: &Spawn, at: OsString, entrance: Option<std::fs::File>) -> Command {
    let mut command = Command::new(at);
    let (program, arguments) = spawn.argv.split_first().map_or((None, &[][..]), |(p, a)| (Some(p), a));
    if let Some(program) = program {
        command.arg0(program);
    }
    command.args(arguments);
    if let Some(cwd) = &spawn.cwd {
        command.current_dir(cwd);
    }
    if let Inherit::Only(names) = &spawn.inherit {
        command.env_clear();
        command.envs(names.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    }
    command.envs(spawn.env.iter().map(|(name, value)| (name, value)));
    command.env(OPERATION, &spawn.operation);
    let output = |output| match output {
        Output::Pipe => Stdio::piped(),
        Output::Inherit => Stdio::inherit(),
        Output::Null => Stdio::null(),
    };
    command.stdout(output(spawn.stdout)).stderr(output(spawn.stderr));
    command.stdin(if spawn.stdin == Stdin::Null { Stdio::null() } else { Stdio::piped() });
    platform::prepare(&mut command, entrance);
    command
}

/// One that reads less than it is given may still do what it should.
async fn feed(mut stdin: ChildStdin, bytes: Vec<u8>) {
    let _unread = stdin.write_all(&bytes).await;
    let _unread = stdin.shutdown().await;
}

/// A name for a directory.
fn plain(operation: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let bytes = std::ffi::OsStr::new(operation).as_bytes().iter();
    bytes.take(128).map(|byte| if plain(byte) { char::from(*byte) } else { '_' }).collect()
}
