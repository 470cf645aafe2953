//! Names of things, each a type of its own.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use uuid::Uuid;

macro_rules! uuid_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::try_parse(text).map(Self)
            }
        }
    };
}

uuid_newtype! {
    /// An operation: one effect at an upstream that can outlive its call. UUID version 7.
    OperationId
}
uuid_newtype! {
    /// One `tools/call`, whatever the client named it. UUID version 7.
    CallId
}
uuid_newtype! {
    /// The idempotency key of an operation, made by us before anything is sent; written in lower case.
    Key
}

impl Key {
    /// A key of these random bytes: a version 4 UUID.
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }

    /// The name that we give to a thing at the upstream: `cm-<key>`, 39 characters of `a-z0-9-`.
    pub fn name(&self) -> String {
        format!("cm-{self}")
    }
}

macro_rules! text_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_newtype! {
    /// What the upstream calls the thing that it runs for us.
    UpstreamId
}
text_newtype! {
    /// Who calls: sees and cancels only its own.
    Principal
}
text_newtype! {
    /// The hash (SHA-256, hex) of a checked tool definition in the ledger's table of definitions.
    DefinitionHash
}
text_newtype! {
    /// Which process holds a row.
    Owner
}
