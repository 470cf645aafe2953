//! Connections that have said nothing yet: there are so many at most, lest a flood of them takes every descriptor, those
//! of cancels upstream too.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// All of them, the longest silent first.
#[derive(Debug)]
pub(super) struct Silent {
    most: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    by_age: BTreeMap<u64, CancellationToken>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(super) struct Place<'a> {
    all: &'a Silent,
    number: u64,
    given_up: CancellationToken,
}

impl Silent {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), waiting: Mutex::default() }
    }

    /// A new connection. Beyond the limit the one that has been silent for longest is given up: whoever means to ask asks
    /// at once.
    pub(super) fn enter(&self) -> Place<'_> {
        let given_up = CancellationToken::new();
        let mut waiting = self.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.by_age.insert(number, given_up.clone());
        if waiting.by_age.len() > self.most
            && let Some((_, oldest)) = waiting.by_age.pop_first()
        {
            oldest.cancel();
        }
        Place { all: self, number, given_up }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// Waits until others have taken its place.
    pub(super) async fn given_up(&self) {
        self.given_up.cancelled().await;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.all.lock().by_age.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_silent_one_goes_and_those_that_have_spoken_do_not_count() {
        let silent = Silent::new(2);
        let (first, second) = (silent.enter(), silent.enter());
        assert!(!first.given_up.is_cancelled());
        drop(second);
        let third = silent.enter();
        assert!(!first.given_up.is_cancelled());
        let fourth = silent.enter();
        assert!(first.given_up.is_cancelled());
        assert!(!third.given_up.is_cancelled() && !fourth.given_up.is_cancelled());
        drop((first, third, fourth));
        assert!(silent.lock().by_age.is_empty());
    }
}
