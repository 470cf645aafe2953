//! Floods from without: what they cannot hold up, and what bounds them.

use super::{
    Caller, Door, Stage,
    storms::{held_by, is_bounded},
    tagged, the_next_call_works, within,
};
use crate::{
    over_all,
    stage::{Gateway, Session},
};
use countermand_testkit::{
    client::{HttpClient, message},
    fake::{Filter, Gate},
};
use serde_json::json;
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::Instant,
};

/// How long things that are answered at once take, at worst.
async fn slowest(caller: &mut Caller, rounds: usize) -> Duration {
    let mut slowest = Duration::ZERO;
    for id in 0..rounds as u64 {
        // `ping` where there is one, then the list of tools.
        let asked = Instant::now();
        caller.barrier().await;
        slowest = slowest.max(asked.elapsed());
        let asked = Instant::now();
        let mut listed = caller.send(message::request(500_000 + id, "tools/list", json!({}))).await;
        let tools = caller.answer(&mut listed).await;
        assert!(tools["tools"].is_array(), "{tools}");
        slowest = slowest.max(asked.elapsed());
    }
    slowest
}

over_all! {
    async fn while_a_thousand_cancels_wait_at_the_upstream_the_tools_are_listed_and_pings_answered(door) {
        const N: usize = 1_000;
        let stage = Stage::new().await;
        stage.configure(|config| {
            config.replace("every: 100ms", "every: 1m").replace("confirm_within: 3s", "confirm_within: 5m")
        });
        let mut caller = Caller::at(door, &stage).await;
        let idle = slowest(&mut caller, 20).await;
        let before = held_by(caller.pid());
        let mut calls = Vec::new();
        for id in 1..=N as u64 {
            calls.push(caller.call(id, "run_report", tagged(&format!("t{id}"))).await);
        }
        stage.fake.wait_for("responded", N).await;
        let is_running = |row: &&serde_json::Value| row["phase"] == "running";
        stage.operations_when("jobs that run", |rows| rows.iter().filter(is_running).count() == N).await;
        let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
        for call in calls {
            caller.cancel(call).await;
        }
        held.reached().await;
        let is_wanted = |rows: &[serde_json::Value]| rows.iter().all(|row| row["desired"] == "cancel");
        stage.operations_when("cancels that are wanted", is_wanted).await;
        let busy = slowest(&mut caller, 50).await;
        println!(
            "{door:?}: {} cancels wait upstream; slowest answer {:.1} ms (idle {:.1} ms)",
            held.arrived(),
            busy.as_secs_f64() * 1000.0,
            idle.as_secs_f64() * 1000.0
        );
        assert!(busy <= Duration::from_secs(1), "{busy:?}");
        the_next_call_works(&mut caller).await;
        held.release();
        stage.settled(N).await;
        let books = stage.agree().await;
        assert_eq!(books.cancelled, N as u64);
        is_bounded(caller.pid(), before, 256 * N as u64, &format!("{door:?}: 1,000 cancels that waited"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_cancels_of_unknown_ids_in_a_session_are_read_and_mean_nothing() {
    let stage = Stage::new().await;
    let mut caller = Caller::at(Door::Session, &stage).await;
    let Caller::Session(gateway, session) = &caller else { unreachable!() };
    let (client, session) = (gateway.client.clone(), session.clone());
    let mut bystander = caller.call(1_000_000, "run_report", tagged("bystander")).await;
    stage.fake.wait_for("job_polled", 1).await;
    let before = held_by(caller.pid());
    let sent = Instant::now();
    for round in 0..100_u64 {
        let mut stream = TcpStream::connect(client.address()).await.unwrap();
        let mut bytes = Vec::new();
        for n in 0..100_u64 {
            let cancel = message::cancelled(round * 100 + n, None).to_string();
            let mut headers =
                vec![("MCP-Protocol-Version", session.revision), ("Mcp-Session-Id", session.id.as_str())];
            headers.extend((n == 99).then_some(("Connection", "close")));
            bytes.extend(client.post_bytes(&headers, cancel.as_bytes()));
        }
        stream.write_all(&bytes).await.unwrap();
        let mut answers = String::new();
        stream.read_to_string(&mut answers).await.unwrap();
        assert_eq!(answers.matches("HTTP/1.1 202 ").count(), 100, "{}", &answers[..answers.len().min(300)]);
    }
    caller.barrier().await;
    within(Duration::from_secs(20), sent, "10,000 cancels of unknown ids and a barrier, in a session");
    is_bounded(caller.pid(), before, 16 * 1024, "10,000 unknown ids, in a session");
    stage.fake.finish("job-1");
    assert_eq!(caller.answer(&mut bystander).await["isError"], false, "nobody else is touched");
    the_next_call_works(&mut caller).await;
}

/// Each limit in a session: the answer says which it is, in the body, so that the session goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_session_each_limit_is_an_error_that_names_it_and_the_session_goes_on() {
    let stage = Stage::new().await;
    stage.configure(|config| config + "limits: { per_principal: 1, total: 3, message: 8KiB }\n");
    let gateway = stage.http().await;
    let first = Session::open(&gateway.client, "2025-11-25").await;
    let second = Session::open(&gateway.client, "2025-06-18").await;
    let third = Session::open(&gateway.client, "2025-11-25").await;
    let call = |id: u64, tag: &str| message::call(id, "search", tagged(tag));
    let mut held = vec![first.send(&call(1, "one")).await, second.send(&call(1, "two")).await];
    stage.fake.wait_for("slow_started", 2).await;
    let refused = first.send(&call(7, "three")).await.response().await.to_string();
    assert!(refused.contains("Too many calls in flight for this client (limit 1)"), "{refused}");
    held.push(third.send(&call(1, "three-is-enough")).await);
    stage.fake.wait_for("slow_started", 3).await;
    let fourth = Session::open(&gateway.client, "2025-06-18").await;
    for (session, tag, words) in [
        (&fourth, "four".to_owned(), "Too many calls in flight (limit 3)"),
        (&fourth, "x".repeat(10_000), "above the limit of 8192 bytes"),
        (&first, "x".repeat(10_000), "above the limit of 8192 bytes"),
    ] {
        let mut refused = session.send(&call(7, &tag)).await;
        let status = refused.head().await.status;
        let body = String::from_utf8_lossy(&refused.whole_body().await).into_owned();
        assert!(body.contains(words), "`{words}` is missing: {status} {body}");
        assert_ne!(status, 404, "that would end the session");
        session.barrier().await;
    }
    let known = stage.fake.events();
    assert!(!known.iter().any(|event| event.tagged("three") || event.tagged("four")), "nothing is queued");
    assert_eq!(stage.fake.release_slow(None), 3);
    for exchange in &mut held {
        assert_eq!(exchange.response().await["result"]["isError"], false);
    }
    stage.fake.wait(|events| events.iter().filter(|event| event.is("responded")).count() == 3).await;
    let answer = fourth.send(&message::call(8, "quick", tagged("next"))).await.response().await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
}

/// A gateway that begins with the descriptors that a login shell gives.
async fn with_few_descriptors(stage: &Stage) -> Gateway {
    let serve = stage.serve(&["--http", "127.0.0.1:0"]);
    let serve = serve.as_std();
    let mut limited = tokio::process::Command::new("sh");
    limited
        .args(["-c", "ulimit -Sn 1024; exec \"$@\"", "sh"])
        .arg(serve.get_program())
        .args(serve.get_args())
        .current_dir(serve.get_current_dir().unwrap())
        .env("COUNTERMAND_LOG", "debug")
        .kill_on_drop(true);
    Gateway::start(limited).await
}

/// What the kernel lets a process open.
fn may_open(pid: u32) -> u64 {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_connections_that_say_nothing_hold_few_descriptors_and_hold_nobody_up() {
    const N: usize = 10_000;
    let descriptors =
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    if descriptors < N as u64 + 1_000 {
        return println!(
            "skipped: {N} connections need more than the {descriptors} descriptors of this process"
        );
    }
    let stage = Stage::new().await;
    let gateway = with_few_descriptors(&stage).await;
    let pid = gateway.process.id().unwrap();
    assert!(may_open(pid) > 1_024, "{}", may_open(pid));
    let address = gateway.client.address();
    let mut caller = Caller::Http(Box::new(gateway));
    let job = caller.call(1, "run_report", tagged("job")).await;
    stage.fake.wait_for("job_polled", 1).await;
    let before = held_by(pid);
    let mut idle = Vec::new();
    let started = Instant::now();
    let mut slowest_call = Duration::ZERO;
    for n in 0..N {
        idle.push(TcpStream::connect(address).await.unwrap());
        if n % 1_000 == 0 {
            let asked = Instant::now();
            the_next_call_works(&mut caller).await;
            slowest_call = slowest_call.max(asked.elapsed());
        }
    }
    caller.barrier().await;
    println!(
        "{N} silent connections in {:.1} s; slowest call meanwhile {:.0} ms",
        started.elapsed().as_secs_f64(),
        slowest_call.as_secs_f64() * 1000.0
    );
    assert!(slowest_call <= Duration::from_secs(2), "{slowest_call:?}");
    let held = held_by(pid);
    println!("descriptors {} → {}, {} → {} KiB", before.0, held.0, before.1, held.1);
    assert!(held.0 <= before.0 + 1_000 + 100, "{held:?}");
    assert!(held.1 <= before.1 + 64 * 1024, "{held:?}");
    // The first of them has been closed; nobody who asks is.
    let closed = tokio::time::timeout(Duration::from_secs(5), idle[0].read(&mut [0; 1])).await;
    assert!(matches!(closed.expect("the longest silent one is closed"), Ok(0) | Err(_)));
    let cancelled = Instant::now();
    caller.cancel(job).await;
    stage.fake.wait_for("job_cancelled", 1).await;
    within(Duration::from_secs(2), cancelled, "a cancel meanwhile");
    drop(idle);
    while held_by(pid).0 > before.0 + 64 + 16 {
        caller.barrier().await;
    }
    stage.phase("cancelled").await;
    stage.agree().await;
    is_bounded(pid, before, 64 * 1024, "after 10,000 silent connections");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_without_end_are_refused_and_hold_nobody_up() {
    let stage = Stage::new().await;
    let gateway = stage.http().await;
    let pid = gateway.process.id().unwrap();
    let client: HttpClient = gateway.client.clone();
    let mut caller = Caller::Http(Box::new(gateway));
    the_next_call_works(&mut caller).await;
    let before = held_by(pid);
    let line = format!("X-{}: {}\r\n", "n".repeat(50), "v".repeat(900));
    let endless = |more: &str| format!("POST /mcp HTTP/1.1\r\nHost: {}\r\n{more}", client.address());
    for (what, head, end) in [
        ("one long header", endless(&format!("X: {}", "v".repeat(1 << 20))), true),
        ("many headers", endless(&"X: y\r\n".repeat(10_000)), true),
        ("much of both", endless(&line.repeat(200)), false),
        ("a long target", format!("POST /{} HTTP/1.1\r\n", "x".repeat(1 << 20)), false),
    ] {
        let end = if end { "\r\n\r\n" } else { "" };
        let mut exchange = client.write((head + end).as_bytes()).await;
        let said = String::from_utf8_lossy(&exchange.read_to_end().await).into_owned();
        println!("{what}: {:?}", said.lines().next());
        // Whoever is still writing may miss the answer, never the close.
        assert!(
            said.is_empty()
                || said.starts_with("HTTP/1.1 431 ")
                || said.starts_with("HTTP/1.1 414 ")
                || said.starts_with("HTTP/1.1 400 "),
            "{what}: {said}"
        );
    }
    // A hundred that go on and on, a header at a time, and never end.
    let mut open = Vec::new();
    for _ in 0..100 {
        open.push(client.write(endless(&line).as_bytes()).await);
    }
    let slowest = slowest(&mut caller, 20).await;
    println!("slowest answer beside a hundred unfinished heads: {:.1} ms", slowest.as_secs_f64() * 1000.0);
    assert!(slowest <= Duration::from_secs(1), "{slowest:?}");
    drop(open);
    while held_by(pid).0 > before.0 + 16 {
        caller.barrier().await;
    }
    is_bounded(pid, before, 32 * 1024, "floods of headers");
    the_next_call_works(&mut caller).await;
}
