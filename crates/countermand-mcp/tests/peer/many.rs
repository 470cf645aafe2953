//! Ten thousand requests in flight on one pair of streams.

use crate::support::{Fake, ask, lost, result, soon};
use countermand_mcp::{CancelFate, Lost};
use std::collections::HashSet;

const MANY: usize = 10_000;

#[tokio::test]
async fn ten_thousand_requests_are_in_flight_and_each_gets_its_own_answer_or_cancel() {
    let (mut fake, peer, _heard) = Fake::connected().await;
    let mut pendings: Vec<_> =
        (0..MANY).map(|nth| peer.request(ask("tools/call", &[("nth", &nth.to_string())]))).collect();
    let mut requests = Vec::with_capacity(MANY);
    for _ in 0..MANY {
        requests.push(fake.read().await);
    }
    // Every other one is cancelled, and none besides.
    let mut receipts = Vec::new();
    for pending in pendings.iter_mut().step_by(2) {
        receipts.push(pending.cancel(None));
    }
    let mut cancelled = HashSet::new();
    for _ in 0..MANY / 2 {
        cancelled.insert(fake.read().await["params"]["requestId"].as_u64().unwrap());
    }
    for mut receipt in receipts {
        assert_eq!(soon("a fate", receipt.fate()).await, CancelFate::Written);
    }
    let wanted: HashSet<u64> = requests.iter().step_by(2).map(|it| it["id"].as_u64().unwrap()).collect();
    assert_eq!(cancelled, wanted);
    for request in requests.iter().skip(1).step_by(2).rev() {
        fake.answer(request, &format!("{{\"nth\":{}}}", request["params"]["nth"])).await;
    }
    for (nth, pending) in pendings.iter_mut().enumerate().skip(1).step_by(2) {
        assert_eq!(result(pending).await, format!("{{\"nth\":{nth}}}"));
    }
    fake.output = None;
    for pending in pendings.iter_mut().step_by(2) {
        assert_eq!(lost(pending).await, Lost::Ended);
    }
}
