//! Where the ledger cannot be written: nothing is sent that is not recorded.

use super::tagged;
use crate::{
    over_all,
    stage::{BINARY, Caller, Door, Outcome, Stage},
};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// A small file system of our own; dropping it unmounts it.
struct Mount {
    directory: tempfile::TempDir,
}

impl Mount {
    /// Mounts one of this size, or says why the test is skipped.
    fn of(size: &str) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        match run("mount", &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"], directory.path()) {
            Ok(()) => Some(Self { directory }),
            Err(why) => {
                println!("skipped: a tmpfs cannot be mounted here: {why}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn remount(&self, how: &str) {
        run("mount", &["-o", &format!("remount,{how}")], self.path()).unwrap();
    }

    /// Takes all the space away, until the file is removed.
    fn fill(&self) -> PathBuf {
        use std::io::Write as _;
        let path = self.path().join("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
        path
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(why) = run("umount", &["-l"], self.path()) {
            println!("failed to unmount {}: {why}", self.path().display());
        }
    }
}

fn run(program: &str, args: &[&str], path: &Path) -> Result<(), String> {
    let output = Command::new(program).args(args).arg(path).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

/// A stage whose ledger lies on the mount.
async fn on(mount: &Mount) -> Stage {
    let stage = Stage::new().await;
    let (from, to) = (stage.ledger_file(), mount.path().join("ledger.db"));
    stage.configure(|config| config.replace(&from.display().to_string(), &to.display().to_string()));
    stage
}

over_all! {
    async fn on_a_full_disk_a_call_fails_before_anything_is_sent_and_works_again_when_there_is_space(door) {
        let Some(mount) = Mount::of("2m") else { return };
        let stage = on(&mount).await;
        let mut caller = Caller::at(door, &stage).await;
        let mut first = caller.call(1, "order", tagged("before")).await;
        assert_eq!(caller.answer(&mut first).await["isError"], false);
        stage.settled(1).await;
        let filler = mount.fill();
        // What the log has room for already may still be written: the room ends.
        let mut refused = 0;
        for id in 2..100 {
            let before = stage.fake.events().len();
            let mut call = caller.call(id, "order", tagged(&format!("full{id}"))).await;
            let result = caller.answer(&mut call).await;
            if result["isError"] == false {
                continue;
            }
            let text = result["content"][0]["text"].as_str().unwrap();
            assert!(text.contains(&mount.path().join("ledger.db").display().to_string()), "{text}");
            assert!(text.contains("nothing was sent upstream"), "{text}");
            assert!(text.contains("free some space"), "{text}");
            let sent = &stage.fake.events()[before..];
            assert!(!sent.iter().any(|event| event.tagged(&format!("full{id}"))), "{sent:?}");
            refused += 1;
            if refused == 3 {
                break;
            }
        }
        assert_eq!(refused, 3, "the disk is full");
        // A read needs no ledger.
        let mut read = caller.call(200, "quick", tagged("read")).await;
        assert_eq!(caller.answer(&mut read).await["isError"], false);
        std::fs::remove_file(filler).unwrap();
        let mut after = caller.call(201, "order", tagged("after")).await;
        let result = caller.answer(&mut after).await;
        assert_eq!(result["isError"], false, "{result}");
        stage.operations_when("nothing unsettled", |rows| rows.iter().all(|row| row["settled"] == true)).await;
        stage.agree().await;
    }
}

over_all! {
    async fn a_disk_that_fills_up_under_a_running_job_does_not_keep_its_cancel_from_the_upstream(door) {
        let Some(mount) = Mount::of("2m") else { return };
        let stage = on(&mount).await;
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tagged("t")).await;
        stage.fake.wait_for("job_polled", 1).await;
        let filler = mount.fill();
        caller.cancel(pending).await;
        stage.fake.wait_for("job_cancelled", 1).await;
        std::fs::remove_file(filler).unwrap();
        let row = stage.phase("cancelled").await;
        assert_eq!(row["cause"], caller.cause());
        stage.agree().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_does_not_start_on_a_full_disk_and_says_where() {
    let Some(mount) = Mount::of("64k") else { return };
    let stage = on(&mount).await;
    mount.fill();
    for more in [&["--http", "127.0.0.1:0"][..], &[]] {
        let said = Outcome::of(stage.serve(more)).await.exited(1);
        assert!(said.stderr.contains(&mount.path().display().to_string()), "{}", said.stderr);
        assert!(said.stderr.contains("free some space"), "{}", said.stderr);
        assert!(said.stdout.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_does_not_start_in_a_read_only_directory_and_says_where() {
    let Some(mount) = Mount::of("1m") else { return };
    let stage = on(&mount).await;
    mount.remount("ro");
    for more in [&["--http", "127.0.0.1:0"][..], &[]] {
        let said = Outcome::of(stage.serve(more)).await.exited(1);
        assert!(
            said.stderr.contains(&mount.path().join("ledger.db").display().to_string()),
            "{}",
            said.stderr
        );
        assert!(said.stderr.contains("read-only"), "{}", said.stderr);
        assert!(said.stderr.contains("--ledger"), "{}", said.stderr);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_whose_disk_became_read_only_is_refused_by_gateways_and_operators_with_what_to_do() {
    let Some(mount) = Mount::of("4m") else { return };
    let stage = on(&mount).await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    let mut first = caller.call(1, "order", tagged("t")).await;
    assert_eq!(caller.answer(&mut first).await["isError"], false);
    let Caller::Stdio(mut client) = caller else { unreachable!("it is on stdio") };
    client.close_input();
    assert!(client.exit().await.success());
    mount.remount("ro");
    for args in
        [&["serve"][..], &["serve", "--http", "127.0.0.1:0"], &["ops", "list"], &["ops", "cancel", "0"]]
    {
        let said = stage.outcome(args).await.exited(1);
        assert!(
            said.stderr.contains(&mount.path().join("ledger.db").display().to_string()),
            "{}",
            said.stderr
        );
        assert!(said.stderr.contains("writable") || said.stderr.contains("read-only"), "{}", said.stderr);
        assert!(!said.stderr.contains("name the right ledger"), "that would not help: {}", said.stderr);
    }
    mount.remount("rw");
    assert_eq!(super::listed(&stage, &[]).await[0]["phase"], "completed");
}

/// `countermand ARGS -c CONFIG` as a user who owns nothing, or why that cannot be had.
async fn as_nobody(stage: &Stage, args: &[&str]) -> Result<Outcome, String> {
    let nobody = || {
        let mut command = tokio::process::Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", BINARY])
            .current_dir(stage.dir.path());
        command
    };
    let may_run = nobody().arg("--version").output().await.map_err(|error| error.to_string())?;
    if !may_run.status.success() {
        return Err(String::from_utf8_lossy(&may_run.stderr).trim().to_owned());
    }
    let mut command = nobody();
    command.args(args).arg("-c").arg(stage.config());
    Ok(Outcome::of(command).await)
}

fn allow(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_that_its_user_may_not_write_is_refused_with_what_to_do_and_not_changed() {
    let stage = Stage::new().await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    let mut first = caller.call(1, "order", tagged("t")).await;
    assert_eq!(caller.answer(&mut first).await["isError"], false);
    assert!(caller.rest().await.is_empty());
    let (directory, file) = (stage.dir.path().to_owned(), stage.ledger_file());
    let bytes = std::fs::read(&file).unwrap();
    // Who may: the directory, the ledger; and whether there is one.
    for (directory_mode, file_mode, there) in
        [(0o755, 0o644, true), (0o777, 0o444, true), (0o777, 0o600, true), (0o755, 0o644, false)]
    {
        allow(&directory, directory_mode);
        allow(&file, file_mode);
        let _lock_of_root = std::fs::remove_file(format!("{}.lock", file.display()));
        if !there {
            std::fs::remove_file(&file).unwrap();
        }
        for args in [&["serve"][..], &["serve", "--http", "127.0.0.1:0"]] {
            let said = match as_nobody(&stage, args).await {
                Ok(said) => said.exited(1),
                Err(why) => return println!("skipped: nothing can be run as another user here: {why}"),
            };
            let what = format!("{directory_mode:o} {file_mode:o} {there} {args:?}: {}", said.stderr);
            assert!(said.stderr.contains(&file.display().to_string()), "{what}");
            assert!(said.stderr.contains("writable for this user"), "{what}");
            assert!(said.stdout.is_empty(), "{what}");
        }
        if there {
            assert_eq!(std::fs::read(&file).unwrap(), bytes);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_of_a_newer_version_is_refused_by_gateways_and_operators_and_not_changed() {
    let stage = Stage::new().await;
    let mut client = stage.stdio().await;
    client.close_input();
    assert!(client.exit().await.success());
    // `user_version` is a big-endian number at byte 60 of the file.
    let mut bytes = std::fs::read(stage.ledger_file()).unwrap();
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    std::fs::write(stage.ledger_file(), &bytes).unwrap();
    for args in [&["serve"][..], &["serve", "--http", "127.0.0.1:0"], &["ops", "list"]] {
        let said = stage.outcome(args).await.exited(1);
        assert!(said.stderr.contains("its schema is version 99"), "{}", said.stderr);
        assert!(said.stderr.contains(&stage.ledger_file().display().to_string()), "{}", said.stderr);
    }
    assert_eq!(std::fs::read(stage.ledger_file()).unwrap(), bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_no_ledger_is_refused_and_left_alone() {
    let stage = Stage::new().await;
    let text = "These are my notes, and not a ledger. ".repeat(100);
    std::fs::write(stage.ledger_file(), &text).unwrap();
    for args in [&["serve"][..], &["ops", "list"]] {
        let said = stage.outcome(args).await.exited(1);
        assert!(said.stderr.contains("no ledger of ours"), "{}", said.stderr);
    }
    assert_eq!(std::fs::read_to_string(stage.ledger_file()).unwrap(), text);
}
