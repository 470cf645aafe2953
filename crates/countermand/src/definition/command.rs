//! A program as a tool.

use crate::{process::Stop, template::ProgramTemplate};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A program as a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandDefinition {
    /// What is run.
    pub program: ProgramTemplate,
    /// How it is asked to stop.
    pub stop: Stop,
    /// What its exit codes mean.
    pub exit: ExitDefinition,
    /// What of its standard output is handed on.
    pub result: OutputFormat,
    /// The most that it may write to its standard output, in bytes; beyond it there is no result.
    pub max_bytes: u64,
}

/// What exit codes mean. One that is in neither, and a death by a signal, is a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitDefinition {
    /// Those that mean: it completed.
    pub ok: Vec<i32>,
    /// What others mean, in words for whoever called.
    pub failed: BTreeMap<i32, String>,
}

impl Default for ExitDefinition {
    fn default() -> Self {
        Self { ok: vec![0], failed: BTreeMap::new() }
    }
}

/// What a program's standard output is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    /// Text; bytes where it is not UTF-8.
    Text,
    /// JSON; of it what this JSONPath leads to.
    Json(String),
}
