//! Rows of text in columns: whole where no width is given, else one line each, fitted into it.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// A column, and what may happen to it where there is little room.
pub(super) struct Column {
    pub(super) head: &'static str,
    /// It may be cut down to so many characters; `None` leaves it whole.
    pub(super) least: Option<usize>,
    /// Columns of a higher rank are left out first; those of rank 0 never.
    pub(super) rank: u8,
}

const GAP: usize = 2;

/// The table, line by line, its heads first. With a width no line is wider, however small it is.
pub(super) fn lines(columns: &[Column], rows: &[Vec<String>], width: Option<usize>) -> Vec<String> {
    let natural: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            rows.iter().map(|row| row[at].width()).chain([column.head.len()]).max().unwrap_or_default()
        })
        .collect();
    let widths = match width {
        Some(width) => fit(columns, &natural, width),
        None => natural.iter().copied().map(Some).collect(),
    };
    let heads = columns.iter().map(|column| column.head.to_owned()).collect();
    let lines = std::iter::once(&heads).chain(rows).map(|row| {
        let line = line(row, &widths);
        width.map_or_else(|| line.clone(), |width| clip(&line, width))
    });
    lines.collect()
}

fn line(row: &[String], widths: &[Option<usize>]) -> String {
    let cells = row.iter().zip(widths).filter_map(|(cell, width)| {
        let width = (*width)?;
        let cell = clip(cell, width);
        let padding = " ".repeat(width.saturating_sub(cell.width()));
        Some(cell + &padding)
    });
    cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
}

/// How wide each column becomes; `None` leaves it out.
fn fit(columns: &[Column], natural: &[usize], width: usize) -> Vec<Option<usize>> {
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    loop {
        let least = |at: &usize| natural[*at].min(columns[*at].least.unwrap_or(usize::MAX));
        let gaps = GAP * shown.len().saturating_sub(1);
        let needed = shown.iter().map(least).sum::<usize>() + gaps;
        let Some(mut left) = width.checked_sub(needed) else {
            let Some(last) = shown.iter().copied().max_by_key(|at| columns[*at].rank) else { break };
            if columns[last].rank == 0 {
                break;
            }
            shown.retain(|at| *at != last);
            continue;
        };
        let mut widths: Vec<Option<usize>> = vec![None; columns.len()];
        for at in &shown {
            widths[*at] = Some(least(at));
        }
        // What is left goes, character by character, to whichever is narrowest and still cut.
        while left > 0 {
            let cut = shown.iter().filter(|at| widths[**at] < Some(natural[**at]));
            let Some(narrowest) = cut.min_by_key(|at| widths[**at]) else { break };
            widths[*narrowest] = widths[*narrowest].map(|width| width + 1);
            left -= 1;
        }
        return widths;
    }
    // Not even what is never left out has room: the lines are cut.
    (0..columns.len()).map(|at| shown.contains(&at).then_some(natural[at])).collect()
}

/// The beginning of a text that fits, with `…` where something is missing.
pub(super) fn clip(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut room = width.saturating_sub(1);
    for c in text.chars() {
        let wide = c.width().unwrap_or_default();
        if wide > room {
            break;
        }
        room -= wide;
        kept.push(c);
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

/// A text that others wrote, as one line: whatever could move the cursor or break the line is a space.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column { head: "ID", least: None, rank: 0 },
        Column { head: "TOOL", least: Some(4), rank: 2 },
        Column { head: "PHASE", least: None, rank: 0 },
        Column { head: "LAST ERROR", least: Some(6), rank: 1 },
    ];

    fn rows() -> Vec<Vec<String>> {
        vec![
            [
                "…12345678",
                "run_a_long_report",
                "cancel_requested",
                "503 Service Unavailable: try again later",
            ]
            .map(str::to_owned)
            .to_vec(),
            ["…abcdef01", "quick", "running", ""].map(str::to_owned).to_vec(),
        ]
    }

    #[test]
    fn without_a_width_nothing_is_cut() {
        let text = lines(&COLUMNS, &rows(), None).join("\n");
        assert!(text.contains("503 Service Unavailable: try again later"), "{text}");
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_whatever_its_width() {
        for width in 0..120 {
            let table = lines(&COLUMNS, &rows(), Some(width));
            assert!(table.iter().all(|line| line.width() <= width), "{width}: {table:#?}");
            assert_eq!(table.len(), 3, "{width}");
        }
    }

    #[test]
    fn what_is_long_is_cut_first_and_what_matters_least_is_left_out() {
        let text = lines(&COLUMNS, &rows(), Some(60)).join("\n");
        assert!(text.contains("…12345678") && text.contains("cancel_requested"), "{text}");
        assert!(text.contains("503 Ser") && text.contains("run_a_lo"), "{text}");
        let text = lines(&COLUMNS, &rows(), Some(36)).join("\n");
        assert!(!text.contains("TOOL") && text.contains("LAST"), "{text}");
        let text = lines(&COLUMNS, &rows(), Some(27)).join("\n");
        assert!(!text.contains("LAST") && text.contains("cancel_requested"), "{text}");
    }

    #[test]
    fn wide_characters_count_twice_and_are_never_split() {
        assert_eq!(clip("報告書を作る", 7), "報告書…");
        assert_eq!(clip("報告", 4), "報告");
        assert_eq!(clip("ab", 0), "");
    }

    #[test]
    fn what_others_wrote_cannot_move_the_cursor() {
        assert_eq!(one_line("a\u{1b}[2Jb\nc\td"), "a [2Jb c d");
    }
}
