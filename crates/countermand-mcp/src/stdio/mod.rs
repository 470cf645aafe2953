//! MCP over standard input and output, or any pair of byte streams: every revision, one message a line.

mod connection;
mod input;
mod skim;

pub(crate) mod lines;
mod output;

pub use input::stdin;

use crate::{Calls, Handler, RpcError, WireError, message};
use connection::Connection;
use lines::{Line, Lines};
use output::{Replies, Room};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How a pair of streams is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StdioOptions {
    /// Who calls over these streams.
    pub principal: String,
    /// How long the handlers of a client that has left may take to return.
    pub drain: Duration,
}

impl Default for StdioOptions {
    fn default() -> Self {
        Self { principal: "local".to_owned(), drain: Duration::from_secs(10) }
    }
}

/// How serving a pair of streams ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// What ended it.
    pub why: Why,
    /// Calls whose handler had not returned when the drain was over. They run on.
    pub unfinished: usize,
}

/// What ended serving a pair of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The client has closed its end of our input.
    EndOfInput,
    /// The client does not take our output any more.
    OutputClosed,
    /// We were told to stop.
    Stopped,
}

/// What woke the reading loop.
enum Woke<'a> {
    Read(io::Result<Line>),
    Room(Room<'a>),
    Gone,
    Stop,
}

/// The last words to a client that has not gone must be out by then.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);

/// Serves one client until its input ends, its output is closed, or `stop` is cancelled.
///
/// At the end of the input every call of this client is cancelled at once (`client_disconnected`), before
/// anything is waited for. Then handlers have `options.drain` to return. `stop` cancels nothing: do that first,
/// with [`Calls::cancel_all`]; the answers to those calls still go out.
///
/// # Errors
/// [`WireError::Read`] where the input broke; its calls were cancelled and drained as at its end.
///
/// # Cancel safety
/// If this future is dropped, its calls are not cancelled and their answers are lost: use `stop`.
pub async fn serve_stdio<H: Handler>(
    handler: Arc<H>,
    calls: Arc<Calls>,
    input: impl AsyncRead + Unpin + Send,
    output: impl AsyncWrite + Unpin + Send + 'static,
    stop: CancellationToken,
    options: StdioOptions,
) -> Result<End, WireError> {
    let limit = calls.limits().message;
    let (outbox, queue) = output::queue();
    let gone = CancellationToken::new();
    let writer = TaskTracker::new();
    writer.spawn(output::write_all(output, queue, gone.clone()));
    writer.close();

    let mut connection = Connection::new(handler, calls, options.principal, outbox.clone());
    let mut lines = Lines::new(input, limit);
    let mut replies = Replies::default();
    let mut broken = None;
    let why = loop {
        let woke = tokio::select! {
            biased;
            () = gone.cancelled() => Woke::Gone,
            () = stop.cancelled() => Woke::Stop,
            Ok(room) = outbox.reserve(), if !replies.is_empty() => Woke::Room(room),
            // What is behind a reply may be a cancel, so replies wait aside and reading goes on. Only a client
            // that owes us the reading of a whole long message is not read from.
            line = lines.next(), if replies.bytes() <= limit => Woke::Read(line),
        };
        let answer = match woke {
            Woke::Gone => break Why::OutputClosed,
            Woke::Stop => break Why::Stopped,
            Woke::Room(room) => {
                replies.send_one(room);
                None
            }
            Woke::Read(Ok(Line::End)) => break Why::EndOfInput,
            Woke::Read(Err(error)) => {
                broken = Some(error);
                break Why::EndOfInput;
            }
            Woke::Read(Ok(Line::TooLong)) => {
                let why =
                    format!("Invalid request: a message above the limit of {limit} bytes; it was skipped");
                Some(message::write_error(None, &RpcError::invalid_request(why)))
            }
            Woke::Read(Ok(Line::Whole(line))) => connection.take(&line),
            // A client's lines are not skimmed.
            Woke::Read(Ok(Line::Skipped(_))) => None,
        };
        if let Some(answer) = answer {
            replies.push(answer);
        }
    };
    if why != Why::Stopped {
        connection.leave();
    }
    connection.tasks.close();
    let tasks = connection.tasks.clone();
    let _bounded = tokio::time::timeout(options.drain, tasks.wait()).await;
    let unfinished = tasks.len();
    connection.end();
    drop(connection);
    let flushed = async {
        replies.send_all(outbox).await;
        writer.wait().await;
    };
    let _bounded = tokio::time::timeout(FLUSH_WITHIN, flushed).await;
    match broken {
        Some(error) => Err(WireError::Read(error)),
        None => Ok(End { why, unfinished }),
    }
}
