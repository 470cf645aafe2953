//! The SQLite ledger does what every ledger must, whatever rows and questions it gets.

mod ledger_common;

use countermand::core::{
    Desired, OperationId, Phase, Principal, Row, Timestamp,
    ports::{Ledger as _, Order, Query},
};
use ledger_common::{
    at,
    conformance::{conformance, full},
    define, entry, gateway, row,
};
use proptest::prelude::*;

#[tokio::test]
async fn the_sqlite_ledger_does_what_every_ledger_must() {
    let directory = tempfile::tempdir().expect("makes a directory");
    conformance(&gateway(&directory.path().join("ledger.db"))).await;
}

/// Few values for each column that a query looks at, so that they meet.
fn some_row() -> impl Strategy<Value = Row> {
    let phases = prop::sample::select(Phase::ALL);
    let wishes = prop::sample::select(Desired::ALL);
    (any::<bool>(), phases, wishes, prop::option::of(0_i64..6), 1_u64..4, 0_u8..3).prop_map(
        |(many, phase, desired, next, epoch, principal)| {
            let principal = format!("p{principal}");
            let row = if many { full(&principal) } else { row(&principal) };
            Row { phase, desired, next_at: next.map(at), epoch, ..row }
        },
    )
}

fn some_query() -> impl Strategy<Value = Query> {
    let whose = (
        any::<bool>(),
        prop::option::of(0_u8..4).prop_map(|number| Some(row(&format!("p{}", number?)).identity())),
    );
    let order = prop::sample::select(vec![Order::Newest, Order::Oldest, Order::Urgency]);
    (
        any::<bool>(),
        prop::option::of(0_u64..5),
        prop::option::of(0_i64..7),
        prop::collection::vec(prop::sample::select(Phase::ALL), 0..3),
        prop::option::of(0_u8..4),
        order,
        0_usize..30,
        whose,
    )
        .prop_map(|(unsettled, epoch, due, phases, principal, order, limit, (untold, identity))| Query {
            untold,
            identity,
            unsettled,
            other_than_epoch: epoch,
            due_by: due.map(at),
            phases,
            principal: principal.map(|number| Principal(format!("p{number}"))),
            order,
            limit,
            ..Query::default()
        })
}

/// What a query means, without an index.
fn answers(row: &Row, query: &Query) -> bool {
    (!query.unsettled || !row.phase.is_settled())
        && (!query.untold || row.phase.is_settled() && (row.cause.is_some() || row.delivered_at.is_none()))
        && query.identity.as_ref().is_none_or(|identity| row.identity() == *identity)
        && query.other_than_epoch.is_none_or(|epoch| row.epoch != epoch)
        && query.due_by.is_none_or(|by| row.next_at.is_some_and(|next| next <= by))
        && (query.phases.is_empty() || query.phases.contains(&row.phase))
        && query.principal.as_ref().is_none_or(|principal| row.principal == *principal)
}

/// Where a row comes in an order; rows of one place may come either way round.
fn place(row: &Row, order: Order) -> (Option<OperationId>, bool, Option<Timestamp>) {
    match order {
        Order::Newest | Order::Oldest => (Some(row.id), false, None),
        Order::Urgency => (None, row.desired != Desired::Cancel, Some(row.next_at.unwrap_or(at(i64::MAX)))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_read_as_they_were_written_and_listings_are_what_the_query_means(
        rows in prop::collection::vec(some_row(), 0..40),
        queries in prop::collection::vec(some_query(), 12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("starts");
        let directory = tempfile::tempdir().expect("makes a directory");
        let ledger = gateway(&directory.path().join("ledger.db"));
        runtime.block_on(define(&ledger));
        let inserts = rows.into_iter().map(|row| ledger.insert(row, entry("intended")));
        let rows = runtime.block_on(futures_util::future::try_join_all(inserts)).expect("inserts");
        for row in &rows {
            prop_assert_eq!(&runtime.block_on(ledger.get(row.id)).expect("reads"), row);
        }
        for query in queries {
            let listed = runtime.block_on(ledger.list(query.clone())).expect("lists");
            let mut meant: Vec<&Row> = rows.iter().filter(|row| answers(row, &query)).collect();
            meant.sort_by_key(|row| place(row, query.order));
            if query.order == Order::Newest {
                meant.reverse();
            }
            meant.truncate(query.limit);
            let places = |rows: &[&Row]| rows.iter().map(|row| place(row, query.order)).collect::<Vec<_>>();
            prop_assert_eq!(places(&listed.iter().collect::<Vec<_>>()), places(&meant), "{:?}", query);
            prop_assert!(listed.iter().all(|row| rows.contains(row) && answers(row, &query)), "{:?}", query);
        }
    }
}
