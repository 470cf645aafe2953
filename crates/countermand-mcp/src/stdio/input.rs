//! Standard input, read by a thread of its own.

use bytes::{Buf as _, Bytes};
use std::io::{self, Read as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

const CHUNK: usize = 64 * 1024;

/// The standard input of this process.
///
/// A thread of its own reads it, not the runtime's pool: a read that is pending when the process wants to end then
/// holds up nobody. Call it once; two of them would each get a part.
pub fn stdin() -> impl AsyncRead + Send + Unpin + 'static {
    let (sender, chunks) = mpsc::channel(16);
    let reader = std::thread::Builder::new().name("stdin".to_owned());
    let failed = sender.clone();
    if let Err(error) = reader.spawn(move || read_all(&sender)) {
        // The channel is empty: there is room.
        let _told = failed.try_send(Err(error));
    }
    Chunks { chunks, current: Bytes::new() }
}

fn read_all(sender: &mpsc::Sender<io::Result<Bytes>>) {
    let mut input = io::stdin().lock();
    let mut buffer = vec![0; CHUNK];
    loop {
        let chunk = match input.read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => Ok(Bytes::copy_from_slice(&buffer[..read])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let over = chunk.is_err();
        if sender.blocking_send(chunk).is_err() || over {
            return;
        }
    }
}

struct Chunks {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
}

impl AsyncRead for Chunks {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.current.is_empty() {
            match ready!(self.chunks.poll_recv(cx)) {
                None => return Poll::Ready(Ok(())),
                Some(chunk) => self.current = chunk?,
            }
        }
        let length = self.current.len().min(buf.remaining());
        buf.put_slice(&self.current[..length]);
        self.current.advance(length);
        Poll::Ready(Ok(()))
    }
}
