//! A cancel ends everything that a program has started, at each point.

use super::{Caller, Door, Mode, Programs, all_settled, has_cgroups, settled, text};
use crate::over_all;
use countermand_testkit::client::message;
use serde_json::json;

over_all! {
    /// testing.md 20.
    async fn a_cancel_ends_all_that_a_program_has_started_whatever_it_did_to_get_away(door) {
        let programs = Programs::with("  shell:\n    command: { run: SH 'WITNESS & wait'], stop: { signal: INT, grace: 300ms } }\n").await;
        let mut modes = vec![Mode::Plain, Mode::Stubborn, Mode::Child, Mode::Setsid, Mode::Double];
        if has_cgroups() {
            modes.push(Mode::Clean);
        } else {
            eprintln!("skipped: the one with a clean environment, since no control group can be made here");
        }
        let mut caller = Caller::at(door, &programs.stage).await;
        let mut calls = Vec::new();
        let (mut id, mut there) = (0, 0);
        for mode in &modes {
            id += 1;
            there += mode.processes();
            calls.push(caller.call(id, &mode.word(), json!({})).await);
            programs.arrived(there).await;
        }
        calls.push(caller.call(id + 1, "shell", json!({})).await);
        programs.arrived(there + 1).await;
        assert_eq!(programs.alive(), there + 1);
        let cause = caller.cause();
        for call in calls {
            caller.cancel(call).await;
        }
        programs.gone().await;
        let rows = programs.stage.settled(modes.len() + 1).await;
        for row in &rows {
            assert_eq!((&row["phase"], &row["cause"]), (&json!("cancelled"), &json!(cause)), "{row:#}");
            assert_eq!(row["kind"], "command");
            assert!(row["upstream"].is_null() && row["upstream_id"].as_str().unwrap().contains(':'), "{row:#}");
        }
        caller.works().await;
        let ids: Vec<u64> = (1..=id + 1).collect();
        programs.stage.finish(caller, &ids).await;
    }
}

/// In a session the cancel may overtake its call: they come on two connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_right_behind_its_call_leaves_nothing() {
    for door in [Door::Stdio, Door::Http] {
        let programs = Programs::new().await;
        let mut caller = Caller::at(door, &programs.stage).await;
        for id in 1..=10 {
            let call = caller.call(id, "child", json!({})).await;
            caller.cancel(call).await;
        }
        caller.works().await;
        all_settled(&programs.stage).await;
        programs.gone().await;
        programs.stage.finish(caller, &(1..=10).collect::<Vec<_>>()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_and_cancel_in_one_write_leave_nothing() {
    let programs = Programs::new().await;
    let mut client = programs.stage.stdio().await;
    client.send_at_once(&[message::call(1, "child", json!({})), message::cancelled(1, None)]).await;
    client.barrier().await;
    let rows = all_settled(&programs.stage).await;
    assert!(
        rows.iter().all(|row| row["phase"] == "cancelled" || row["phase"] == "never_created"),
        "{rows:#?}"
    );
    programs.gone().await;
    programs.stage.finish(Caller::Stdio(Box::new(client)), &[1]).await;
}

over_all! {
    async fn a_second_cancel_changes_nothing_and_the_reason_is_the_first_one_s(door) {
        let programs = Programs::new().await;
        let mut caller = Caller::at(door, &programs.stage).await;
        let call = caller.call(1, "plain", json!({})).await;
        programs.arrived(1).await;
        caller.cancel(call).await;
        if let Caller::Stdio(client) = &mut caller {
            client.send(&message::cancelled(1, Some("again"))).await;
        }
        programs.gone().await;
        let row = settled(&programs.stage).await;
        assert_eq!(row["phase"], "cancelled");
        if door != Door::Http {
            assert_eq!(row["reason"], "enough");
        }
        programs.stage.finish(caller, &[1]).await;
    }
}

over_all! {
    async fn timeout_lifetime_and_operator_end_it_and_say_so(door) {
        let programs = Programs::with(
            "  quick_end:\n    command: { run: SH 'WITNESS & wait'] }\n    timeout: 400ms\n  \
             short:\n    command: { run: SH 'WITNESS & wait'], lifetime: 400ms }\n",
        )
        .await;
        let mut caller = Caller::at(door, &programs.stage).await;
        for (id, tool, said) in [(1, "quick_end", "it took longer than its timeout"), (2, "short", "its lifetime of")] {
            let mut call = caller.call(id, tool, json!({})).await;
            let result = caller.answer(&mut call).await;
            assert!(text(&result).contains(said), "{result}");
        }
        let mut call = caller.call(3, "plain", json!({})).await;
        let running = programs.stage.operations_when("a running one", |rows| rows.iter().any(|row| row["phase"] == "running")).await;
        programs.stage.outcome(&["ops", "cancel", running[0]["id"].as_str().unwrap()]).await.exited(0);
        let result = caller.answer(&mut call).await;
        assert!(text(&result).contains("an operator cancelled it"), "{result}");
        let rows = programs.stage.settled(3).await;
        let causes: Vec<_> = rows.iter().map(|row| row["cause"].as_str().unwrap()).collect();
        assert_eq!(causes, ["operator", "deadline", "deadline"]);
        assert!(rows.iter().all(|row| row["phase"] == "cancelled"), "{rows:#?}");
        programs.gone().await;
        programs.stage.finish(caller, &[]).await;
    }
}

over_all! {
    async fn a_cancel_after_the_end_finds_nothing_to_stop(door) {
        let programs = Programs::with("  done:\n    command: [echo, done]\n").await;
        let mut caller = Caller::at(door, &programs.stage).await;
        let mut call = caller.call(1, "done", json!({})).await;
        let result = caller.answer(&mut call).await;
        assert_eq!(text(&result), "done\n");
        if let Caller::Stdio(client) = &mut caller {
            client.send(&message::cancelled(1, None)).await;
        }
        caller.works().await;
        let row = settled(&programs.stage).await;
        assert_eq!((&row["phase"], &row["cause"]), (&json!("completed"), &json!(null)));
        programs.stage.finish(caller, &[]).await;
    }
}

/// cases.md 19.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_cancelled_calls_leave_nothing() {
    const CALLS: u64 = 200;
    let programs = Programs::with("  shell:\n    command: { run: SH 'sleep 300 & WITNESS & wait'] }\n").await;
    let mut caller = Caller::at(Door::Stdio, &programs.stage).await;
    let warm = caller.call_of(9_000, "shell", json!({})).await;
    programs.arrived(1).await;
    caller.cancel(warm).await;
    programs.gone().await;
    programs.stage.settled(1).await;
    let children = |pid: u32| {
        let all = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<u32>().ok());
        all.filter(|child| {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)) == Some(&pid.to_string())
        })
        .count()
    };
    let (descriptors, pid) = (caller.descriptors(), caller.pid());
    for round in 0..4 {
        let mut calls = Vec::new();
        for n in 0..CALLS / 4 {
            calls.push(caller.call(round * 100 + n + 1, "shell", json!({})).await);
        }
        programs.arrived(1 + (round as usize + 1) * 50).await;
        for call in calls {
            caller.cancel(call).await;
        }
        programs.gone().await;
    }
    assert!(all_settled(&programs.stage).await.iter().all(|row| row["phase"] == "cancelled"));
    caller.works().await;
    assert_eq!(children(pid), 0, "zombies or worse");
    assert!(caller.descriptors() <= descriptors + 4, "{} were {descriptors}", caller.descriptors());
    let ids: Vec<u64> = (1..400).collect();
    programs.stage.finish(caller, &ids).await;
}
