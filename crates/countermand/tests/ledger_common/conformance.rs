//! What every ledger must do, whatever keeps it.

use super::*;
use countermand::core::{
    Cause, Desired, Inputs, Key, News, Notice, Outcome, Turn, UpstreamId, Verdict,
    notice::Told,
    ports::{Action, LedgerError, Order, Query, Request},
};

/// Runs all of it on a ledger that is empty.
pub async fn conformance(ledger: &dyn Ledger) {
    a_row_needs_its_definition(ledger).await;
    a_definition_is_read_as_it_was_written(ledger).await;
    every_column_is_read_as_it_was_written(ledger).await;
    every_column_can_be_updated(ledger).await;
    an_insert_over_a_row_is_fenced(ledger).await;
    a_stale_write_is_fenced_and_a_write_to_nothing_is_absent(ledger).await;
    a_takeover_fences_the_former_holder(ledger).await;
    a_refused_write_leaves_no_history(ledger).await;
    the_history_is_in_order(ledger).await;
    a_listing_answers_its_query(ledger).await;
    a_listing_finds_what_identical_calls_have_started(ledger).await;
    a_listing_finds_what_a_caller_may_not_know(ledger).await;
    pages_follow_each_other_without_a_gap(ledger).await;
    wanted_cancels_are_listed_first_then_what_is_due_first(ledger).await;
    requests_wait_in_order_until_they_are_answered(ledger).await;
    news_waits_in_order_until_it_is_told(ledger).await;
    a_write_that_is_refused_tells_nothing(ledger).await;
    that_it_is_settled_is_news_only_of_what_was_talked_about(ledger).await;
    retention_removes_what_was_settled_before_and_nothing_else(ledger).await;
}

/// What waits, of this row.
async fn waits(ledger: &dyn Ledger, of: &Row, by: i64) -> Vec<Notice> {
    let all = ledger.notices(at(by), 1_000).await.expect("reads");
    all.into_iter().filter(|notice| notice.operation == of.id).collect()
}

/// What waits, and since when.
async fn news(ledger: &dyn Ledger, of: &Row, by: i64) -> Vec<News> {
    waits(ledger, of, by).await.into_iter().map(|notice| notice.news).collect()
}

async fn write(ledger: &dyn Ledger, row: Row, at_second: i64, news: Vec<News>) -> Row {
    let entry = Entry { at: at(at_second), ..entry("changed") };
    ledger.update_with_news(row.clone(), row.epoch, entry, news).await.expect("updates")
}

async fn news_waits_in_order_until_it_is_told(ledger: &dyn Ledger) {
    let first = insert(ledger, row("news")).await;
    let second = insert(ledger, row("news")).await;
    let first = write(ledger, first, 10, vec![News::Orphaned, News::NeedsIntervention]).await;
    let second = write(ledger, second, 20, vec![News::CompensationFailed]).await;
    assert_eq!(waits(ledger, &first, 9).await, []);
    assert_eq!(news(ledger, &second, 19).await, []);
    // Of one operation only the oldest, whenever the others are due.
    let waiting = waits(ledger, &first, 30).await;
    let orphaned = Notice {
        number: waiting[0].number,
        operation: first.id,
        news: News::Orphaned,
        at: at(10),
        attempts: 0,
    };
    assert_eq!(waiting, std::slice::from_ref(&orphaned));
    assert_eq!(news(ledger, &second, 30).await, [News::CompensationFailed]);
    let all = ledger.notices(at(30), 1_000).await.expect("reads");
    let place = |of: &Row| all.iter().position(|notice| notice.operation == of.id);
    assert!(place(&first) < place(&second), "oldest first");
    assert_eq!(ledger.notices(at(30), 1).await.expect("reads").len(), 1);

    let again = Told::Again { at: at(40), error: "refused".into() };
    ledger.told(orphaned.number, again).await.expect("writes");
    assert_eq!(waits(ledger, &first, 39).await, [], "the second does not overtake it");
    assert_eq!(waits(ledger, &first, 40).await, [Notice { attempts: 1, ..orphaned.clone() }]);
    ledger.told(orphaned.number, Told::Done).await.expect("writes");
    assert_eq!(news(ledger, &first, 40).await, [News::NeedsIntervention]);
    for told in [Told::Nobody, Told::GivenUp { error: "refused".into() }] {
        let number = waits(ledger, &first, 40).await[0].number;
        ledger.told(number, told).await.expect("writes");
        assert_eq!(news(ledger, &first, 40).await, []);
        write(ledger, ledger.get(first.id).await.expect("reads"), 40, vec![News::Settled]).await;
        assert_eq!(news(ledger, &first, 40).await, [News::Settled]);
    }
    ledger.told(u64::MAX, Told::Done).await.expect("nothing of that number");
}

async fn a_write_that_is_refused_tells_nothing(ledger: &dyn Ledger) {
    let held = insert(ledger, row("untold")).await;
    let stale = Row { version: 9, ..held.clone() };
    let refused = ledger.update_with_news(stale, 1, entry("stale"), vec![News::Orphaned]).await;
    assert!(matches!(refused, Err(LedgerError::Fenced { .. })), "{refused:?}");
    assert_eq!(news(ledger, &held, i64::MAX).await, []);
}

async fn that_it_is_settled_is_news_only_of_what_was_talked_about(ledger: &dyn Ledger) {
    let quiet = insert(ledger, row("quiet")).await;
    let quiet = write(ledger, quiet, 10, vec![News::Settled]).await;
    assert_eq!(news(ledger, &quiet, 10).await, []);
    let quiet = write(ledger, quiet, 10, vec![News::Orphaned, News::Settled]).await;
    let number = waits(ledger, &quiet, 10).await[0].number;
    ledger.told(number, Told::Done).await.expect("writes");
    assert_eq!(news(ledger, &quiet, 10).await, [News::Settled]);
}

async fn a_row_needs_its_definition(ledger: &dyn Ledger) {
    let refused = ledger.insert(row("nobody"), entry("intended")).await;
    assert!(
        matches!(&refused, Err(LedgerError::Absent { what }) if what.contains("definition d")),
        "{refused:?}"
    );
    assert!(matches!(ledger.definition("d".into()).await, Err(LedgerError::Absent { .. })));
}

async fn a_definition_is_read_as_it_was_written(ledger: &dyn Ledger) {
    define(ledger).await;
    define(ledger).await;
    assert_eq!(ledger.definition("d".into()).await, Ok(definition("d")));
}

async fn every_column_is_read_as_it_was_written(ledger: &dyn Ledger) {
    for row in [row("columns"), full("columns")] {
        let written = insert(ledger, row.clone()).await;
        assert_eq!(written, Row { version: 1, ..row });
        assert_eq!(ledger.get(written.id).await, Ok(written.clone()));
        let listed = ledger.list(Query { id_prefix: Some(written.id.to_string()), ..Query::default() }).await;
        assert_eq!(listed, Ok(vec![written]));
    }
}

async fn every_column_can_be_updated(ledger: &dyn Ledger) {
    let plain = insert(ledger, row("updates")).await;
    let changed = Row { id: plain.id, version: plain.version, ..full("updates") };
    let written = ledger.update(changed.clone(), plain.epoch, entry("changed")).await.expect("updates");
    assert_eq!(written, Row { version: 2, ..changed });
    assert_eq!(ledger.get(plain.id).await, Ok(written.clone()));

    let back = Row { version: 2, ..plain.clone() };
    let written = ledger.update(back, written.epoch, entry("changed back")).await.expect("updates");
    assert_eq!(written, Row { version: 3, ..plain });
    assert_eq!(ledger.get(plain.id).await, Ok(written.clone()));

    let mut last = written;
    for varied in variants(&last) {
        let varied = Row { version: last.version, ..varied };
        last = ledger.update(varied.clone(), last.epoch, entry("varied")).await.expect("updates");
        assert_eq!(ledger.get(last.id).await, Ok(Row { version: last.version, ..varied }));
    }
}

async fn an_insert_over_a_row_is_fenced(ledger: &dyn Ledger) {
    let first = insert(ledger, row("twice")).await;
    let again =
        ledger.insert(Row { version: 0, tool: "another".into(), ..first.clone() }, entry("again")).await;
    assert_eq!(again, Err(LedgerError::Fenced { id: first.id, epoch: 1, version: 1 }));
    assert_eq!(ledger.get(first.id).await, Ok(first));
}

async fn a_stale_write_is_fenced_and_a_write_to_nothing_is_absent(ledger: &dyn Ledger) {
    let first = insert(ledger, row("fences")).await;
    let second = ledger.update(first.clone(), 1, entry("second")).await.expect("updates");
    let fenced = Err(LedgerError::Fenced { id: first.id, epoch: 1, version: 2 });
    assert_eq!(ledger.update(first.clone(), 1, entry("stale version")).await, fenced);
    assert_eq!(ledger.update(second.clone(), 9, entry("stale epoch")).await, fenced);
    assert_eq!(ledger.get(first.id).await, Ok(second));

    let nothing = row("fences");
    let absent = ledger.update(nothing.clone(), 1, entry("to nothing")).await;
    assert!(
        matches!(&absent, Err(LedgerError::Absent { what }) if what.contains(&nothing.id.to_string())),
        "{absent:?}"
    );
    assert!(matches!(ledger.get(nothing.id).await, Err(LedgerError::Absent { .. })));
}

async fn a_takeover_fences_the_former_holder(ledger: &dyn Ledger) {
    let held = insert(ledger, row("takeover")).await;
    let taken =
        ledger.update(Row { epoch: 2, ..held.clone() }, 1, entry("taken_over")).await.expect("updates");
    assert_eq!((taken.epoch, taken.version), (2, 2));
    let late = ledger.update(held.clone(), 1, entry("late")).await;
    assert_eq!(late, Err(LedgerError::Fenced { id: held.id, epoch: 2, version: 2 }));
}

async fn a_refused_write_leaves_no_history(ledger: &dyn Ledger) {
    let held = insert(ledger, row("refused")).await;
    let stale = Row { version: 7, ..held.clone() };
    let refused = futures_util::future::join_all([
        ledger.update(stale.clone(), 1, entry("refused")),
        ledger.insert(stale, entry("refused")),
        ledger.update(held.clone(), 1, entry("accepted")),
    ]);
    let accepted: Vec<bool> = refused.await.iter().map(Result::is_ok).collect();
    assert_eq!(accepted, [false, false, true]);
    assert_eq!(events(ledger, held.id).await, ["intended", "accepted"]);
}

async fn the_history_is_in_order(ledger: &dyn Ledger) {
    let mut row = insert(ledger, row("history")).await;
    let names: Vec<String> = (0..12).map(|number| format!("event {number}")).collect();
    for name in &names {
        let noted = Entry { note: Some(format!("note of {name}")), phase: Phase::Running, ..entry(name) };
        row = ledger.update(row, 1, noted).await.expect("updates");
    }
    let history = ledger.history(row.id).await.expect("reads");
    assert_eq!(history.len(), 13);
    assert_eq!(history[0], entry("intended"));
    let last = Entry { note: Some("note of event 11".into()), phase: Phase::Running, ..entry("event 11") };
    assert_eq!(history[12], last);
    assert_eq!(events(ledger, row.id).await[1..], names);
    assert_eq!(ledger.history(id()).await, Ok(Vec::new()));
}

async fn a_listing_answers_its_query(ledger: &dyn Ledger) {
    let all = Query { principal: Some(Principal::from("listing")), ..Query::default() };
    let early = insert(ledger, Row { next_at: Some(at(10)), ..row("listing") }).await.id;
    let late = insert(ledger, Row { next_at: Some(at(20)), epoch: 2, ..row("listing") }).await.id;
    let never = Row { next_at: None, phase: Phase::NeedsIntervention, ..row("listing") };
    let never = insert(ledger, never).await.id;
    let done = insert(ledger, settled(row("listing"), 30)).await.id;

    assert_eq!(ids(ledger, all.clone()).await, [done, never, late, early]);
    assert_eq!(ids(ledger, Query { order: Order::Oldest, ..all.clone() }).await, [early, late, never, done]);
    assert_eq!(ids(ledger, Query { limit: 2, ..all.clone() }).await, [done, never]);
    assert_eq!(ids(ledger, Query { limit: 0, ..all.clone() }).await, []);
    assert_eq!(ids(ledger, Query { unsettled: true, ..all.clone() }).await, [never, late, early]);
    assert_eq!(ids(ledger, Query { other_than_epoch: Some(1), ..all.clone() }).await, [late]);
    assert_eq!(ids(ledger, Query { due_by: Some(at(9)), ..all.clone() }).await, []);
    assert_eq!(ids(ledger, Query { due_by: Some(at(10)), ..all.clone() }).await, [early]);
    let phases = vec![Phase::Completed, Phase::NeedsIntervention];
    assert_eq!(ids(ledger, Query { phases, ..all.clone() }).await, [done, never]);
    let prefix = late.to_string()[..35].to_uppercase();
    let found = ids(ledger, Query { id_prefix: Some(prefix), ..all.clone() }).await;
    assert!(found.contains(&late) && !found.contains(&id()), "{found:?}");
    assert_eq!(ids(ledger, Query { id_prefix: Some("%".into()), ..all.clone() }).await, []);
    let nobody = Query { principal: Some(Principal::from("listin")), ..all };
    assert_eq!(ids(ledger, nobody).await, []);
}

async fn a_listing_finds_what_identical_calls_have_started(ledger: &dyn Ledger) {
    ledger.define(definition("another")).await.expect("defines");
    let first = insert(ledger, row("identical")).await;
    for other in [
        Row { principal: Principal::from("somebody else"), ..row("identical") },
        Row { tool: "another".into(), ..row("identical") },
        Row { definition: "another".into(), ..row("identical") },
        Row { args_hash: "another".into(), ..row("identical") },
        settled(row("identical"), 1),
    ] {
        insert(ledger, other).await;
    }
    let second = insert(ledger, row("identical")).await;
    let identical = Query { unsettled: true, identity: Some(first.identity()), ..Query::default() };
    assert_eq!(ids(ledger, identical.clone()).await, [second.id, first.id]);
    assert_eq!(ids(ledger, Query { after: Some(second.id), ..identical.clone() }).await, [first.id]);
    assert_eq!(ids(ledger, Query { unsettled: false, ..identical }).await.len(), 3);
}

async fn a_listing_finds_what_a_caller_may_not_know(ledger: &dyn Ledger) {
    let told = Row { delivered_at: Some(at(3)), ..settled(row("untold"), 3) };
    let cancelled = Row { cause: Some(Cause::Deadline), ..told.clone() };
    let cancelled = insert(ledger, Row { id: id(), ..cancelled }).await.id;
    insert(ledger, Row { id: id(), ..told.clone() }).await;
    let undelivered = insert(ledger, Row { id: id(), delivered_at: None, ..told }).await.id;
    insert(ledger, Row { cause: Some(Cause::Deadline), ..row("untold") }).await;
    let untold = Query { untold: true, principal: Some(Principal::from("untold")), ..Query::default() };
    assert_eq!(ids(ledger, untold).await, [undelivered, cancelled]);
}

async fn pages_follow_each_other_without_a_gap(ledger: &dyn Ledger) {
    let mut rows = Vec::new();
    for _ in 0..7 {
        rows.push(insert(ledger, row("pages")).await.id);
    }
    for order in [Order::Oldest, Order::Newest] {
        let mut query =
            Query { principal: Some(Principal::from("pages")), order, limit: 3, ..Query::default() };
        let mut read = Vec::new();
        loop {
            let page = ids(ledger, query.clone()).await;
            let Some(last) = page.last() else { break };
            query.after = Some(*last);
            read.extend(page);
        }
        assert_eq!(read, rows);
        rows.reverse();
    }
}

async fn wanted_cancels_are_listed_first_then_what_is_due_first(ledger: &dyn Ledger) {
    let mut expected = Vec::new();
    let wanted = [
        (Desired::Cancel, Some(3), 5),
        (Desired::Cancel, Some(8), 4),
        (Desired::Cancel, None, 5),
        (Desired::Run, Some(1), 4),
        (Desired::Run, Some(2), 5),
        (Desired::Run, Some(9), 4),
        (Desired::Run, None, 4),
    ];
    // Written from the least urgent on, so that creation says the opposite.
    for (desired, next, epoch) in wanted.into_iter().rev() {
        let row = Row { desired, next_at: next.map(at), epoch, ..row("urgency") };
        expected.insert(0, insert(ledger, row).await.id);
    }
    insert(ledger, settled(row("urgency"), 1)).await;

    let urgent = Query {
        unsettled: true,
        order: Order::Urgency,
        principal: Some(Principal::from("urgency")),
        ..Query::default()
    };
    assert_eq!(ids(ledger, urgent.clone()).await, expected);
    assert_eq!(ids(ledger, Query { limit: 5, ..urgent.clone() }).await, expected[..5]);
    assert_eq!(ids(ledger, Query { limit: 2, ..urgent.clone() }).await, expected[..2]);
    let due = Query { due_by: Some(at(3)), ..urgent.clone() };
    assert_eq!(ids(ledger, due).await, [expected[0], expected[3], expected[4]]);
    let other = Query { other_than_epoch: Some(5), ..urgent.clone() };
    assert_eq!(ids(ledger, other).await, [expected[1], expected[3], expected[5], expected[6]]);
    let all = ids(ledger, Query { unsettled: false, ..urgent }).await;
    assert_eq!(all.len(), 8);
}

async fn requests_wait_in_order_until_they_are_answered(ledger: &dyn Ledger) {
    let actions = [
        Action::Cancel { note: Some("too dear".into()) },
        Action::Cancel { note: None },
        Action::Retry,
        Action::Resolve { verdict: Verdict::NeverCreated, note: "I looked".into() },
    ];
    let requests: Vec<Request> =
        actions.into_iter().map(|action| Request { operation: id(), action }).collect();
    for request in &requests {
        ledger.file_request(request.clone()).await.expect("files");
    }
    assert_eq!(super::waiting(ledger).await, requests);
    let first = ledger.requests().await.expect("reads")[0].number;
    ledger.answered(first).await.expect("removes");
    ledger.answered(first).await.expect("removes what is gone");
    assert_eq!(super::waiting(ledger).await, requests[1..]);
}

async fn retention_removes_what_was_settled_before_and_nothing_else(ledger: &dyn Ledger) {
    ledger.define(definition("of the kept")).await.expect("defines");
    let unsettled = Row { updated_at: at(-9), definition: "of the kept".into(), ..row("retention") };
    let unsettled = insert(ledger, unsettled).await;
    let gone_missing = Row { updated_at: at(-9), phase: Phase::NeedsIntervention, ..row("retention") };
    let gone_missing = insert(ledger, gone_missing).await;
    let recent = insert(ledger, settled(row("retention"), 0)).await;
    let mut old = Vec::new();
    for _ in 0..450 {
        old.push(ledger.insert(settled(row("retention"), -1), entry("intended")));
    }
    let old: Vec<Row> = futures_util::future::try_join_all(old).await.expect("inserts");
    let talked_about = write(ledger, unsettled.clone(), 0, vec![News::Orphaned]).await;
    let told = Row { updated_at: at(-1), ..old[1].clone() };
    write(ledger, told, 0, vec![News::Orphaned, News::Settled]).await;

    assert_eq!(ledger.prune(at(0)).await, Ok(450));
    assert_eq!(ledger.prune(at(0)).await, Ok(0));
    let all = Query { principal: Some(Principal::from("retention")), ..Query::default() };
    assert_eq!(ids(ledger, all).await, [recent.id, gone_missing.id, unsettled.id]);
    assert_eq!(ledger.history(old[0].id).await, Ok(Vec::new()));
    assert_eq!(events(ledger, unsettled.id).await, ["intended", "changed"]);
    assert_eq!(news(ledger, &talked_about, 0).await, [News::Orphaned]);
    assert_eq!(news(ledger, &old[1], 0).await, []);
    assert_eq!(ledger.definition("of the kept".into()).await, Ok(definition("of the kept")));
}

async fn ids(ledger: &dyn Ledger, query: Query) -> Vec<OperationId> {
    ledger.list(query).await.expect("lists").iter().map(|row| row.id).collect()
}

async fn events(ledger: &dyn Ledger, id: OperationId) -> Vec<String> {
    ledger.history(id).await.expect("reads").into_iter().map(|entry| entry.event).collect()
}

/// A row with a value of its own in every column.
pub fn full(principal: &str) -> Row {
    let key = |byte| Key::from_random([byte; 16]);
    Row {
        id: id(),
        call: CallId(Uuid::now_v7()),
        session: Some("session".into()),
        request_id: Some("\"7\"".into()),
        principal: Principal::from(principal),
        tool: "tool ü 'quoted' \"twice\"".into(),
        args_hash: "hash".into(),
        inputs: Inputs::Values(
            json!({ "tag": "a", "n": 1.5, "list": [null, true] }).as_object().expect("is one").clone(),
        ),
        definition: "d".into(),
        policy: policy(),
        upstream: "upstream".into(),
        kind: Kind::Http,
        detail: json!({ "saved": { "url": "/x" } }).as_object().expect("is one").clone(),
        parent: Some(id()),
        ordinal: 1,
        phase: Phase::Orphaned,
        was: Some(Phase::CancelRequested),
        desired: Desired::Cancel,
        cause: Some(Cause::Deadline),
        reason: Some("reason".into()),
        outcome: Some(Outcome::Gone),
        key: key(1),
        undo_key: Some(key(2)),
        undo_next: 2,
        upstream_id: Some(UpstreamId::from("upstream id")),
        on_disconnect: OnDisconnect::Grace(Duration::from_micros(1_500_001)),
        awaited: false,
        cancel_requested_at: Some(at(101)),
        phase_since: at(102),
        missing_since: Some(at(103)),
        create_sent_at: Some(at(104)),
        create_horizon: Some(at(105)),
        hard_deadline: at(106),
        disconnect_at: Some(at(107)),
        ended_seen_at: Some(at(108)),
        delivered_at: Some(at(109)),
        settled_at: Some(at(110)),
        attempts: u32::MAX,
        turn: Some(Turn::Undo),
        turn_at: Some(at(111)),
        cancel_at: Some(at(112)),
        next_at: Some(at(i64::MIN)),
        last_error: Some("last error".into()),
        owner: Owner::from("owner"),
        epoch: 3,
        lease_until: Some(at(113)),
        version: 0,
        created_at: at(114),
        updated_at: at(115),
    }
}

/// The row with each word that a column can hold.
fn variants(row: &Row) -> Vec<Row> {
    let mut varied: Vec<Row> = Vec::new();
    varied.extend(Phase::ALL.iter().map(|phase| Row { phase: *phase, was: Some(*phase), ..row.clone() }));
    varied.extend(Kind::ALL.iter().map(|kind| Row { kind: *kind, ..row.clone() }));
    varied.extend(Cause::ALL.iter().map(|cause| Row { cause: Some(*cause), ..row.clone() }));
    varied.extend(Outcome::ALL.iter().map(|outcome| Row { outcome: Some(*outcome), ..row.clone() }));
    varied.extend(Turn::ALL.iter().map(|turn| Row { turn: Some(*turn), ..row.clone() }));
    varied.extend(Desired::ALL.iter().map(|desired| Row { desired: *desired, ..row.clone() }));
    let disconnects =
        [OnDisconnect::Cancel, OnDisconnect::Detach, OnDisconnect::Grace(Duration::from_nanos(1))];
    varied.extend(disconnects.map(|on_disconnect| Row { on_disconnect, ..row.clone() }));
    varied.push(Row { inputs: Inputs::Sealed("0".repeat(64)), ..row.clone() });
    varied
}
