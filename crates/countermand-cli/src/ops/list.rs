//! `ops list`.

use super::{
    ALL, Where, as_json, ids, is_alarming,
    states::States,
    table::{self, Column, clip, one_line},
    times,
};
use anyhow::Result;
use clap::Args;
use countermand::{
    clock::SystemClock,
    core::{Row, ports::Ledger as _},
};

/// What to list.
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    states: States,
    /// At most so many; without it, all that retention keeps
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(list: List) -> Result<()> {
    let query = list.states.query(list.limit.unwrap_or(ALL));
    let mut rows: Vec<Row> = Vec::new();
    for (_, ledger) in list.place.open_all()? {
        rows.extend(ledger.list(query.clone()).await?);
    }
    rows.sort_by_key(|row| std::cmp::Reverse((row.created_at, row.id)));
    rows.truncate(list.limit.unwrap_or(usize::MAX));
    if list.json {
        for row in &rows {
            super::print(format_args!("{}\n", as_json(row)))?;
        }
        return Ok(());
    }
    if rows.is_empty() {
        return super::print(format_args!("No operations.\n"));
    }
    super::print(format_args!("{}", table(&rows, crate::terminal_width().map(usize::from))))?;
    let alarming = rows.iter().filter(|row| is_alarming(row.phase)).count();
    let unsettled = rows.iter().filter(|row| !row.phase.is_settled()).count();
    super::print(format_args!(
        "{} listed, {unsettled} unsettled, {alarming} of them need a look.\n",
        rows.len()
    ))
}

const COLUMNS: [Column; 7] = [
    Column { head: "CREATED", least: None, rank: 3 },
    Column { head: "ID", least: None, rank: 0 },
    Column { head: "TOOL", least: Some(8), rank: 2 },
    Column { head: "UPSTREAM ID", least: Some(6), rank: 5 },
    Column { head: "PHASE", least: None, rank: 0 },
    Column { head: "CAUSE", least: Some(8), rank: 4 },
    Column { head: "LAST ERROR", least: Some(12), rank: 1 },
];

/// A terminal that is narrower than this shows errors beneath their rows.
const ROOM_FOR_ERRORS: usize = 140;

/// Fitted to a terminal; for a program everything is whole, and no cell but the last has a space.
fn table(rows: &[Row], width: Option<usize>) -> String {
    let now = SystemClock::new().at();
    let endings = ids::ending_length(rows);
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let (created, id) = match width {
                Some(_) => (times::short(row.created_at, now), ids::ending(row.id, endings)),
                None => (times::seconds(row.created_at), row.id.to_string()),
            };
            vec![
                created,
                id,
                one_line(&row.tool),
                row.upstream_id.as_ref().map_or_else(|| "-".to_owned(), |id| one_line(id.as_str())),
                row.phase.to_string(),
                row.cause.map_or("-", |cause| cause.as_str()).to_owned(),
                error(row),
            ]
        })
        .collect();
    let Some(width) = width.filter(|width| *width < ROOM_FOR_ERRORS) else {
        return table::lines(&COLUMNS, &cells, width).join("\n") + "\n";
    };
    let mut lines = table::lines(&COLUMNS[..COLUMNS.len() - 1], &cells, Some(width)).into_iter();
    let mut text: String = lines.next().into_iter().map(|heads| heads + "\n").collect();
    for (line, row) in lines.zip(rows) {
        text += &format!("{line}\n");
        if row.last_error.is_some() {
            text += &(clip(&format!("  {}", error(row)), width) + "\n");
        }
    }
    text
}

fn error(row: &Row) -> String {
    one_line(row.last_error.as_deref().unwrap_or_default())
}
