//! Listings: a query as SQL that an index answers in order, so that no page costs more than its rows.

use super::{
    columns::{self, COLUMNS},
    definitions::Known,
    error::Failure,
};
use countermand_core::{
    Row,
    phase::Desired,
    ports::{Order, Query},
};
use rusqlite::{Connection, params_from_iter, types::Value};

/// The index's expression, to the letter: what is never due comes last.
const DUE: &str = "coalesce(next_at, 9223372036854775807)";

/// Reads the rows of a query, from one snapshot.
pub(super) fn list(connection: &Connection, known: &Known, query: &Query) -> Result<Vec<Row>, Failure> {
    let snapshot = connection.unchecked_transaction()?;
    let rows = match query.order {
        Order::Newest => run(&snapshot, known, &by_id(query, "DESC"))?,
        Order::Oldest => run(&snapshot, known, &by_id(query, "ASC"))?,
        Order::Urgency if only_unsettled(query) => by_urgency(&snapshot, known, query)?,
        Order::Urgency => {
            run(&snapshot, known, &Select::of(query).ordered(&format!("desired, {DUE}"), query.limit))?
        }
    };
    Ok(rows)
}

/// By creation: ids are UUIDs of version 7, which sort by it.
fn by_id(query: &Query, direction: &str) -> Select {
    let mut select = Select::of(query);
    if let Some(after) = query.after {
        let beyond = if direction == "DESC" { "id < ?" } else { "id > ?" };
        select.and(beyond, [Value::Text(after.to_string())]);
    }
    select.ordered(&format!("id {direction}"), query.limit)
}

/// By urgency: in the index, the rows of one epoch and one wish lie in order. Rows are
/// almost always of one or two epochs, so the few ranges are read one by one and merged; a sort over all that is
/// unsettled would make each page cost as much as the whole.
fn by_urgency(connection: &Connection, known: &Known, query: &Query) -> Result<Vec<Row>, Failure> {
    let epochs = epochs(connection, query.other_than_epoch)?;
    let mut rows = Vec::new();
    for desired in [Desired::Cancel, Desired::Run] {
        let left = query.limit.saturating_sub(rows.len());
        if left == 0 {
            break;
        }
        let mut wanted = Vec::new();
        for epoch in &epochs {
            wanted.extend(run(connection, known, &lane(query, *epoch, desired, left))?);
        }
        if epochs.len() > 1 {
            wanted.sort_by_key(|row| row.next_at.map_or(i64::MAX, |at| at.as_micros()));
            wanted.truncate(left);
        }
        rows.extend(wanted);
    }
    Ok(rows)
}

/// One range of the index.
fn lane(query: &Query, epoch: i64, desired: Desired, limit: usize) -> Select {
    // The epoch is given: that it is not the other one has been seen to.
    let mut select = Select::of(&Query { other_than_epoch: None, due_by: None, ..query.clone() });
    select.and("epoch = ?", [Value::Integer(epoch)]);
    select.and("desired = ?", [Value::Text(desired.as_str().to_owned())]);
    if let Some(by) = query.due_by {
        select.and(&format!("{DUE} <= ?"), [Value::Integer(by.as_micros())]);
        select.and("next_at IS NOT NULL", []);
    }
    select.ordered(DUE, limit)
}

/// The epochs that unsettled rows have, by leaps through the index.
fn epochs(connection: &Connection, but: Option<u64>) -> Result<Vec<i64>, Failure> {
    let mut next = connection.prepare_cached(NEXT_EPOCH)?;
    let mut found = Vec::new();
    let mut last = i64::MIN;
    while let Some(epoch) = next.query_row([last], |row| row.get::<_, Option<i64>>(0))? {
        last = epoch;
        if but.is_none_or(|but| u64::try_from(epoch) != Ok(but)) {
            found.push(epoch);
        }
    }
    Ok(found)
}

const NEXT_EPOCH: &str = "SELECT min(epoch) FROM operations WHERE settled = 0 AND epoch > ?1";

/// Whether no settled row can be an answer, said or not.
fn only_unsettled(query: &Query) -> bool {
    let phases = &query.phases;
    query.unsettled || (!phases.is_empty() && phases.iter().all(|phase| !phase.is_settled()))
}

fn run(connection: &Connection, known: &Known, select: &Select) -> Result<Vec<Row>, Failure> {
    let mut statement = connection.prepare_cached(&select.sql)?;
    let mut stored = statement.query(params_from_iter(&select.values))?;
    let mut rows = Vec::new();
    while let Some(stored) = stored.next()? {
        rows.push(columns::row(stored, |hash| known.policy(connection, hash))?);
    }
    Ok(rows)
}

/// A statement in the making.
struct Select {
    sql: String,
    values: Vec<Value>,
}

impl Select {
    /// All conditions of a query but those that belong to its order.
    fn of(query: &Query) -> Self {
        let sql = format!("SELECT {} FROM operations WHERE true", COLUMNS.join(", "));
        let mut select = Self { sql, values: Vec::new() };
        if only_unsettled(query) {
            // A literal: a parameter would not let a partial index answer.
            select.and("settled = 0", []);
        }
        if query.untold {
            // To the letter what the partial index says.
            select.and("settled = 1 AND (cause IS NOT NULL OR delivered_at IS NULL)", []);
        }
        if let Some(epoch) = query.other_than_epoch {
            select.and("epoch <> ?", [Value::Integer(i64::try_from(epoch).unwrap_or(i64::MAX))]);
        }
        if let Some(by) = query.due_by {
            select.and("next_at <= ?", [Value::Integer(by.as_micros())]);
        }
        if !query.phases.is_empty() {
            let places = vec!["?"; query.phases.len()].join(", ");
            let words = query.phases.iter().map(|phase| Value::Text(phase.as_str().to_owned()));
            select.and(&format!("phase IN ({places})"), words);
        }
        if let Some(principal) = &query.principal {
            select.and("principal = ?", [Value::Text(principal.0.clone())]);
        }
        if let Some(identity) = &query.identity {
            let values = [&identity.principal.0, &identity.tool, &identity.definition.0, &identity.args_hash]
                .map(|text| Value::Text(text.clone()));
            select.and("principal = ? AND tool = ? AND definition = ? AND args_hash = ?", values);
        }
        if let Some(prefix) = &query.id_prefix {
            // Ids are lower-case hexadecimal and `-`: `~` sorts after all of it.
            let prefix = prefix.to_ascii_lowercase();
            let end = format!("{prefix}~");
            select.and("id >= ? AND id < ?", [Value::Text(prefix), Value::Text(end)]);
        }
        select
    }

    fn and(&mut self, condition: &str, values: impl IntoIterator<Item = Value>) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self.values.extend(values);
    }

    fn ordered(mut self, order: &str, limit: usize) -> Self {
        self.sql.push_str(&format!(" ORDER BY {order} LIMIT ?"));
        self.values.push(Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX)));
        self
    }
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::ledger::schema;
    use countermand_core::{OperationId, Phase, Principal, Timestamp};

    fn ledger() -> Connection {
        let mut connection = Connection::open_in_memory().expect("opens");
        schema::migrate(&mut connection, 0, schema::MIGRATIONS).expect("migrates");
        connection
    }

    fn plan(sql: &str, values: &[Value]) -> String {
        let connection = ledger();
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("is SQL");
        let lines =
            statement.query_map(params_from_iter(values), |row| row.get::<_, String>(3)).expect("plans");
        lines.collect::<rusqlite::Result<Vec<_>>>().expect("plans").join("; ")
    }

    fn searches(select: &Select, with: &str) {
        let plan = plan(&select.sql, &select.values);
        assert!(plan.contains(with), "{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "it sorts: {plan}");
    }

    fn unsettled() -> Query {
        Query { unsettled: true, ..Query::default() }
    }

    #[test]
    fn the_due_rows_are_read_in_order_from_the_index_of_unsettled_ones() {
        let due = Query { due_by: Some(Timestamp::from_micros(1)), order: Order::Urgency, ..unsettled() };
        searches(
            &lane(&due, 1, Desired::Cancel, 10),
            "USING INDEX unsettled_by_urgency (epoch=? AND desired=? AND <expr><?)",
        );
    }

    #[test]
    fn the_rows_of_another_epoch_are_read_in_order_from_the_index_of_unsettled_ones() {
        let other = Query { other_than_epoch: Some(2), order: Order::Urgency, ..unsettled() };
        searches(
            &lane(&other, 1, Desired::Run, 10),
            "USING INDEX unsettled_by_urgency (epoch=? AND desired=?)",
        );
    }

    #[test]
    fn the_epochs_are_found_by_leaps() {
        let plan = plan(NEXT_EPOCH, &[Value::Integer(0)]);
        assert!(
            plan.contains("SEARCH operations USING COVERING INDEX unsettled_by_urgency (epoch>?)"),
            "{plan}"
        );
    }

    #[test]
    fn a_principals_rows_are_read_in_order_from_their_index() {
        let hers = Query { principal: Some(Principal::from("p")), ..Query::default() };
        searches(&by_id(&hers, "DESC"), "USING INDEX operations_by_principal (principal=?)");
    }

    #[test]
    fn the_newest_rows_are_read_from_the_end_of_the_ids() {
        searches(
            &by_id(&Query::default(), "DESC"),
            "SCAN operations USING INDEX sqlite_autoindex_operations_1",
        );
        let after = Query { after: Some(OperationId(uuid::Uuid::nil())), ..Query::default() };
        searches(
            &by_id(&after, "DESC"),
            "SEARCH operations USING INDEX sqlite_autoindex_operations_1 (id<?)",
        );
    }

    #[test]
    fn the_newest_unsettled_rows_do_not_look_at_settled_ones() {
        searches(&by_id(&unsettled(), "DESC"), "USING INDEX unsettled_by_id");
        let orphans = Query { phases: vec![Phase::Orphaned], ..Query::default() };
        searches(&by_id(&orphans, "DESC"), "USING INDEX unsettled_by_id");
    }

    #[test]
    fn the_unsettled_rows_of_identical_calls_are_read_from_their_index() {
        let identity = countermand_core::Identity {
            principal: Principal::from("p"),
            tool: "t".into(),
            definition: "d".into(),
            args_hash: "a".into(),
        };
        let identical = Query { identity: Some(identity), ..unsettled() };
        searches(
            &by_id(&identical, "DESC"),
            "USING INDEX unsettled_by_identity (principal=? AND tool=? AND definition=? AND args_hash=?)",
        );
    }

    #[test]
    fn what_a_caller_may_not_know_is_read_past_all_that_it_knows() {
        let hers = Query { untold: true, principal: Some(Principal::from("p")), ..Query::default() };
        searches(&by_id(&hers, "DESC"), "USING INDEX untold_by_principal (principal=?)");
        let running = Query { principal: Some(Principal::from("p")), ..unsettled() };
        searches(&by_id(&running, "DESC"), "USING INDEX unsettled_by_principal (principal=?)");
    }

    #[test]
    fn retention_reads_the_index_of_settled_rows() {
        let plan = plan(super::super::retention::OLDEST, &[Value::Integer(0), Value::Integer(9)]);
        assert!(plan.contains("USING COVERING INDEX settled_by_age (updated_at<?)"), "{plan}");
    }
}
