//! The places that secrets come from. Each error is only the problem: who asked knows the reference.

use std::{process::Stdio, time::Duration};
use tokio::{io::AsyncReadExt, process::Command};

/// How long a program may take to print a secret.
const EXEC_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a secret may be, in bytes.
const LONGEST: u64 = 64 << 10;

pub(super) fn env(name: &str) -> Result<String, String> {
    match std::env::var(name) {
        Ok(value) if value.is_empty() => Err("the environment variable is empty: set it".into()),
        Ok(value) => Ok(value),
        Err(std::env::VarError::NotPresent) => Err("the environment variable is not set: set it".into()),
        Err(std::env::VarError::NotUnicode(_)) => Err("the environment variable is not UTF-8".into()),
    }
}

pub(super) async fn file(path: &str) -> Result<String, String> {
    let file = tokio::fs::File::open(path).await.map_err(|error| error.to_string())?;
    read(file).await.and_then(line)
}

pub(super) async fn exec(argv: &[String]) -> Result<String, String> {
    let [program, arguments @ ..] = argv else { return Err("it names no program".into()) };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("the program did not start: {error}"))?;
    let Some(stdout) = child.stdout.take() else { return Err("the program has no output".into()) };
    let run = async {
        let value = read(stdout).await?;
        let status = child.wait().await.map_err(|error| error.to_string())?;
        if status.success() { line(value) } else { Err(format!("the program failed: {status}")) }
    };
    tokio::time::timeout(EXEC_TIMEOUT, run)
        .await
        .unwrap_or_else(|_| Err(format!("the program took longer than {} s", EXEC_TIMEOUT.as_secs())))
}

async fn read(from: impl tokio::io::AsyncRead + Unpin) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    from.take(LONGEST + 1).read_to_end(&mut bytes).await.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > LONGEST {
        return Err(format!("it is longer than {LONGEST} bytes"));
    }
    Ok(bytes)
}

/// The text without its trailing newline.
fn line(bytes: Vec<u8>) -> Result<String, String> {
    let mut text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    if text.is_empty() { Err("it is empty".into()) } else { Ok(text) }
}
