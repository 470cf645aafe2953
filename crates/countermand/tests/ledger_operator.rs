//! An operator's process and a gateway's on one file.

mod ledger_common;

use countermand::core::{
    Verdict,
    ports::{Action, Ledger as _, Query, Request},
};
use futures_util::future::join_all;
use ledger_common::{define, entry, gateway, id, insert, operator, row, waiting};

#[tokio::test]
async fn what_an_operator_files_is_taken_by_the_gateway_once() {
    let directory = tempfile::tempdir().expect("makes a directory");
    let path = directory.path().join("ledger.db");
    let gateway = gateway(&path);
    let operator = operator(&path);
    let cancel = Request { operation: id(), action: Action::Cancel { note: Some("too dear".into()) } };
    let resolve = Request {
        operation: id(),
        action: Action::Resolve { verdict: Verdict::Stopped, note: "seen".into() },
    };
    operator.file_request(cancel.clone()).await.expect("files");
    operator.file_request(resolve.clone()).await.expect("files");
    assert_eq!(waiting(&gateway).await, [cancel, resolve]);
    for filed in gateway.requests().await.expect("reads") {
        gateway.answered(filed.number).await.expect("removes");
    }
    assert_eq!(waiting(&gateway).await, []);
}

#[tokio::test]
async fn what_was_filed_while_no_gateway_ran_is_taken_by_the_next() {
    let directory = tempfile::tempdir().expect("makes a directory");
    let path = directory.path().join("ledger.db");
    drop(gateway(&path));
    let request = Request { operation: id(), action: Action::Retry };
    operator(&path).file_request(request.clone()).await.expect("files");
    assert_eq!(waiting(&gateway(&path)).await, [request]);
}

#[tokio::test]
async fn an_operator_reads_what_the_gateway_writes_while_it_writes() {
    let directory = tempfile::tempdir().expect("makes a directory");
    let path = directory.path().join("ledger.db");
    let gateway = gateway(&path);
    define(&gateway).await;
    let operator = operator(&path);
    let row = insert(&gateway, row("p")).await;
    assert_eq!(operator.get(row.id).await, Ok(row.clone()));
    let row = gateway.update(row, 1, entry("changed")).await.expect("updates");
    assert_eq!(operator.list(Query::default()).await, Ok(vec![row]));
}

#[tokio::test]
async fn a_gateway_at_work_and_an_operator_do_not_fail_each_other() {
    let directory = tempfile::tempdir().expect("makes a directory");
    let path = directory.path().join("ledger.db");
    let gateway = gateway(&path);
    define(&gateway).await;
    let operator = operator(&path);
    let requests: Vec<Request> =
        (0..20).map(|_| Request { operation: id(), action: Action::Cancel { note: None } }).collect();
    let work = join_all((0..200).map(|_| async {
        let row = insert(&gateway, row("p")).await;
        gateway.update(row, 1, entry("changed")).await.expect("updates");
    }));
    let filing = join_all(requests.iter().map(|request| operator.file_request(request.clone())));
    let (_, filed) = tokio::join!(work, filing);
    assert!(filed.iter().all(Result::is_ok), "{filed:?}");
    let mut taken = waiting(&gateway).await;
    taken.sort_by_key(|request| request.operation);
    assert_eq!(taken, requests);
}
