//! A client that is killed says nothing: the end of its pipes is all that there is.

use super::{Stage, tagged, within};
use crate::stage::{BINARY, signal};
use countermand_testkit::client::{StdioClient, message};
use std::{process::Stdio, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
    time::Instant,
};

/// A client process between the test and the gateway: it alone has the other end of the gateway's stdin.
struct Household {
    client: Child,
    gateway: Child,
    talk: StdioClient,
}

impl Household {
    /// The client is `cat`: what it is told it passes on, and when it is killed the pipe ends.
    fn open(stage: &Stage, mut gateway: Command) -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut client = Command::new("cat");
        client.stdin(Stdio::piped()).stdout(writer).kill_on_drop(true);
        let mut client = client.spawn().unwrap();
        gateway.current_dir(stage.dir.path()).env("COUNTERMAND_LOG", "debug").kill_on_drop(true);
        let mut gateway =
            gateway.stdin(reader).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let talk = StdioClient::over(gateway.stdout.take().unwrap(), client.stdin.take().unwrap());
        Self { client, gateway, talk }
    }

    async fn with_a_running_job(stage: &Stage, gateway: Command) -> Self {
        let mut house = Self::open(stage, gateway);
        house.talk.initialize("2025-11-25").await;
        house.talk.send(&message::call(1, "run_report", tagged("t"))).await;
        stage.fake.wait_for("job_polled", 1).await;
        house
    }

    /// Kills the client, and asserts that the job is cancelled, the gateway gone, and the ledger right.
    async fn ends_with_its_client(mut self, stage: &Stage) {
        let killed = Instant::now();
        signal(self.client.id(), "KILL");
        stage.fake.wait_for("cancel_received", 1).await;
        within(Duration::from_millis(500), killed, "from the client's SIGKILL to the upstream's cancel");
        // Nobody reads what the gateway may still say.
        drop(self.talk);
        self.client.wait().await.unwrap();
        is_gone(self.gateway, killed).await;
        let row = stage.settled(1).await.remove(0);
        assert_eq!(
            (row["phase"].as_str(), row["cause"].as_str()),
            (Some("cancelled"), Some("client_disconnected"))
        );
        assert_eq!(stage.agree().await.cancelled, 1);
    }
}

/// A client that reads the gateway's log takes its end of that along, too: the next line cannot be written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_killed_with_the_logs_reader_has_its_job_cancelled_all_the_same() {
    let stage = Stage::new().await;
    let mut house = Household::with_a_running_job(&stage, stage.serve(&[])).await;
    drop(house.gateway.stderr.take());
    let killed = Instant::now();
    signal(house.client.id(), "KILL");
    stage.fake.wait_for("cancel_received", 1).await;
    drop(house.talk);
    let ended = tokio::time::timeout(Duration::from_secs(15), house.gateway.wait()).await;
    assert!(ended.expect("the gateway ends").unwrap().success(), "it ends as it does when it is heard");
    within(Duration::from_secs(10), killed, "from the client's SIGKILL to the end of the gateway");
    let row = stage.settled(1).await.remove(0);
    assert_eq!(
        (row["phase"].as_str(), row["cause"].as_str()),
        (Some("cancelled"), Some("client_disconnected"))
    );
    assert_eq!(stage.agree().await.cancelled, 1);
}

/// Many clients take the log and never read it: a full pipe must hold up nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_never_reads_the_log_is_served_all_the_same() {
    let stage = Stage::new().await;
    let mut command = stage.serve(&[]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut gateway = command.spawn().unwrap();
    let unread = gateway.stderr.take();
    let (output, input) = (gateway.stdout.take().unwrap(), gateway.stdin.take().unwrap());
    let mut client = StdioClient::over(output, input);
    client.initialize("2025-11-25").await;
    // Each of these jobs is worth more than a thousand bytes of log; a pipe takes 64 KiB.
    for id in 0..150_u64 {
        client.send(&message::call(id, "run_report", tagged(&format!("t-{id}")))).await;
        stage.fake.wait_for("job_created", usize::try_from(id).unwrap() + 1).await;
        client.send(&message::cancelled(id, None)).await;
    }
    stage.fake.wait_for("job_cancelled", 150).await;
    client.barrier().await;
    client.close_input();
    let ended = tokio::time::timeout(Duration::from_secs(15), gateway.wait()).await;
    assert!(ended.expect("the gateway ends").unwrap().success());
    drop(unread);
    assert_eq!(stage.agree().await.cancelled, 150);
}

/// Every process that has the gateway's stderr has ended.
async fn is_gone(mut gateway: Child, since: Instant) {
    let mut said = String::new();
    let gone = async {
        gateway.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
        gateway.wait().await.unwrap();
    };
    tokio::time::timeout(Duration::from_secs(15), gone).await.expect("the gateway ends");
    within(Duration::from_secs(10), since, "from the client's SIGKILL to the end of the gateway");
}

/// `sh -c` in front of the gateway, in a way that the shell stays.
fn behind_a_shell(stage: &Stage) -> Command {
    let mut shell = Command::new("sh");
    let line = format!("'{BINARY}' serve -c '{}'; exit $?", stage.config().display());
    shell.args(["-c", &line]);
    shell
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_killed_takes_its_job_and_the_gateway_with_it() {
    let stage = Stage::new().await;
    let gateway = stage.serve(&[]);
    Household::with_a_running_job(&stage, gateway).await.ends_with_its_client(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_killed_in_front_of_a_shell_takes_the_gateway_behind_it_along() {
    let stage = Stage::new().await;
    let gateway = behind_a_shell(&stage);
    Household::with_a_running_job(&stage, gateway).await.ends_with_its_client(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shell_that_is_killed_with_its_client_leaves_no_gateway_behind() {
    let stage = Stage::new().await;
    let gateway = behind_a_shell(&stage);
    let house = Household::with_a_running_job(&stage, gateway).await;
    signal(house.gateway.id(), "KILL");
    house.ends_with_its_client(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_killed_before_it_said_anything_leaves_no_gateway() {
    let stage = Stage::new().await;
    let house = Household::open(&stage, stage.serve(&[]));
    let killed = Instant::now();
    signal(house.client.id(), "KILL");
    drop(house.talk);
    is_gone(house.gateway, killed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_closes_only_what_it_reads_is_seen_to_be_gone_by_the_next_answer() {
    let stage = Stage::new().await;
    let mut command = stage.serve(&[]);
    let mut gateway =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = gateway.stdin.take().unwrap();
    let said = [message::initialize(1, "2025-11-25"), message::call(2, "run_report", tagged("t"))];
    for message in said {
        input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
    stage.fake.wait_for("job_polled", 1).await;
    drop(gateway.stdout.take());
    let ping = message::request(3, "ping", serde_json::json!({}));
    let closed = Instant::now();
    input.write_all(format!("{ping}\n").as_bytes()).await.unwrap();
    stage.fake.wait_for("cancel_received", 1).await;
    within(Duration::from_millis(500), closed, "from an answer that nobody reads to the upstream's cancel");
    is_gone(gateway, closed).await;
    assert_eq!(stage.settled(1).await[0]["cause"], "client_disconnected");
    drop(input);
}
