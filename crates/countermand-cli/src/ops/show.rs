//! `ops show`: one operation, and what happened to it when.

use super::{
    Where, as_json, find, rfc3339, sentence,
    table::one_line,
    undo::{self, Undo},
};
use anyhow::Result;
use clap::Args;
use countermand::core::{
    Row,
    ports::{Entry, Ledger as _},
};
use serde_json::json;

/// Which one.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The operation's id, or the beginning or ending of it
    id: String,
    #[command(flatten)]
    place: Where,
    /// One JSON object, its `history` a list
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(show: Show) -> Result<()> {
    let found = find::one(&show.place, &show.id).await?;
    let entries = found.ledger.history(found.row.id).await?;
    let undo = undo::of(&found.ledger, &found.row).await?;
    if show.json {
        let mut value = as_json(&found.row);
        value["history"] = entries
            .iter()
            .map(|entry| {
                json!({ "at": rfc3339(entry.at), "event": entry.event, "phase": entry.phase, "note": entry.note })
            })
            .collect();
        let undo = undo.iter().map(|undo| json!({ "request": undo.request, "state": undo.state }));
        value["undo"] = undo.collect();
        return super::print(format_args!("{value}\n"));
    }
    super::print(format_args!("{}\n{}", about(&found.row, &undo), timeline(&found.row, &entries, true)))
}

fn about(row: &Row, undo: &[Undo]) -> String {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let mut lines = vec![
        ("operation", row.id.to_string()),
        ("", sentence(row)),
        (
            "tool",
            format!(
                "{}, upstream {}, kind {}",
                row.tool,
                or_dash(Some(row.upstream.to_string()).filter(|name| !name.is_empty())),
                row.kind
            ),
        ),
        ("upstream id", or_dash(row.upstream_id.as_ref().map(ToString::to_string))),
        ("key", row.key.to_string()),
        ("phase", row.was.map_or_else(|| row.phase.to_string(), |was| format!("{} (was {was})", row.phase))),
        ("outcome", or_dash(row.outcome.map(|outcome| outcome.to_string()))),
        (
            "cancel",
            or_dash(row.cause.map(|cause| match &row.reason {
                Some(reason) => format!("{cause}: {reason}"),
                None => cause.to_string(),
            })),
        ),
        ("caller", row.principal.to_string()),
        ("lifetime ends", rfc3339(row.hard_deadline)),
    ];
    if let Some(next) = row.next_at {
        lines.push(("next look", rfc3339(next)));
    }
    if let Some(error) = &row.last_error {
        lines.push(("last error", error.clone()));
    }
    for (number, undo) in (1..).zip(undo) {
        lines.push((
            if number == 1 { "undo" } else { "" },
            format!("{number}. {}: {}", undo.request, undo.state),
        ));
    }
    lines.iter().map(|(name, value)| format!("{name:>14}  {}\n", one_line(value))).collect()
}

/// What happened, with the time since the operation began; `ends` where nothing comes after it.
pub(super) fn timeline(row: &Row, entries: &[Entry], ends: bool) -> String {
    let mut text = String::new();
    for (index, entry) in entries.iter().enumerate() {
        let since = entry.at.since(row.created_at).as_secs_f64();
        let branch = if ends && index + 1 == entries.len() { '└' } else { '├' };
        let note = entry.note.as_deref().map(|note| format!("  {}", one_line(note))).unwrap_or_default();
        let line = format!("{since:>12.3} s  {branch}─ {:<22} {:<16}{note}", entry.event, entry.phase);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
