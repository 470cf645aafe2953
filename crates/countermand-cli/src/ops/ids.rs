//! Short ids. Ids of one minute begin alike, so it is their endings that are shown: those are random.

use countermand::core::{OperationId, Row};
use std::collections::HashSet;

/// The least that is shown of an id.
pub(super) const SHORTEST: usize = 8;

/// How much of each id has to be shown, so that no two of these rows look alike.
pub(super) fn ending_length(rows: &[Row]) -> usize {
    let ids: Vec<String> = rows.iter().map(|row| row.id.to_string()).collect();
    let whole = ids.first().map_or(SHORTEST, String::len);
    let differ = |length: &usize| {
        let mut seen = HashSet::new();
        ids.iter().all(|id| seen.insert(&id[id.len() - length..]))
    };
    (SHORTEST..whole).find(differ).unwrap_or(whole)
}

/// The ending of an id, as tables show it and commands take it.
pub(super) fn ending(id: OperationId, length: usize) -> String {
    let id = id.to_string();
    format!("…{}", &id[id.len() - length..])
}
