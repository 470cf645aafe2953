//! `completions` and `man`: what the command line says of itself.

use crate::stage::{BINARY, Outcome, command};
use std::path::Path;
use tokio::process::Command;

const COMMANDS: [&str; 7] = ["serve", "check", "demo", "ops", "schema", "completions", "man"];

async fn said(args: &[&str]) -> String {
    let said = Outcome::of(command(Path::new("/"), args)).await.exited(0);
    assert!(said.stderr.is_empty(), "{}", said.stderr);
    said.stdout
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_shell_gets_a_script_with_all_commands_and_no_hidden_one() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = said(&["completions", shell]).await;
        for word in COMMANDS.iter().chain(&["resolve", "--note"]) {
            let word = if shell == "fish" { word.trim_start_matches("--") } else { word };
            assert!(script.contains(word), "{shell}: `{word}` is missing");
        }
        assert!(!script.contains("demo-upstream") && !script.contains("demo_upstream"), "{shell}");
    }
    let unknown = Outcome::of(command(Path::new("/"), &["completions", "tcsh"])).await.exited(2);
    assert!(unknown.stderr.contains("elvish"), "{}", unknown.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bash_loads_its_script_and_completes_by_it() {
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c"]).arg(format!(
        r#"source <({BINARY} completions bash)
           complete -p countermand
           offer() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _countermand countermand "${{@: -1}}" "${{@: -2:1}}"; echo "${{COMPREPLY[@]}}"; }}
           offer countermand o
           offer countermand ops re
           offer countermand ops list --state orph
           offer countermand ops resolve --as st"#
    ));
    let said = Outcome::of(bash).await.exited(0);
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert!(lines[0].starts_with("complete ") && lines[0].ends_with("countermand"), "{said:?}");
    assert_eq!(lines[1..], ["ops", "retry resolve", "orphaned", "stopped"], "{said:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_main_page_names_every_command_and_no_hidden_one() {
    let page = said(&["man"]).await;
    assert!(page.lines().any(|line| line.starts_with(".TH countermand 1")), "{page}");
    for name in COMMANDS {
        assert!(page.contains(&format!(r"countermand\-{name}(1)")), "`{name}` is missing: {page}");
    }
    assert!(!page.contains("upstream(1)"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_command_has_a_page_of_its_own_in_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("man1");
    assert!(said(&["man", "--dir", into.to_str().unwrap()]).await.is_empty());
    let ops = ["list", "show", "watch", "cancel", "retry", "resolve"].map(|name| format!("ops-{name}"));
    let names = COMMANDS.iter().map(|name| (*name).to_owned()).chain(ops);
    for name in names.map(|name| format!("countermand-{name}.1")).chain(["countermand.1".to_owned()]) {
        let page = std::fs::read_to_string(into.join(&name)).unwrap_or_else(|_| panic!("{name} is missing"));
        assert!(page.lines().any(|line| line.starts_with(".TH ")), "{name}: {page}");
    }
    assert!(!into.join("countermand-demo-upstream.1").exists());
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let failed =
        Outcome::of(command(Path::new("/"), &["man", "--dir", file.to_str().unwrap()])).await.exited(1);
    assert!(failed.stderr.contains("failed to write man pages into"), "{}", failed.stderr);
}
