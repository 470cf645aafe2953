//! Who shares a process of the server with whom.

use super::{
    front::{Front, Way},
    house::House,
    tagged,
};
use crate::stage::{Outcome, command};
use serde_json::{Value, json};

/// The number of the server's process that serves this client.
async fn process(front: &mut Front) -> u64 {
    front.result("process", json!({})).await["structuredContent"]["pid"].as_u64().unwrap()
}

/// How many connections to a server there may be, where nobody says.
const MOST: usize = 100;

fn living(house: &House) -> usize {
    house.recorder.processes().iter().filter(|(_, lives)| *lives).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_session_has_a_server_of_its_own_that_ends_with_it_and_all_of_2026_share_one() {
    let house = House::new();
    let mut one = Front::open(Way::Http("2025-11-25"), &house, &[], &[]).await;
    let mut two = one.another(Way::Http("2025-06-18")).await;
    let mut three = one.another(Way::Http("2026-07-28")).await;
    let mut four = one.another(Way::Http("2026-07-28")).await;
    let pids = [
        process(&mut one).await,
        process(&mut two).await,
        process(&mut three).await,
        process(&mut four).await,
    ];
    assert!(pids[0] != pids[1] && pids[0] != pids[2] && pids[1] != pids[2], "{pids:?}");
    assert_eq!(pids[2], pids[3]);
    assert_eq!(process(&mut one).await, pids[0], "and keeps it");
    assert_eq!(living(&house), 3);
    // What is in flight there is cancelled with the session.
    let _asked = two.call("mine", "stubborn", tagged("t")).await;
    let id = house.recorder.working("t").await;
    two.delete().await;
    house.recorder.cancelled(&id).await;
    let ended = |pid: u64| house.recorder.processes().contains(&(u32::try_from(pid).unwrap(), false));
    house.recorder.wait("the end of its server", |_| ended(pids[1])).await;
    let row = house.phase("cancelled").await;
    assert_eq!((&row["cause"], &row["outcome"]), (&json!("session_ended"), &json!("cancelled")), "{row:#}");
    assert_eq!(process(&mut one).await, pids[0]);
    assert_eq!(process(&mut three).await, pids[2]);
    one.finish(&house, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_declare_ever_different_things_do_not_start_ever_more_servers() {
    let house = House::new();
    let mut front = Front::open(Way::Http("2026-07-28"), &house, &[], &[]).await;
    let mut asked = front.call("mine", "stubborn", tagged("t")).await;
    house.recorder.working("t").await;
    for n in 0..MOST + 4 {
        front.declare(json!({ "x-number": n }));
        let result = front.result("process", json!({})).await;
        assert!(result["structuredContent"]["pid"].is_u64(), "{result}");
    }
    house.recorder.wait("the end of all but a few", |_| living(&house) <= MOST).await;
    assert_eq!(house.recorder.processes().len(), MOST + 5);
    assert!(house.recorder.cancels().is_empty(), "what is in use is left alone");
    house.recorder.release("t").await;
    assert_eq!(front.response(&mut asked).await["result"]["structuredContent"], tagged("t"));
    front.finish(&house, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_editors_wrap_the_same_server_and_each_has_a_ledger_of_its_own_in_the_state_directory() {
    let house = House::new();
    let state = house.dir.path().join("state");
    let there = |house: &House| {
        let mut command = command(house.dir.path(), &["wrap", "--"]);
        command
            .args(house.server(&[]))
            .env("XDG_STATE_HOME", &state)
            .env("DEMO_SERVER_TOLD", "whatever we are told");
        command
    };
    let way = Way::Stdio("2025-11-25");
    let mut one = Front::over(way, there(&house)).await;
    let mut two = Front::over(way, there(&house)).await;
    for (front, tag) in [(&mut one, "one"), (&mut two, "two")] {
        let told = front.result("process", json!({})).await;
        assert_eq!(
            told["structuredContent"]["told"], "whatever we are told",
            "the environment is the server's too"
        );
        let asked = front.call("mine", "late", tagged(tag)).await;
        let id = house.recorder.working(tag).await;
        front.cancel(asked).await;
        house.recorder.cancelled(&id).await;
    }
    let ledgers: Vec<String> = std::fs::read_dir(state.join("countermand"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".db"))
        .collect();
    assert_eq!(ledgers.len(), 2, "{ledgers:?}");
    assert!(ledgers.iter().any(|name| name.ends_with(".2.db")), "{ledgers:?}");
    for front in [&mut one, &mut two] {
        front.close_input();
        front.rest().await;
        front.ended().await;
    }
    house.recorder.gone().await;
    let first = ledgers.iter().find(|name| !name.ends_with(".2.db")).unwrap();
    let url = format!("sqlite:{}", state.join("countermand").join(first).display());
    let listed =
        Outcome::of(command(house.dir.path(), &["ops", "list", "--json", "--ledger", &url])).await.exited(0);
    assert_eq!(
        listed.stdout.lines().filter(|line| line.contains(r#""phase":"completed""#)).count(),
        2,
        "{}",
        listed.stdout
    );
    let left: Vec<_> =
        std::fs::read_dir(house.dir.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "nothing but the state and the recorder: {left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shared_server_serves_all_and_outlives_each_session() {
    let house = House::new();
    let mut one = Front::open(Way::Http("2025-11-25"), &house, &["--isolation", "shared"], &[]).await;
    let mut two = one.another(Way::Http("2025-11-25")).await;
    let pids = [process(&mut one).await, process(&mut two).await];
    assert_eq!(pids[0], pids[1]);
    let mut asked = one.call("mine", "stubborn", tagged("t")).await;
    house.recorder.working("t").await;
    two.delete().await;
    assert_eq!(process(&mut one).await, pids[0]);
    house.recorder.release("t").await;
    assert_eq!(one.response(&mut asked).await["result"]["structuredContent"], tagged("t"));
    assert_eq!(living(&house), 1);
    one.finish(&house, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_call_has_a_process_of_its_own_where_that_is_wanted_and_it_ends_with_the_call() {
    let house = House::new();
    let mut front = Front::open(Way::Http("2026-07-28"), &house, &["--isolation", "call"], &[]).await;
    let mut asked = front.call("mine", "stubborn", tagged("t")).await;
    house.recorder.working("t").await;
    let pids = [process(&mut front).await, process(&mut front).await];
    assert_ne!(pids[0], pids[1]);
    house.recorder.wait("the end of all but one", |_| house.called() == 1).await;
    house.recorder.release("t").await;
    let answer: Value = front.response(&mut asked).await;
    assert_eq!(answer["result"]["structuredContent"], tagged("t"));
    // One more is there for whatever else a client asks.
    house.recorder.wait("the end of that too", |_| house.called() == 0).await;
    front.finish(&house, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_with_a_process_of_its_own_that_is_cancelled_takes_it_along() {
    let house = House::new();
    let mut front = Front::open(Way::Stdio("2025-11-25"), &house, &["--isolation", "call"], &[]).await;
    let asked = front.call("mine", "late", tagged("t")).await;
    let id = house.recorder.working("t").await;
    front.cancel(asked).await;
    house.recorder.cancelled(&id).await;
    house.phase("completed").await;
    // One more is there for whatever else a client asks.
    house.recorder.wait("the end of that too", |_| house.called() == 0).await;
    front.finish(&house, &["mine"]).await;
}
