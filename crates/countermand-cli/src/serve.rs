//! `countermand serve`: config → ledger → engine → doors → wait → drain.

use crate::{
    answer::spoken,
    config::{self, Config, Listener},
    engines::World,
    gateway::Gateway,
    proxy::Proxy,
    siblings::Siblings,
    teller,
};
use anyhow::{Context as _, Result};
use clap::Args;
use countermand::{
    core::Cause,
    engine::Engine,
    ledger::{LedgerUrl, OpenMode, SqliteLedger, open_first_free},
    process::Stop,
};
use countermand_mcp::{Calls, HttpOptions, HttpServer, StdioOptions, serve_stdio};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The part of the grace after which programs that have not obeyed are killed.
const HURRY: f32 = 0.8;

/// How long programs may take to obey that nobody has cancelled.
const LAST_GRACE: Duration = Duration::from_secs(1);

/// What to serve, and how.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The config file
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Serve stdin and stdout, also where an HTTP listener is set; their end ends the process
    #[arg(long)]
    stdio: bool,
    /// Listen for MCP over HTTP here, instead of where the config says
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// Listen for the admin API here, instead of where the config says
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,
    /// Keep the ledger here, instead of where the config says
    #[arg(long, value_name = "URL")]
    ledger: Option<String>,
    /// How long a shutdown waits for cancels to be confirmed
    #[arg(long, value_name = "D", default_value = "10s", value_parser = config::duration)]
    grace: Duration,
}

/// Serves until a signal, or the end of stdin where that is served.
///
/// # Errors
/// A config, a ledger or a listener that cannot be used; nothing was served then.
pub(crate) async fn run(serve: Serve) -> Result<()> {
    let config = checked(&serve)?;
    serve_config(&config, serve.stdio, serve.grace).await
}

/// Serves a checked config; stdio too where that is wanted, or nothing else is there. As [`run`].
pub(crate) async fn serve_config(config: &Config, stdio: bool, grace: Duration) -> Result<()> {
    let signals = Signals::listen()?;
    if let Some(descriptors) = countermand::raise_descriptor_limit() {
        tracing::debug!(descriptors, "files and connections that may be open at once");
    }
    let house = House::open(config)?;
    let doors = Doors::open(config, stdio, grace, &house).await?;
    house.recover();
    let ending = doors.serve(signals).await?;
    doors.close(ending).await;
    house.leave(grace).await;
    Ok(())
}

fn checked(serve: &Serve) -> Result<Config> {
    let mut config = config::load_from_env(&serve.config)?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    if let Some(url) = &serve.ledger {
        config.ledger.clone_from(url);
    }
    if let Some(address) = serve.http {
        let listener = Listener { listen: Some(address), ..Listener::default() };
        config.server.http.get_or_insert(listener).listen = Some(address);
    }
    if serve.admin.is_some() || config.admin.is_some() {
        tracing::warn!("this version has no admin listener: `admin` is accepted and nothing listens there");
    }
    let missing = config.missing_secrets(&|name| std::env::var(name).ok());
    if let Some(errors) = missing {
        return Err(errors.into());
    }
    Ok(config)
}

/// The ledgers that this process holds, and the engines over them.
struct House {
    /// The ledger's file.
    home: PathBuf,
    world: World,
    engine: Engine,
    siblings: Option<Siblings>,
    tasks: TaskTracker,
    leaving: CancellationToken,
}

impl House {
    /// A gateway with an HTTP listener is the only one on its ledger. Two on stdio are normal (two editors):
    /// each takes the first free ledger of the family, and finishes what others have left.
    fn open(config: &Config) -> Result<Self> {
        let base = LedgerUrl::parse(&config.ledger, Path::new("."))?.path().to_owned();
        let world = World { teller: Some(teller::of(config)), ..World::new(config.retention) };
        let (ledger, siblings, home) = if serves_http(config) {
            (SqliteLedger::open(&base, OpenMode::Gateway)?, None, base)
        } else {
            let (ledger, own) = open_first_free(&base)?;
            (ledger, Some(Siblings::new(&base, &own, world.clone())), own)
        };
        tracing::info!(ledger = %home.display(), epoch = ledger.epoch(), "the ledger is open");
        let engine = world.engine(Arc::new(ledger));
        Ok(Self {
            home,
            world,
            engine,
            siblings,
            tasks: TaskTracker::new(),
            leaving: CancellationToken::new(),
        })
    }

    /// Goes on with what earlier incarnations started.
    fn recover(&self) {
        self.world.tend(&self.engine);
        if let Some(siblings) = self.siblings.clone() {
            let leaving = self.leaving.clone();
            self.tasks.spawn(async move { leaving.run_until_cancelled(siblings.look_after()).await });
        }
    }

    /// Waits for what is being cancelled, up to the grace, and says what is left.
    async fn leave(self, grace: Duration) {
        self.leaving.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        let others = self.siblings.iter().flat_map(Siblings::engines);
        let engines: Vec<Engine> = std::iter::once(self.engine).chain(others).collect();
        let cancels = futures_util::future::join_all(engines.iter().map(|engine| engine.shutdown(grace)));
        // What does not obey in most of that time is killed, so that its end can still be recorded.
        let hurry = async {
            tokio::time::sleep(grace.mul_f32(HURRY)).await;
            self.world.upstreams.close(Stop::NOW, Duration::ZERO).await;
            std::future::pending().await
        };
        let lefts = tokio::select! {
            lefts = cancels => lefts,
            never = hurry => never,
        };
        // What was to go on without its client, and whatever undoes something.
        self.world.upstreams.close(Stop { grace: LAST_GRACE, ..Stop::default() }, LAST_GRACE).await;
        let rows: Vec<_> = lefts.iter().flat_map(|left| &left.rows).collect();
        for row in &rows {
            tracing::warn!(
                operation = %row.id,
                tool = row.tool,
                upstream_id = row.upstream_id.as_ref().map(ToString::to_string),
                key = %row.key,
                phase = %row.phase,
                "left in the ledger: the next start goes on with it"
            );
        }
        tracing::info!(left = rows.len(), "shut down");
    }
}

fn serves_http(config: &Config) -> bool {
    config.server.http.as_ref().is_some_and(|http| http.listen.is_some())
}

/// Why serving ended.
#[derive(Debug, Clone, Copy)]
enum Ending {
    Signal(&'static str),
    EndOfInput,
}

/// The ways in which calls come.
struct Doors {
    gateway: Arc<Gateway>,
    proxy: Arc<Proxy>,
    calls: Arc<Calls>,
    http: std::sync::Mutex<Option<HttpServer>>,
    stdio: bool,
    grace: Duration,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Doors {
    async fn open(config: &Config, stdio: bool, grace: Duration, house: &House) -> Result<Self> {
        let world = &house.world;
        let runner = match config.servers.is_empty() {
            true => None,
            false => Some(world.upstreams.runner().map_err(|trouble| anyhow::anyhow!(trouble.message))?),
        };
        let engine = house.engine.clone();
        let proxy = Proxy::new(
            &config.servers,
            config.transparent,
            engine.clone(),
            world.clock.clone(),
            runner,
            &house.home,
        )?;
        proxy.sweep().await;
        let gateway =
            Gateway::new(config, engine, world.upstreams.clone(), world.clock.clone(), proxy.clone())?;
        let listener = config.server.http.as_ref().and_then(|http| Some((http, http.listen?)));
        let http = match listener {
            Some((http, address)) => {
                let defaults = HttpOptions::default();
                let options = HttpOptions {
                    json: http.json,
                    session_idle: http.session_idle.unwrap_or(defaults.session_idle),
                    allowed_hosts: http.allowed_hosts.clone(),
                    allowed_origins: http.allowed_origins.clone(),
                    ..defaults
                };
                let server = HttpServer::bind(address, options).await?;
                tracing::info!("MCP over HTTP at http://{}/mcp", server.local_addr());
                Some(server)
            }
            None => None,
        };
        let stdio = stdio || http.is_none();
        Ok(Self {
            gateway: Arc::new(gateway),
            proxy,
            calls: Calls::new(config.limits),
            http: std::sync::Mutex::new(http),
            stdio,
            grace,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        })
    }

    /// Serves at every door until one of them, or a signal, ends it.
    async fn serve(&self, mut signals: Signals) -> Result<Ending> {
        let http = self.http.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(server) = http {
            let (gateway, calls, stop) = (self.gateway.clone(), self.calls.clone(), self.stop.clone());
            self.tasks.spawn(async move {
                if let Err(error) = server.serve(gateway, calls, stop).await {
                    tracing::error!("{error}");
                }
            });
        }
        let input_ended = CancellationToken::new();
        if self.stdio {
            let (gateway, calls, stop) = (self.gateway.clone(), self.calls.clone(), self.stop.clone());
            let options = StdioOptions { principal: principal()?, drain: self.grace };
            let ended = input_ended.clone().drop_guard();
            self.tasks.spawn(async move {
                let served =
                    serve_stdio(gateway, calls, countermand_mcp::stdin(), tokio::io::stdout(), stop, options);
                if let Err(error) = served.await {
                    tracing::error!("{error}");
                }
                drop(ended);
            });
        }
        Ok(tokio::select! {
            name = signals.next() => Ending::Signal(name),
            () = input_ended.cancelled() => Ending::EndOfInput,
        })
    }

    /// No new calls; those there are end with our cause, and their answers go out.
    async fn close(&self, ending: Ending) {
        match ending {
            Ending::Signal(name) => tracing::info!(calls = self.calls.len(), "{name}: shutting down"),
            Ending::EndOfInput => tracing::info!("end of input: shutting down"),
        }
        self.calls.cancel_all(Cause::Shutdown);
        if tokio::time::timeout(self.grace, self.calls.idle()).await.is_err() {
            tracing::warn!(calls = self.calls.len(), within = %spoken(self.grace), "some calls did not end in time");
        }
        // With its end each server's word on what was cancelled there is the kernel's.
        self.proxy.close().await;
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(Duration::from_secs(1), self.tasks.wait()).await.is_err() {
            tracing::debug!("a connection did not close in time");
        }
    }
}

/// Who calls over stdio: the user that this process runs as.
fn principal() -> Result<String> {
    use std::os::unix::fs::MetadataExt as _;
    let process = std::fs::metadata("/proc/self").context("failed to learn our own user id from /proc")?;
    Ok(format!("local:{}", process.uid()))
}

/// The signals that end us.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
