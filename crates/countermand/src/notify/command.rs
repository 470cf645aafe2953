//! A program that is told something on its standard input.

use crate::{
    platform,
    process::{NOTICE, OPERATION},
};
use std::{process::Stdio, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::Command,
};

/// How much of a program's last words is kept, in bytes.
const WORDS: usize = 300;

/// The end of an output in which the last line is looked for.
const TAIL: usize = 4 << 10;

/// How long the last words of a program that has ended may be on their way.
const LAST_WORDS: Duration = Duration::from_millis(500);

pub(super) async fn run(argv: &[String], operation: &str, told: &serde_json::Value) -> Result<(), String> {
    let [program, arguments @ ..] = argv else { return Err("it names no program".into()) };
    let mut child = Command::new(program)
        .args(arguments)
        .env(OPERATION, operation)
        // Else it would be taken for a process of the operation.
        .env(NOTICE, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own: what it has started ends with it, and a terminal's Ctrl-C is for us alone.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("the program `{program}` did not start: {error}"))?;
    let group = platform::KillGroup::of(child.id());
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let text = format!("{told}\n");
    let feed = async {
        if let Some(mut stdin) = stdin {
            // One that does not read it may still have done what it should.
            let _unread = stdin.write_all(text.as_bytes()).await;
        }
    };
    let mut said = (Vec::new(), Vec::new());
    let status = {
        let listen = async { tokio::join!(feed, tail(stdout, &mut said.0), tail(stderr, &mut said.1)) };
        tokio::pin!(listen);
        tokio::select! {
            biased;
            _ = &mut listen => child.wait().await,
            status = child.wait() => {
                // What it has left behind may hold its output open.
                let _rest = tokio::time::timeout(LAST_WORDS, &mut listen).await;
                status
            }
        }
    };
    group.let_go();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            let words = last_line(&said.1).or_else(|| last_line(&said.0));
            let words = words.map_or_else(String::new, |words| format!(": {words}"));
            Err(format!("the program `{program}` failed ({status}){words}"))
        }
        Err(error) => Err(format!("the program `{program}` cannot be waited for: {error}")),
    }
}

/// Reads to the end, and keeps the last of it.
async fn tail(from: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut from) = from else { return };
    let mut piece = vec![0; TAIL];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        kept.extend_from_slice(&piece[..read]);
        if kept.len() > TAIL {
            kept.drain(..kept.len() - TAIL);
        }
    }
}

/// The last line that says something, without control characters.
fn last_line(said: &[u8]) -> Option<String> {
    let said = String::from_utf8_lossy(said);
    let line = said.lines().rev().find(|line| !line.trim().is_empty())?;
    let mut line: String = line.trim().chars().filter(|c| !c.is_control()).collect();
    line.truncate(line.floor_char_boundary(WORDS));
    Some(line)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use serde_json::json;

    async fn sh(script: &str) -> Result<(), String> {
        let argv = ["sh", "-c", script].map(str::to_owned);
        run(&argv, "op-1", &json!({ "id": "op-1" })).await
    }

    #[tokio::test]
    async fn a_program_gets_the_object_and_the_id() {
        let file = tempfile::NamedTempFile::new().unwrap();
        sh(&format!("(cat; echo $COUNTERMAND_OPERATION) > {}", file.path().display())).await.unwrap();
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "{\"id\":\"op-1\"}\nop-1\n");
    }

    #[tokio::test]
    async fn a_failure_is_told_by_its_last_line_and_without_its_arguments() {
        let error = sh("cat > /dev/null; echo s3cr3t-argument > /dev/null; echo out; echo first >&2; echo 'no route' >&2; exit 3")
            .await
            .unwrap_err();
        assert!(error.contains("`sh`") && error.ends_with("3): no route"), "{error}");
        assert!(!error.contains("s3cr3t"), "{error}");
        assert!(sh("echo only out; exit 1").await.unwrap_err().ends_with(": only out"));
        assert!(sh("exit 1").await.unwrap_err().ends_with("(exit status: 1)"));
        let none = run(&["/no/such/program".to_owned()], "op-1", &json!({})).await.unwrap_err();
        assert!(none.contains("did not start"), "{none}");
    }

    #[tokio::test]
    async fn one_that_reads_nothing_says_much_or_leaves_something_behind_is_done_when_it_ends() {
        sh("exit 0").await.unwrap();
        sh("head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2").await.unwrap();
        sh("sleep 600 & exit 0").await.unwrap();
    }
}
