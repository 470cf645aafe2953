//! A secret's value, which nothing prints.

use std::{fmt, sync::Arc};

/// A secret with its prefix.
#[derive(Clone)]
pub struct Secret {
    whole: Arc<str>,
    prefix: usize,
}

impl Secret {
    /// The value behind its prefix.
    pub(super) fn new(prefix: &str, value: String) -> Self {
        Self { whole: format!("{prefix}{value}").into(), prefix: prefix.len() }
    }

    #[cfg(test)]
    pub(crate) fn of_test(value: &str) -> Self {
        Self::new("", value.to_owned())
    }

    pub(super) fn with_prefix(&self, prefix: &str) -> Self {
        if self.whole[..self.prefix] == *prefix {
            return self.clone();
        }
        Self::new(prefix, self.bare().to_owned())
    }

    /// Whether both have the same value, whatever their prefixes.
    pub(crate) fn same_value(&self, other: &Self) -> bool {
        self.bare() == other.bare()
    }

    /// The prefix and the value, for who sends it.
    pub fn expose(&self) -> &str {
        &self.whole
    }

    fn bare(&self) -> &str {
        &self.whole[self.prefix..]
    }

    /// The text without the secret, should it hold it.
    pub fn redact(&self, text: &str) -> String {
        match self.bare() {
            // What is this short says nothing, and would tear holes into every text.
            bare if bare.len() < 4 => text.to_owned(),
            bare => text.replace(bare, "[secret]"),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret([secret])")
    }
}
