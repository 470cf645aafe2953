//! Over a pair of streams: what is said goes both ways unharmed, and everything finds its request.

use crate::support::{Fake, answer, ask, call, connecting, fake, lost, next, raw, result, soon};
use countermand_mcp::{CancelFate, Happened, Heard, Lost, Outgoing, PeerOptions, Revision, RpcError};
use serde_json::json;

#[tokio::test]
async fn the_server_is_told_of_the_client_and_the_client_of_the_server() {
    let (mut fake, target) = fake();
    let connecting = connecting(target, Revision::V2025_06_18, PeerOptions::default());
    let asked = fake.initialize("2025-06-18").await;
    assert_eq!(asked["params"]["protocolVersion"], "2025-06-18");
    assert_eq!(asked["params"]["clientInfo"]["name"], "tester");
    assert_eq!(asked["params"]["capabilities"]["x"].to_string(), "1.0");
    let (peer, _heard) = soon("a connection", connecting).await.unwrap().unwrap();
    let hello = peer.hello();
    assert_eq!((hello.revision, hello.version.as_str()), (Revision::V2025_06_18, "2025-06-18"));
    assert_eq!(hello.capabilities.get(), r#"{"tools":{ }}"#);
    assert_eq!(hello.server_info.as_ref().unwrap().get(), r#"{"name":"fake"}"#);
    assert_eq!(hello.instructions.as_deref(), Some("Ask."));
    assert!(hello.raw.get().ends_with(r#""own":1.0}"#));
}

#[tokio::test]
async fn what_nobody_knows_passes_byte_for_byte() {
    let (mut fake, peer, mut heard) = Fake::connected().await;
    let mut pending = peer.request(Outgoing {
        meta: vec![("x.y/z".into(), raw("1e0"))],
        ..ask("no/such \u{e9}", &[("a", r#"{"b" : [1.0, 0.10]}"#), ("task", "null")])
    });
    let line = fake.line().await.unwrap();
    let id = pending.id().get().to_owned();
    assert_eq!(
        line.trim_end(),
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"no/such é","params":{{"a":{{"b" : [1.0, 0.10]}},"task":null,"_meta":{{"x.y/z":1e0}}}}}}"#
        )
    );
    let odd = r#"{ "q" : 1.00, "resultType" : "odd", "e":"\u00e9" }"#;
    fake.say(&format!(r#"{{"jsonrpc":"2.0","more":1,"id":{id},"result":{odd}}}"#)).await;
    assert_eq!(result(&mut pending).await, odd);

    fake.say(r#"{"jsonrpc":"2.0","method":"notifications/odd","params":{ "v" : 1.0 }}"#).await;
    match soon("a notification", heard.recv()).await.unwrap() {
        Heard::Noted { method, params } => {
            assert_eq!((method.as_str(), params.unwrap().get()), ("notifications/odd", r#"{ "v" : 1.0 }"#));
        }
        Heard::Asked(ask) => panic!("{ask:?}"),
    }
    peer.notify("notifications/mine", Some(raw("{ \"w\" :\n 2.0 }")));
    assert_eq!(
        fake.line().await.unwrap().trim_end(),
        r#"{"jsonrpc":"2.0","method":"notifications/mine","params":{ "w" :  2.0 }}"#
    );
}

#[tokio::test]
async fn an_error_is_passed_on_with_its_data() {
    let (mut fake, peer, _heard) = Fake::connected().await;
    let mut pending = peer.request(call("x"));
    let request = fake.read().await;
    fake.refuse(&request, r#"{"code":-31000,"message":"no \"x\"","data":{"d" : 1.0}}"#).await;
    let RpcError { code, message, data } = answer(&mut pending).await.unwrap_err();
    assert_eq!((code, message.as_str()), (-31000, "no \"x\""));
    assert_eq!(data.unwrap().get(), r#"{"d" : 1.0}"#);
    assert!(matches!(next(&mut pending).await, Happened::Lost(Lost::Answered)));
}

#[tokio::test]
async fn progress_reaches_the_request_that_it_is_of() {
    let (mut fake, peer, _heard) = Fake::connected().await;
    let (mut one, mut other) = (peer.request(call("one")), peer.request(call("other")));
    let requests = [fake.read().await, fake.read().await];
    for (nth, request) in requests.iter().enumerate().rev() {
        let token = &request["params"]["_meta"]["progressToken"];
        fake.say(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{nth}.5,"total":3,"message":"m{nth}","own":1.0}}}}"#
        ))
        .await;
    }
    for (nth, pending) in [&mut one, &mut other].into_iter().enumerate() {
        let Happened::Progress(note) = next(pending).await else { panic!("no progress") };
        assert_eq!(note.progress.to_string(), format!("{nth}.5"));
        assert_eq!((note.total, note.message.as_deref()), (Some(3.0), Some(format!("m{nth}").as_str())));
        assert!(note.raw.get().ends_with(r#""own":1.0}"#));
    }
}

#[tokio::test]
async fn a_cancel_stops_exactly_the_one_request() {
    let (mut fake, peer, _heard) = Fake::connected().await;
    let mut pendings: Vec<_> = (0..3).map(|_| peer.request(call("x"))).collect();
    let mut requests = Vec::new();
    for _ in 0..3 {
        requests.push(fake.read().await);
    }
    let mut receipt = pendings[1].cancel(Some("changed my mind"));
    let cancel = fake.read().await;
    assert_eq!(
        cancel,
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": { "requestId": requests[1]["id"], "reason": "changed my mind" } })
    );
    assert_eq!(soon("the fate of the cancel", receipt.fate()).await, CancelFate::Written);
    fake.answer(&requests[0], r#"{"nth":0}"#).await;
    fake.answer(&requests[2], r#"{"nth":2}"#).await;
    assert_eq!(result(&mut pendings[0]).await, r#"{"nth":0}"#);
    assert_eq!(result(&mut pendings[2]).await, r#"{"nth":2}"#);
    // Twice is once, and an answer that comes all the same is there for who still waits.
    assert_eq!(pendings[1].cancel(None).fate().await, CancelFate::Written);
    fake.answer(&requests[1], r#"{"nth":1}"#).await;
    assert_eq!(result(&mut pendings[1]).await, r#"{"nth":1}"#);
    drop(pendings);
    peer.close(std::time::Duration::from_millis(1)).await;
    assert_eq!(fake.rest().await, Vec::<serde_json::Value>::new());
}

#[tokio::test]
async fn the_end_of_the_servers_output_loses_what_is_in_flight() {
    let (mut fake, peer, mut heard) = Fake::connected().await;
    let mut pending = peer.request(call("x"));
    fake.read().await;
    fake.output = None;
    assert_eq!(lost(&mut pending).await, Lost::Ended);
    assert_eq!(soon("the end", peer.closed()).await, Lost::Ended);
    assert!(soon("the end", heard.recv()).await.is_none());
    assert!(matches!(lost(&mut peer.request(call("x"))).await, Lost::NotSent(_)));
}
