//! Processes whose death cannot be missed: each connects to the test's Unix socket, tells its number, and blocks. The kernel
//! closes the socket when the process ends, however that is, so the end of the stream is the death.
//!
//! A test binary is its own witness: it has one ignored test that calls [`be_one`], and [`Witnesses::argv`] runs that.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};
use tokio::{io::AsyncBufReadExt as _, net::UnixListener, sync::watch};

/// The variable with the socket.
pub const SOCKET: &str = "WITNESS_SOCKET";

/// The variable with what the witness does.
pub const MODE: &str = "WITNESS_MODE";

/// What a witness that is started does beside living.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    Plain,
    /// It ignores SIGINT, SIGTERM, SIGHUP.
    Stubborn,
    /// It has a child.
    Child,
    /// It has a child in a session of its own.
    Setsid,
    /// It has a grandchild in a session of its own, whose parent has exited.
    Double,
    /// As `Double`, and the grandchild has an empty environment.
    Clean,
    /// It has a child, and exits with code 0 once that lives.
    Leaves,
    /// As a child of `Leaves` that ignores what a stubborn one ignores.
    LeavesStubborn,
}

impl Mode {
    /// Every one of them.
    pub const ALL: [Self; 8] = [
        Self::Plain,
        Self::Stubborn,
        Self::Child,
        Self::Setsid,
        Self::Double,
        Self::Clean,
        Self::Leaves,
        Self::LeavesStubborn,
    ];

    /// Its name, as the variable has it.
    pub fn word(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// How many processes of it tell their number.
    pub const fn processes(self) -> usize {
        match self {
            Self::Plain | Self::Stubborn => 1,
            _ => 2,
        }
    }
}

/// Those who have told their number.
#[derive(Debug)]
pub struct Witnesses {
    socket: PathBuf,
    known: watch::Receiver<BTreeMap<u32, Witness>>,
    accepting: tokio::task::JoinHandle<()>,
}

/// One who has told its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Witness {
    /// Its process.
    pub pid: u32,
    /// Whether it lives.
    pub lives: bool,
}

impl Drop for Witnesses {
    /// Closes their sockets, at which they end.
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Witnesses {
    /// Listens in a directory.
    ///
    /// # Errors
    /// Where no socket can be made there.
    pub fn listen(directory: &Path) -> io::Result<Self> {
        let socket = directory.join("witnesses");
        let listener = UnixListener::bind(&socket)?;
        let (tell, known) = watch::channel(BTreeMap::new());
        #[expect(clippy::disallowed_methods, reason = "the handle is kept, and the task ended with it")]
        let accepting = tokio::spawn(async move {
            let tell = Arc::new(tell);
            let mut readers = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let tell = tell.clone();
                readers.spawn(async move {
                    let mut lines = tokio::io::BufReader::new(stream).lines();
                    let Ok(Some(pid)) = lines.next_line().await else { return };
                    let Ok(pid) = pid.parse() else { return };
                    tell.send_modify(|known| {
                        known.insert(pid, Witness { pid, lives: true });
                    });
                    // Nothing more is written: this returns at the end of the stream.
                    let _end = lines.next_line().await;
                    tell.send_modify(|known| {
                        known.insert(pid, Witness { pid, lives: false });
                    });
                });
            }
        });
        Ok(Self { socket, known, accepting })
    }

    /// The command line of a witness, with `env` before it so that it needs nothing but arguments; `test` is the name of
    /// the ignored test that calls [`be_one`].
    ///
    /// # Errors
    /// Where the test binary cannot be found.
    pub fn argv(&self, mode: Mode, test: &str) -> io::Result<Vec<String>> {
        let exe = std::env::current_exe()?;
        Ok(vec![
            "env".into(),
            format!("{SOCKET}={}", self.socket.display()),
            format!("{MODE}={}", mode.word()),
            exe.display().to_string(),
            test.into(),
            "--exact".into(),
            "--ignored".into(),
            "--nocapture".into(),
        ])
    }

    /// Those there have been.
    pub fn all(&self) -> Vec<Witness> {
        self.known.borrow().values().copied().collect()
    }

    /// Waits until so many have told their number.
    pub async fn arrived(&self, count: usize) -> Vec<Witness> {
        self.when(|known| known.len() >= count).await
    }

    /// Waits until none of them lives.
    pub async fn gone(&self) {
        self.when(|known| known.values().all(|witness| !witness.lives)).await;
    }

    async fn when(&self, fits: impl Fn(&BTreeMap<u32, Witness>) -> bool) -> Vec<Witness> {
        let mut known = self.known.clone();
        match known.wait_for(fits).await {
            Ok(known) => known.values().copied().collect(),
            Err(_) => Vec::new(),
        }
    }
}

/// Is a witness, as the environment says, until it is killed or the test has gone. Returns at once where the environment says
/// nothing.
///
/// # Errors
/// Where the socket is gone, or a child cannot be started.
pub fn be_one() -> io::Result<()> {
    let (Some(socket), Ok(mode)) = (std::env::var_os(SOCKET), std::env::var(MODE)) else { return Ok(()) };
    let child = |mode: &str| -> io::Result<Command> {
        let mut child = Command::new(std::env::current_exe()?);
        child.args(std::env::args_os().skip(1)).env(MODE, mode).stdout(Stdio::null()).stdin(Stdio::null());
        Ok(child)
    };
    match mode.as_str() {
        "child" => drop(child("plain")?.spawn()?),
        "setsid" => drop(child("own-session")?.spawn()?),
        "double" | "clean" => {
            child(if mode == "clean" { "parent-clean" } else { "parent" })?.spawn()?.wait()?;
        }
        "parent" => {
            child("own-session")?.spawn()?;
            std::process::exit(0);
        }
        "parent-clean" => {
            // All that it is told is in what it needs to be a witness.
            let mut grandchild = child("own-session")?;
            grandchild.env_clear().env(SOCKET, &socket).env(MODE, "own-session").spawn()?;
            std::process::exit(0);
        }
        "own-session" => {
            rustix::process::setsid()?;
        }
        "leaves" | "leavesstubborn" => {
            // Its end of a pipe is closed once it lives.
            let mut left = child(if mode == "leaves" { "plain" } else { "stubborn" })?;
            let (mut ready, their) = io::pipe()?;
            left.stdout(their).spawn()?;
            drop(left);
            let mut said = [0; 1];
            while ready.read(&mut said)? > 0 && said != [b'\x06'] {}
        }
        _ => {}
    }
    let deaf =
        if mode.contains("stubborn") && !mode.starts_with("leaves") { Some(Deaf::new()?) } else { None };
    let mut stream = UnixStream::connect(&socket)?;
    stream.write_all(format!("{}\n", std::process::id()).as_bytes())?;
    let mut stdout = io::stdout();
    let _nobody_listens = stdout.write_all(b"\x06").and_then(|()| stdout.flush());
    if mode.starts_with("leaves") {
        std::process::exit(0);
    }
    // The end of the stream is the end of the test.
    let _end = stream.read(&mut [0; 1]);
    drop(deaf);
    std::process::exit(1)
}

/// Hears signals, and does nothing about them.
struct Deaf {
    _runtime: tokio::runtime::Runtime,
    _signals: Vec<tokio::signal::unix::Signal>,
}

impl Deaf {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let signals = {
            let _in = runtime.enter();
            let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
            kinds.into_iter().map(signal).collect::<io::Result<_>>()?
        };
        Ok(Self { _runtime: runtime, _signals: signals })
    }
}

/// What a shell needs to start it: the words of a command line, quoted.
pub fn quoted(argv: &[String]) -> String {
    argv.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect::<Vec<_>>().join(" ")
}
