//! Tells somebody of an operation: a program of theirs, or an address of theirs.
//!
//! What is told is one JSON object. Neither secrets nor the program's arguments are in any error.

mod command;
mod webhook;

use crate::{definition::Value, secret::Secrets};
use std::time::Duration;

/// How long a program may run, and an address may take.
const WITHIN: Duration = Duration::from_secs(30);

/// Who is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnOrphan {
    /// A program and its arguments; no shell reads them. It gets the object on its standard input, and the operation's id
    /// as `COUNTERMAND_OPERATION`.
    Command(Vec<String>),
    /// An address: the object is POSTed there.
    Webhook {
        /// Where.
        url: Value,
        /// Headers besides.
        headers: Vec<(String, Value)>,
    },
}

impl OnOrphan {
    /// Tells it. Done is a program that ends with 0, or a 2xx.
    ///
    /// # Errors
    /// What went wrong, in words without secrets.
    ///
    /// # Cancel safety
    /// If the future is dropped, the program is killed, or the request aborted; somebody may have been told.
    pub async fn tell(
        &self,
        operation: &str,
        told: &serde_json::Value,
        secrets: &Secrets,
    ) -> Result<(), String> {
        let tells = async {
            match self {
                Self::Command(argv) => command::run(argv, operation, told).await,
                Self::Webhook { url, headers } => webhook::post(url, headers, told, secrets).await,
            }
        };
        tokio::time::timeout(WITHIN, tells)
            .await
            .unwrap_or_else(|_| Err(format!("it took longer than {} s", WITHIN.as_secs())))
    }
}
