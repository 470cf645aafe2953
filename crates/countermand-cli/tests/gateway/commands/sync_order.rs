//! A kill is not a power cut: that what is recorded is on the disk before anything is sent, the order of system calls shows.

use super::tagged;
use crate::stage::{BINARY, Caller, Stage};
use countermand_testkit::{client::StdioClient, fake::EventKind};
use std::process::Stdio;
use tokio::process::Command;

/// Whether processes can be traced here.
fn strace_works() -> bool {
    let traced = std::process::Command::new("strace")
        .args(["-f", "-o", "/dev/null", "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let works = traced.as_ref().is_ok_and(|status| status.success());
    if !works {
        println!("skipped: strace is missing, or may not trace here: {traced:?}");
    }
    works
}

/// A line of a trace without its process id: where a call of this name begins. A call that another thread interrupts is two lines.
fn begins<'a>(line: &'a str, names: &[&str]) -> Option<&'a str> {
    let (_, call) = line.split_once(' ')?;
    let call = call.trim_start();
    names.iter().any(|name| call.strip_prefix(name).is_some_and(|rest| rest.starts_with('('))).then_some(call)
}

/// Of a trace: the lines in which the calls of this name about the file have ended well, by the line in which they began.
fn synced(lines: &[&str], file: &str) -> Vec<(usize, usize)> {
    let mut open: Vec<(&str, usize)> = Vec::new();
    let mut ended = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((thread, _)) = line.split_once(' ') else { continue };
        if let Some(call) = begins(line, &["fdatasync", "fsync"]).filter(|call| call.contains(file)) {
            if call.ends_with("= 0") {
                ended.push((at, at));
            } else {
                open.push((thread, at));
            }
        } else if line.contains("sync resumed>") && line.ends_with("= 0") {
            let of = open.iter().position(|(of, _)| *of == thread);
            ended.extend(of.map(|of| (open.remove(of).1, at)));
        }
    }
    ended
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_intent_is_synced_before_the_first_byte_of_its_create_is_sent() {
    if !strace_works() {
        return;
    }
    let stage = Stage::new().await;
    let trace = stage.dir.path().join("trace");
    let mut command = Command::new("strace");
    command
        .args([
            "-f",
            "-yy",
            "-s",
            "100000",
            "-e",
            "trace=pwrite64,write,writev,sendto,sendmsg,fdatasync,fsync",
        ])
        .arg("-o")
        .arg(&trace)
        .arg(BINARY)
        .args(["serve", "-c"])
        .arg(stage.config())
        .current_dir(stage.dir.path());
    let mut client = StdioClient::spawn(command).unwrap();
    client.initialize("2025-11-25").await;
    let mut caller = Caller::Stdio(Box::new(client));
    let mut pending = caller.call(1, "order", tagged("t")).await;
    caller.answer(&mut pending).await;
    assert!(caller.rest().await.is_empty());

    let events = stage.fake.events();
    let key = events.iter().find_map(|event| match &event.kind {
        EventKind::OrderCommitted { key, .. } => key.clone(),
        _ => None,
    });
    let key = key.expect("the order carries its key");
    let text = String::from_utf8_lossy(&std::fs::read(&trace).unwrap()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let to = format!("->{}]", stage.fake.addr());
    let sends = ["sendto", "sendmsg", "write", "writev"];
    let sent = lines.iter().position(|line| begins(line, &sends).is_some_and(|call| call.contains(&to)));
    let sent = sent.expect("the request is in the trace");
    assert!(lines[sent].contains("POST /orders"), "the first byte to the upstream: {}", lines[sent]);

    let wal = "ledger.db-wal>";
    let written: Vec<usize> = (0..sent)
        .filter(|at| begins(lines[*at], &["pwrite64"]).is_some_and(|call| call.contains(wal)))
        .collect();
    let intent = written.iter().find(|at| lines[**at].contains(&key));
    assert!(intent.is_some(), "the row with its key is written to the log before the request");
    let synced = synced(&lines, wal);
    for write in written {
        let covered = synced.iter().any(|(began, ended)| write < *began && *ended < sent);
        assert!(
            covered,
            "line {write} is not synced before line {sent}: {}",
            &lines[write][..120.min(lines[write].len())]
        );
    }
}
