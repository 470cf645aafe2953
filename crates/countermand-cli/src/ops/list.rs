//! `ops list`.

use super::{Where, as_json, is_alarming, rfc3339};
use anyhow::{Result, bail};
use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use countermand::core::{
    Phase, Row,
    ports::{Ledger as _, Query},
};

/// As many as there can be.
const ALL: usize = i64::MAX as usize;

/// What to list.
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    place: Where,
    /// Only operations in this phase; also `settled`, `unsettled`
    #[arg(long, value_name = "S")]
    state: Vec<String>,
    /// At most so many; without it, all that retention keeps
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(list: List) -> Result<()> {
    let query = query(&list)?;
    let settled_only = list.state.iter().any(|state| state == "settled");
    let mut rows: Vec<Row> = Vec::new();
    for (_, ledger) in list.place.open_all()? {
        rows.extend(ledger.list(query.clone()).await?);
    }
    rows.retain(|row| !settled_only || row.phase.is_settled());
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
    super::print(format_args!("{}\n", table(&rows)))?;
    let alarming = rows.iter().filter(|row| is_alarming(row.phase)).count();
    let unsettled = rows.iter().filter(|row| !row.phase.is_settled()).count();
    super::print(format_args!(
        "{} listed, {unsettled} unsettled, {alarming} of them need a look.\n",
        rows.len()
    ))
}

fn query(list: &List) -> Result<Query> {
    let mut query = Query { limit: list.limit.unwrap_or(ALL), ..Query::default() };
    for state in &list.state {
        match state.as_str() {
            "unsettled" => query.unsettled = true,
            "settled" => query.phases.extend(Phase::ALL.iter().copied().filter(|phase| phase.is_settled())),
            state => match state.parse::<Phase>() {
                Ok(phase) => query.phases.push(phase),
                Err(error) => bail!("{error}, settled, unsettled"),
            },
        }
    }
    Ok(query)
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(width) = crate::terminal_width() {
        table.set_width(width);
    } else {
        table.set_content_arrangement(ContentArrangement::Disabled);
    }
    table.set_header(["CREATED", "ID", "TOOL", "UPSTREAM ID", "PHASE", "CAUSE", "LAST ERROR"]);
    for row in rows {
        table.add_row([
            rfc3339(row.created_at).chars().take(19).collect::<String>().replace('T', " "),
            row.id.to_string(),
            row.tool.clone(),
            row.upstream_id.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            row.phase.to_string(),
            row.cause.map_or("-", |cause| cause.as_str()).to_owned(),
            row.last_error.clone().unwrap_or_default(),
        ]);
    }
    table
}
