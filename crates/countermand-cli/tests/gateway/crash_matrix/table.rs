//! docs/crash-matrix.md: what the next start makes of a death, as it was seen.

use super::{
    Case, Combination,
    cast::{Client, Tool},
    reasons::why_not,
};
use countermand::crash::{CrashPoint, Moment};
use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf};

const HEAD: &str = "\
# What a crash leaves, and what the next start makes of it

The gateway was killed (SIGKILL, by itself) at each of these points; then it was started again, and this is how the operation
ended. Made by `crates/countermand-cli/tests/gateway/crash_matrix.rs`, which judges by the upstream's own record that there
was never a second job, and that no job was left that is not in the ledger.

A `…_commit` is a durable write to the ledger (sync included); a `…_call` is a request to the upstream, from before its first byte
to the moment in which its answer is here and nothing has been done with it; `answer` is the answer to the client. A client
that goes (cancels, or closes its end) does so before the point where that can be; else the gateway died before the client could. A
client that stays is gone after the death all the same, since its connection is, so its job is cancelled unless it had ended.

The phases are those of `countermand ops list`. `orphaned` is what nobody can find out: no key, no look-up, the answer lost.
";

/// What a pair of deaths ended in: the lives of one operation.
pub type Pair = (Tool, Client, CrashPoint, CrashPoint);

pub fn check(outcomes: &BTreeMap<Combination, (Case, String)>, twice: &BTreeMap<Pair, String>) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/crash-matrix.md");
    let now = format!("{HEAD}{}{}", once(outcomes), again(twice));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&file, now).unwrap();
        return;
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    for (was, is) in written.lines().zip(now.lines()).filter(|(was, is)| was != is) {
        println!("was: {was}\nis:  {is}");
    }
    assert!(written == now, "docs/crash-matrix.md is not up to date: run with UPDATE_EXPECT=1");
}

fn once(outcomes: &BTreeMap<Combination, (Case, String)>) -> String {
    let mut out = String::new();
    for tool in Tool::ALL {
        let head =
            "| the gateway dies | how the call went | client cancels | client disconnects | client stays |";
        writeln!(out, "\n## {}\n\n{head}\n|---|---|---|---|---|", capital(tool.in_words())).unwrap();
        for moment in Moment::ALL {
            let [before, after] = [CrashPoint::Before(*moment), CrashPoint::After(*moment)]
                .map(|point| row(outcomes, tool, point));
            let name = moment.as_str();
            match (before, after) {
                (None, None) => {}
                (Some(before), Some(after)) if before == after => {
                    writeln!(out, "| before or after `{name}` {before}").unwrap();
                }
                (before, after) => {
                    for (side, row) in [("before", before), ("after", after)] {
                        if let Some(row) = row {
                            writeln!(out, "| {side} `{name}` {row}").unwrap();
                        }
                    }
                }
            }
        }
        out.push_str("\nNot passed there, and why:\n\n");
        for moment in Moment::ALL {
            let why = Client::ALL.map(|client| why_not(tool, client, *moment).map(|why| (client, why)));
            let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
            for (client, why) in why.into_iter().flatten() {
                match reasons.iter_mut().find(|(known, _)| *known == why) {
                    Some((_, clients)) => clients.push(client.in_words()),
                    None => reasons.push((why, vec![client.in_words()])),
                }
            }
            for (why, clients) in reasons {
                let clients = if clients.len() == 3 {
                    String::new()
                } else {
                    format!(" (client {})", clients.join(" or "))
                };
                writeln!(out, "- `{}`{clients}: {why}", moment.as_str()).unwrap();
            }
        }
    }
    out
}

/// The cells of a point behind its name.
fn row(outcomes: &BTreeMap<Combination, (Case, String)>, tool: Tool, point: CrashPoint) -> Option<String> {
    let cells = Client::ALL.map(|client| outcomes.get(&(tool, client, point)));
    let mut plots: Vec<&str> = Vec::new();
    for (case, _) in cells.into_iter().flatten() {
        if !plots.contains(&case.play.plot.name) {
            plots.push(case.play.plot.name);
        }
    }
    if plots.is_empty() {
        return None;
    }
    let cells = cells.map(|cell| cell.map_or("–".to_owned(), |(_, outcome)| in_code(outcome)));
    Some(format!("| {} | {} |", plots.join("; "), cells.join(" | ")))
}

fn again(twice: &BTreeMap<Pair, String>) -> String {
    let mut out = String::from(
        "\n## A second death, while the first is recovered from\n\n| operation | dies first | dies again | ends as |\n|---|---|---|---|\n",
    );
    let mut grouped: BTreeMap<(Tool, Client, CrashPoint, &str), Vec<CrashPoint>> = BTreeMap::new();
    for ((tool, client, first, second), outcome) in twice {
        grouped.entry((*tool, *client, *first, outcome)).or_default().push(*second);
    }
    for ((tool, client, first, outcome), seconds) in grouped {
        let seconds: Vec<String> = seconds.iter().map(|point| format!("`{point}`")).collect();
        writeln!(
            out,
            "| {}, client {} | `{first}` | {} | {} |",
            tool.in_words(),
            client.in_words(),
            seconds.join(", "),
            in_code(outcome)
        )
        .unwrap();
    }
    out.push_str(SESSION);
    out
}

const SESSION: &str = "
## In a session

A client that was away and is back when the gateway dies, before or after `client_returned_commit`, is gone with the gateway: its job
is cancelled when the grace of the next start is over.
";

fn in_code(outcome: &str) -> String {
    if outcome.contains(' ') { outcome.to_owned() } else { format!("`{outcome}`") }
}

fn capital(text: &str) -> String {
    text[..1].to_uppercase() + &text[1..]
}
