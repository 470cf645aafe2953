//! What bounds the ended responses that all sessions together keep: beyond it the oldest are let go.

use super::Session;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What a response costs beside its text.
const OVERHEAD: usize = 1024;

/// All of them, by age.
pub(super) struct Shelf {
    most: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    bytes: usize,
    next: u64,
    /// In the order in which they ended.
    kept: BTreeMap<u64, Item>,
}

struct Item {
    session: Weak<Session>,
    stream: u64,
    bytes: usize,
}

impl State {
    fn take(&mut self, number: u64) -> Option<Item> {
        let item = self.kept.remove(&number)?;
        self.bytes -= item.bytes;
        Some(item)
    }
}

/// A response's place on the shelf, for as long as its session keeps it.
pub(super) struct Place {
    shelf: Arc<Shelf>,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let _already_taken = self.shelf.lock().take(self.number);
    }
}

impl Shelf {
    /// One for so many bytes.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, state: Mutex::default() })
    }

    /// A place for a response that has ended, for which older ones make room, of whichever session they are. Not to be
    /// asked for under a session's lock: theirs are taken here, one after the other.
    pub(super) fn put(self: &Arc<Self>, session: &Arc<Session>, stream: u64, size: usize) -> Place {
        let bytes = size + OVERHEAD;
        let (number, oldest) = {
            let mut state = self.lock();
            let number = state.next;
            state.next += 1;
            let mut oldest = Vec::new();
            while state.bytes + bytes > self.most
                && let Some(number) = state.kept.keys().next().copied()
            {
                oldest.extend(state.take(number));
            }
            state.bytes += bytes;
            state.kept.insert(number, Item { session: Arc::downgrade(session), stream, bytes });
            (number, oldest)
        };
        for item in oldest {
            if let Some(session) = item.session.upgrade() {
                session.let_go(item.stream);
            }
        }
        Place { shelf: Arc::clone(self), number }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
