//! The server's process: its input, its recorder's orders, its time.

use super::{event::EventKind, letter, report::Report, state::State};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader},
    path::PathBuf,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc::{UnboundedSender, unbounded_channel},
};

/// How the server behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// The recorder's socket; without one nobody is told.
    pub recorder: Option<PathBuf>,
    /// The one revision that it speaks.
    pub revision: String,
    /// It never answers `initialize`.
    pub hang: bool,
    /// It ends at once, with an exit code of 3.
    pub fail: bool,
    /// It writes lines between its messages that are none.
    pub junk: bool,
    /// It runs on when its input has ended, and ignores SIGTERM.
    pub stay: bool,
}

enum Input {
    Line(String),
    Order(String),
    End,
}

/// Serves stdin and stdout, until the input ends.
///
/// # Errors
/// Where the recorder cannot be reached, or nobody reads the output any more.
pub async fn run(options: Options) -> io::Result<()> {
    let deaf = options.stay.then(|| signal(SignalKind::terminate())).transpose()?;
    let report = Report::to(options.recorder.as_deref())?;
    if options.fail {
        std::process::exit(3);
    }
    let (sender, mut inputs) = unbounded_channel();
    if let Some(orders) = report.orders() {
        read("orders", orders, sender.clone(), Input::Order)?;
    }
    read("stdin", io::stdin(), sender, Input::Line)?;
    if options.junk {
        letter::say("Welcome to the demo server!")?;
    }
    let mut state = State { options, report, works: Vec::new(), asked: BTreeMap::new(), questions: 0 };
    loop {
        let next = async {
            match state.next() {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let input = tokio::select! {
            input = inputs.recv() => input,
            () = next => {
                state.finish(None)?;
                continue;
            }
        };
        match input {
            Some(Input::Line(line)) => state.hear(&line)?,
            Some(Input::Order(order)) => obey(&mut state, &order)?,
            Some(Input::End) => {
                state.report.tell(&EventKind::InputEnded);
                if deaf.is_none() {
                    return Ok(());
                }
            }
            None => std::future::pending().await,
        }
    }
}

fn obey(state: &mut State, order: &str) -> io::Result<()> {
    let order: Value = serde_json::from_str(order)?;
    match order["do"].as_str().unwrap_or_default() {
        "release" => state.finish(order["tag"].as_str()),
        "say" => letter::say(order["line"].as_str().unwrap_or_default()),
        "exit" => {
            std::process::exit(order["code"].as_i64().and_then(|code| code.try_into().ok()).unwrap_or(1))
        }
        _ => Ok(()),
    }
}

/// Reads lines on a thread: tokio's stdin would keep the runtime from ending.
fn read(
    name: &str,
    from: impl io::Read + Send + 'static,
    to: UnboundedSender<Input>,
    as_input: fn(String) -> Input,
) -> io::Result<()> {
    let is_stdin = name == "stdin";
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        for line in BufReader::new(from).lines() {
            let Ok(line) = line else { break };
            if to.send(as_input(line)).is_err() {
                return;
            }
        }
        if is_stdin {
            let _ended = to.send(Input::End);
        }
    })?;
    Ok(())
}
