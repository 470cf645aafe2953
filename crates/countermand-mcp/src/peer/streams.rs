//! Over a pair of byte streams, one message a line: a task that writes, many messages at a time, and one that reads.

use super::cancel::Teller;
use super::connection::Connection;
use super::words::{CancelFate, Lost};
use crate::stdio::lines::{Line, Lines};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

/// Bytes that are written at a time, about.
const BATCH: usize = 256 * 1024;
/// Lines that are no messages and of which somebody is told; the rest is ignored in silence.
const JUNK: usize = 5;
/// How long a server that has closed its input may still be listened to: its last answers may be on their way.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Starts both tasks. They end with the connection.
pub(super) fn start(
    connection: &Arc<Connection>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) {
    let (reader, writer) = (Arc::clone(connection), Arc::clone(connection));
    connection.spawn(async move {
        let lost = reader.stop.run_until_cancelled(read(&reader, input)).await;
        reader.end(lost.unwrap_or(Lost::Closed));
    });
    connection.spawn(async move {
        let written = writer.stop.run_until_cancelled(write(&writer, output)).await;
        if let Some(Err(error)) = written {
            let _bounded = tokio::time::timeout(LAST_WORDS, writer.closed()).await;
            writer.end(Lost::Broken(error.to_string()));
        }
    });
}

/// Reads to the end, and says how it came.
async fn read(connection: &Arc<Connection>, input: impl AsyncRead + Unpin) -> Lost {
    let limit = connection.options.message;
    let mut lines = Lines::new(input, limit).skimming();
    let mut junk = 0;
    loop {
        let why = match lines.next().await {
            Ok(Line::End) => return Lost::Ended,
            Err(error) => return Lost::Broken(error.to_string()),
            Ok(Line::Skipped(skim)) if connection.answered_too_long(skim.answered()) => None,
            Ok(Line::Skipped(_) | Line::TooLong) => Some(format!("above the limit of {limit} bytes")),
            Ok(Line::Whole(line)) => connection.take(&line, None).err(),
        };
        let Some(why) = why else { continue };
        junk += 1;
        // What the line says is not told: it is not known what is in it.
        if junk <= JUNK {
            let last = if junk == JUNK { "; further ones are ignored in silence" } else { "" };
            tracing::warn!("a line of an MCP server's output is no message and was ignored: {why}{last}");
        }
    }
}

/// Writes what is to be sent, then closes the output.
async fn write(connection: &Connection, mut output: impl AsyncWrite + Unpin) -> io::Result<()> {
    let mut bytes = Vec::new();
    while let Some(letters) = connection.letters(BATCH).await {
        bytes.clear();
        let mut tellers: Vec<Teller> = Vec::new();
        for letter in letters {
            if letter.slot.is_some_and(|slot| !slot.hand_over()) {
                continue;
            }
            bytes.extend_from_slice(letter.json.as_bytes());
            bytes.push(b'\n');
            tellers.extend(letter.teller);
        }
        output.write_all(&bytes).await?;
        output.flush().await?;
        for teller in tellers {
            teller.tell(CancelFate::Written);
        }
    }
    output.shutdown().await
}
