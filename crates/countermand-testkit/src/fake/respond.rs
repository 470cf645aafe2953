//! Writing an answer: in one piece, byte by byte, padded, or with its last byte held back.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use super::answer::Answer;
use super::conn::{Connection, End, Exchange};
use super::gate::Gate;
use super::record::{Close, EventKind};

/// How long a trickling body takes for a byte.
const TRICKLE: Duration = Duration::from_millis(100);
const PADDING: [u8; 16 << 10] = [b'x'; 16 << 10];

impl Connection {
    /// Writes the answer. Small ones go out in one piece, unless somebody holds the last byte.
    pub(crate) async fn respond(&mut self, ex: &mut Exchange, answer: Answer) -> Result<(), End> {
        self.pass(ex, Gate::ResponseHead).await?;
        let (head, body, tail) = answer.parts(ex.head.keep_alive());
        let keeps_last = self.state.gates.any_at(Gate::ResponseLastByte);
        let mut rest = if answer.trickle {
            self.write(ex, &head).await?;
            body
        } else {
            Bytes::from([head, body].concat())
        };
        while answer.trickle && rest.len() > 1 {
            self.write(ex, &rest.split_to(1)).await?;
            tokio::select! {
                () = sleep(TRICKLE) => {}
                end = self.hang(ex) => return Err(end),
            }
        }
        let mut padding = answer.padding;
        if padding > 0 {
            self.write(ex, &rest).await?;
            while padding > 0 {
                let some = padding.min(PADDING.len() as u64);
                self.write(ex, &PADDING[..some as usize]).await?;
                padding -= some;
            }
            rest = tail;
        }
        if keeps_last {
            let all_but_one = rest.len().saturating_sub(1);
            self.write(ex, &rest.split_to(all_but_one)).await?;
        }
        self.pass(ex, Gate::ResponseLastByte).await?;
        self.write(ex, &rest).await?;
        self.note(self.about(ex), EventKind::Responded { status: answer.status });
        if answer.ends_with_connection { Err(End::HangUp(Close::Fin)) } else { Ok(()) }
    }

    async fn write(&mut self, ex: &Exchange, bytes: &[u8]) -> Result<(), End> {
        let stop = self.state.stop.clone();
        let written = stop.run_until_cancelled(self.wire.write(bytes)).await.ok_or(End::Stopped)?;
        written.map_err(|how| End::PeerLeft(how, ex.at))
    }
}
