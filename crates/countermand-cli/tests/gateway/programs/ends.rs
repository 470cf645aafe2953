//! The gateway's own end: nothing of a program is left (cases.md 9).

use super::{Caller, Door, Mode, Pending, Programs};
use crate::over_all;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// Programs that obey, and some that do not.
async fn several(caller: &mut Caller, programs: &Programs) -> (usize, Vec<Pending>) {
    let (mut there, mut calls) = (0, Vec::new());
    for (id, mode) in
        [Mode::Plain, Mode::Child, Mode::Double, Mode::Stubborn, Mode::Setsid].into_iter().enumerate()
    {
        calls.push(caller.call(id as u64 + 1, &mode.word(), json!({})).await);
        there += mode.processes();
    }
    programs.arrived(there).await;
    (there, calls)
}

over_all! {
    async fn the_end_of_the_gateway_is_that_of_its_programs(door) {
        let programs = Programs::new().await;
        let mut caller = Caller::at(door, &programs.stage).await;
        let _calls = several(&mut caller, &programs).await;
        caller.rest().await;
        programs.gone().await;
        let rows = programs.stage.operations().await;
        assert_eq!(rows.len(), 5);
        for row in &rows {
            assert_eq!((&row["phase"], &row["settled"]), (&json!("cancelled"), &json!(true)), "{row:#}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_with_more_patience_than_the_gateway_is_killed_within_the_gateway_s_and_recorded() {
    let programs = Programs::with(
        "  patient:\n    command: { run: SH 'trap \"\" TERM INT; WITNESS & wait; wait; wait'], stop: { grace: 1h } }\n",
    )
    .await;
    let mut command = programs.stage.serve(&["--grace", "2s"]);
    command.stdin(std::process::Stdio::piped());
    let mut client = countermand_testkit::client::StdioClient::spawn(command).unwrap();
    client.initialize("2025-11-25").await;
    client.send(&countermand_testkit::client::message::call(1, "patient", json!({}))).await;
    programs.arrived(1).await;
    let began = Instant::now();
    client.close_input();
    assert!(client.exit().await.success());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    programs.gone().await;
    let row = programs.stage.settled(1).await.remove(0);
    assert_eq!(
        (&row["phase"], &row["cause"]),
        (&json!("cancelled"), &json!("client_disconnected")),
        "{row:#}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detached_program_goes_on_without_its_client_and_ends_with_the_gateway() {
    let programs = Programs::with(
        "  detached_program:\n    command: { run: SH 'WITNESS & wait'] }\n    on_disconnect: detach\n",
    )
    .await;
    let mut caller = Caller::at(Door::Http, &programs.stage).await;
    let call = caller.call(1, "detached_program", json!({})).await;
    programs.arrived(1).await;
    drop(call);
    programs
        .stage
        .operations_when("a row without its client", |rows| rows.iter().any(|row| row["phase"] == "running"))
        .await;
    caller.works().await;
    assert_eq!(programs.alive(), 1);
    caller.rest().await;
    programs.gone().await;
    let _next = Caller::at(Door::Http, &programs.stage).await;
    let row = programs.stage.settled(1).await.remove(0);
    assert_eq!(row["phase"], "failed", "{row:#}");
    assert!(
        row["last_error"].as_str().unwrap().contains("the gateway that had started it had gone"),
        "{row:#}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_the_gateway_takes_each_leader_along_and_the_next_start_ends_the_rest() {
    let programs = Programs::new().await;
    let mut caller = Caller::at(Door::Stdio, &programs.stage).await;
    let (there, _calls) = several(&mut caller, &programs).await;
    caller.kill().await;
    let leaders_gone = async {
        while programs.alive() > there - 5 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(super::SOON, leaders_gone).await.expect("the leaders die with it");
    assert_eq!(programs.alive(), 3, "what they had started goes on");
    let next = Caller::at(Door::Stdio, &programs.stage).await;
    programs.gone().await;
    let rows = programs.stage.settled(5).await;
    for row in &rows {
        assert_eq!(
            (&row["phase"], &row["cause"]),
            (&json!("cancelled"), &json!("client_disconnected")),
            "{row:#}"
        );
    }
    programs.stage.finish(next, &[1, 2, 3, 4, 5]).await;
}
