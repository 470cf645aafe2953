//! Upstreams that break off, trickle, flood, or speak something else: what is said of it, and what bounds it. Every message
//! names the upstream and the request, says why, and what to check.

mod support;

use countermand::{
    core::event::CreateAnswer, core::ports::Payload, definition::ToolDefinition, template::Scope,
    upstream::HttpFailure,
};
use serde_json::{Map, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use support::*;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// A server that does one thing with each connection. It ends when it is dropped.
struct Raw {
    address: String,
    _tasks: JoinSet<()>,
}

impl Raw {
    async fn new<F, Fut>(serve: F) -> Self
    where
        F: Fn(TcpStream) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream));
            }
        });
        Self { address, _tasks: tasks }
    }

    /// Reads a request's head, writes these bytes, closes.
    async fn says(bytes: &'static [u8]) -> Self {
        Self::new(move |mut stream| async move {
            head(&mut stream).await;
            stream.write_all(bytes).await.unwrap();
        })
        .await
    }

    /// A GET of it.
    fn read(&self) -> ToolDefinition {
        read_at(&format!("http://{}", self.address), "GET /x")
    }
}

async fn head(stream: &mut (impl AsyncRead + Unpin)) {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).await.unwrap_or(0) == 0 {
            return;
        }
        bytes.push(byte[0]);
    }
}

async fn ask(definition: &ToolDefinition) -> Result<Payload, HttpFailure> {
    upstreams().read(definition, &Scope::of_call(&Map::new())).await
}

#[tokio::test]
async fn old_and_talkative_http_is_understood() {
    for bytes in [
        &b"HTTP/1.0 200 OK\r\n\r\n{\"a\":1}"[..],
        b"HTTP/1.0 200 OK\r\ncontent-length: 7\r\n\r\n{\"a\":1}",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n{\"a\":1}",
        b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n{\"a\":1}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x\r\n\r\n7;name=value\r\n{\"a\":1}\r\n0\r\nx: y\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: identity\r\ncontent-length: 7\r\n\r\n{\"a\":1}",
    ] {
        let raw = Raw::says(bytes).await;
        assert_eq!(ask(&raw.read()).await, Ok(Payload::Json(json!({ "a": 1 }))), "{bytes:?}");
    }
}

#[tokio::test]
async fn what_is_no_usable_answer_is_told_apart_and_says_what_to_check() {
    let gzip =
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: 10\r\n\r\n\x1f\x8b\x08\0\0\0\0\0\0\x03";
    let text =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: br\r\ncontent-length: 2\r\n\r\nxx";
    for (bytes, words) in [
        (
            &b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"[..],
            "broke off in its body (Invalid chunk size line",
        ),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}",
            "broke off in its body (invalid chunk size: overflow): check the upstream, and what stands in front of it",
        ),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{}",
            "broke off in its body (end of file before message length reached)",
        ),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}", "broke off in its body"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
            "is not HTTP (invalid content-length parsed): check `base_url`",
        ),
        (
            b"220 mail.example ESMTP\r\n",
            "is not HTTP (invalid HTTP version parsed): check `base_url`, its port above all; it may have been received",
        ),
        (b"\x15\x03\x01\0\x02\x02\x46", "is not HTTP"),
        (
            b"",
            "broke before an answer (connection closed before message completed): it may have been received",
        ),
        (
            gzip,
            "the answer (200) is encoded as `gzip`, which was not asked for: turn off compression in front of the upstream",
        ),
        (text, "is encoded as `br`, which was not asked for"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 6\r\n\r\n<html>",
            "the answer (200) is not JSON (expected value at line 1 column 1); it starts with `<html>`",
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n\xff\xfe",
            "is not JSON (expected value at line 1 column 1); it is not text",
        ),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
            "it answered 101 Switching Protocols",
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n{}",
            "larger than 10485760 bytes: raise `max_bytes` or ask for less",
        ),
        (
            b"HTTP/1.1 500 X\r\ncontent-length: 10737418240\r\n\r\nsorry",
            "it answered 500 Internal Server Error",
        ),
    ] {
        let raw = Raw::says(bytes).await;
        let message = ask(&raw.read()).await.unwrap_err().to_string();
        assert!(
            message.starts_with("fake: GET /x: ") && message.contains(words),
            "`{words}` is missing: {message}"
        );
    }
}

#[tokio::test]
async fn compression_is_not_asked_for() {
    let mut fake = Fake::new([json(200, "{}"), json(200, "{}")]).await;
    let mut definition = read_at(&fake.base, "GET /x");
    ask(&definition).await.unwrap();
    assert_eq!(fake.request().await.header("accept-encoding"), Some("identity"));
    let own = countermand::definition::Value::Text("br".into());
    http(&mut definition).headers = vec![("Accept-Encoding".into(), own)];
    ask(&definition).await.unwrap();
    assert_eq!(fake.request().await.header("accept-encoding"), Some("br"), "who insists on it is let be");
}

#[tokio::test]
async fn a_reset_before_the_answer_may_have_been_received_and_a_create_is_lost() {
    let raw = Raw::new(|mut stream| async move {
        head(&mut stream).await;
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    })
    .await;
    let definition = definition(upstream(&format!("http://{}", raw.address)), job_work());
    match performer(&definition).create(&plain_row(&definition)).await.answer {
        CreateAnswer::Lost(trouble) => assert!(
            trouble.message.starts_with("fake: POST /jobs: the connection to http://127.0.0.1:")
                && trouble.message.contains("reset by peer")
                && trouble.message.ends_with("it may have been received"),
            "{trouble:?}"
        ),
        other => panic!("{other:?}"),
    }
}

fn job_work() -> countermand::definition::Work {
    countermand::definition::Work::Job(Box::new(job()))
}

/// Nothing listens, nobody knows the name, no TLS, somebody else's certificate: nothing was sent, and the message says
/// what to check.
#[tokio::test]
async fn no_connection_says_why_and_that_nothing_was_sent() {
    let nobody = Raw::says(b"").await.address;
    let plain = Raw::new(|mut stream| async move {
        let _hello = stream.read(&mut [0; 4096]).await;
        let _gone = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    })
    .await;
    let secure = self_signed(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
    for (base, words) in [
        (format!("http://{nobody}"), "refused (os error 111)): check that it runs, and `base_url`"),
        ("http://no-such-host.invalid".into(), "check that it runs, and `base_url`"),
        (
            format!("https://{}", plain.address),
            "speaks no TLS: write `http://` in `base_url`, or check its port",
        ),
        (
            format!("https://{}", secure.address),
            "its certificate is not trusted here: add who signed it to the system's certificates, or check `base_url`",
        ),
    ] {
        let definition = read_at(&base, "GET /x");
        match ask(&definition).await {
            Err(HttpFailure::NotSent(trouble)) => {
                let message = trouble.message;
                assert!(
                    message.starts_with(&format!("fake: GET /x: no connection to {base} (")),
                    "{message}"
                );
                assert!(message.contains(words), "`{words}` is missing: {message}");
                assert!(message.ends_with("; nothing was sent"), "{message}");
            }
            other => panic!("{base}: {other:?}"),
        }
    }
    let told = secure.heard.load(Ordering::Relaxed);
    assert_eq!(told, 0, "not a byte of a request to whom nobody vouches for");
}

struct SelfSigned {
    address: String,
    /// Bytes that came through TLS.
    heard: Arc<AtomicU64>,
    _raw: Raw,
}

/// A server whose certificate nobody has signed but itself.
async fn self_signed(bytes: &'static [u8]) -> SelfSigned {
    countermand::upstream::install_crypto();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let heard = Arc::new(AtomicU64::new(0));
    let counter = heard.clone();
    let raw = Raw::new(move |stream| {
        let (acceptor, heard) = (acceptor.clone(), counter.clone());
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let read = stream.read(&mut [0; 4096]).await.unwrap_or(0);
            heard.fetch_add(read as u64, Ordering::Relaxed);
            let _gone = stream.write_all(bytes).await;
        }
    })
    .await;
    SelfSigned { address: raw.address.clone(), heard, _raw: raw }
}

/// Writes for as long as somebody reads, and counts.
async fn pour(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8], poured: &AtomicU64) {
    while let Ok(written) = stream.write(bytes).await {
        poured.fetch_add(written as u64, Ordering::Relaxed);
    }
}

/// Ten GiB, announced or not: what is read is bounded by `max_bytes` and what the kernel holds.
#[tokio::test]
async fn a_body_without_an_end_is_cut_at_max_bytes_however_it_comes() {
    const HELD_BY_THE_KERNEL: u64 = 8 << 20;
    for (start, piece) in [
        (&b"HTTP/1.1 200 OK\r\n\r\n"[..], &[b' '; 16 << 10][..]),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n280000000\r\n", &[b' '; 16 << 10]),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"8\r\n12345678\r\n"),
        (b"HTTP/1.1 503 X\r\ntransfer-encoding: chunked\r\n\r\n", b"8\r\n12345678\r\n"),
    ] {
        let poured = Arc::new(AtomicU64::new(0));
        let counter = poured.clone();
        let raw = Raw::new(move |mut stream| {
            let poured = counter.clone();
            async move {
                head(&mut stream).await;
                stream.write_all(start).await.unwrap();
                pour(&mut stream, piece, &poured).await;
            }
        })
        .await;
        let mut definition = raw.read();
        http(&mut definition).limits.max_bytes = 1 << 20;
        match ask(&definition).await {
            Err(HttpFailure::TooLarge(..) | HttpFailure::Status(..)) => {}
            other => panic!("{other:?}"),
        }
        let poured = poured.load(Ordering::Relaxed);
        assert!(poured <= (1 << 20) * 2 + HELD_BY_THE_KERNEL, "{poured} bytes were taken");
    }
}

/// A byte at a time: a head is bounded as a whole, a body by the silence between its parts, and the whole by whoever asked.
#[tokio::test]
async fn a_head_that_trickles_is_bounded_by_read_timeout_as_a_whole() {
    let raw = Raw::new(|mut stream| async move {
        head(&mut stream).await;
        for byte in b"HTTP/1.1 200 OK\r\nx: ".iter().chain(std::iter::repeat(&b'y')) {
            if stream.write_all(&[*byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let mut definition = raw.read();
    http(&mut definition).limits.read_timeout = Duration::from_millis(200);
    let started = tokio::time::Instant::now();
    let error = ask(&definition).await.unwrap_err();
    let silent = |trouble: &str| trouble.contains("gave no answer within 200ms (`read_timeout`)");
    assert!(matches!(&error, HttpFailure::Lost(t) if silent(&t.message)), "{error}");
    assert!(started.elapsed() <= Duration::from_secs(2), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_body_that_falls_silent_is_cut_off_and_the_limit_is_named() {
    let fake = Fake::new([Answer::Hold("HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\nhalf".into())]).await;
    let mut definition = read_at(&fake.base, "GET /x");
    http(&mut definition).limits.read_timeout = Duration::from_millis(50);
    let error = ask(&definition).await.unwrap_err().to_string();
    assert_eq!(error, "fake: GET /x: the answer (200 OK) was silent for 50ms in its body (`read_timeout`)");
}

#[tokio::test]
async fn a_head_without_an_end_is_given_up() {
    let poured = Arc::new(AtomicU64::new(0));
    let counter = poured.clone();
    let raw = Raw::new(move |mut stream| {
        let poured = counter.clone();
        async move {
            head(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
            pour(&mut stream, b"x-more: and more\r\n", &poured).await;
        }
    })
    .await;
    let error = ask(&raw.read()).await.unwrap_err().to_string();
    assert!(error.starts_with("fake: GET /x: "), "{error}");
    println!("{error}");
    assert!(poured.load(Ordering::Relaxed) <= 16 << 20, "{poured:?} bytes of headers were taken");
}

#[tokio::test]
async fn a_redirect_takes_no_credentials_to_another_origin_whatever_it_looks_like() {
    for location in [
        "http://ELSEWHERE/x",
        "//ELSEWHERE/x",
        "https://FAKE/x",
        "http://user:pass@FAKE/x",
        "http://FAKE@ELSEWHERE/x",
        "\\\\ELSEWHERE/x",
        "http:\\\\ELSEWHERE\\x",
    ] {
        let mut elsewhere = Fake::new([json(200, "{}")]).await;
        let at = |base: &str| base.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().to_string();
        drop(listener);
        let location = location.replace("ELSEWHERE", &at(&elsewhere.base)).replace("FAKE", &own);
        let mut fake = Fake::new([answer(302, &format!("location: {location}\r\n"), "")]).await;
        let mut definition = read_at(&fake.base, "GET /x");
        let token = countermand::definition::Value::Text("Bearer t0ken".into());
        http(&mut definition).headers = vec![("Authorization".into(), token)];
        let error = ask(&definition).await.unwrap_err().to_string();
        assert!(error.contains("which is not followed: check `base_url`"), "{location}: {error}");
        assert!(!error.contains("t0ken") && !error.contains("user:pass"), "{error}");
        assert_eq!(elsewhere.requests(), [], "{location}");
        assert_eq!(fake.requests().len(), 1, "{location}");
    }
}

/// The upstream's clock is years behind ours: what it says of time counts from its own.
#[tokio::test]
async fn a_date_to_retry_after_counts_from_the_upstreams_own_clock() {
    let said = |until: &str| {
        answer(429, &format!("date: Sun, 06 Nov 1994 08:49:07 GMT\r\nretry-after: {until}\r\n"), "")
    };
    let fake = Fake::new([
        said("Sun, 06 Nov 1994 08:49:37 GMT"),
        said("Sun, 06 Nov 1994 08:00:00 GMT"),
        said("soon"),
    ])
    .await;
    let definition = definition(upstream(&fake.base), job_work());
    let performer = performer(&definition);
    for wait in [Some(30), Some(0), None] {
        match performer.create(&plain_row(&definition)).await.answer {
            CreateAnswer::Throttled(trouble) => {
                assert_eq!(trouble.retry_after, wait.map(Duration::from_secs), "{trouble:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}
