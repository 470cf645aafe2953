//! `ops resolve`: an operator's word settles what could not be settled.

use super::{
    Where,
    act::{Until, act},
    answer, find, legal_in,
};
use anyhow::{Result, bail};
use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use countermand::core::{Phase, Row, phase::Verdict, ports::Action};

/// Which one, and what is known of it.
#[derive(Debug, Args)]
pub(crate) struct Resolve {
    /// The operation's id, or the beginning or ending of it
    id: String,
    #[command(flatten)]
    place: Where,
    /// What you know: it does not run any more, it never existed, or nobody minds
    #[arg(long = "as", value_name = "VERDICT", value_parser = verdicts().try_map(|word| word.parse::<Verdict>()))]
    verdict: Verdict,
    /// How you know; kept in the history
    #[arg(long, value_name = "TEXT", value_parser = note)]
    note: String,
    /// The operation as one JSON object
    #[arg(long)]
    json: bool,
}

fn verdicts() -> PossibleValuesParser {
    PossibleValuesParser::new(Verdict::ALL.iter().map(|verdict| verdict.as_str()))
}

fn note(text: &str) -> Result<String, &'static str> {
    match text.trim() {
        "" => Err("say how you know: the note is all that others will have"),
        text => Ok(text.to_owned()),
    }
}

pub(super) async fn run(resolve: Resolve) -> Result<()> {
    let found = find::one(&resolve.place, &resolve.id).await?;
    let action = Action::Resolve { verdict: resolve.verdict, note: resolve.note };
    check(&found.row, &action)?;
    let acted = act(&resolve.place, &found, action, Until::Shown).await?;
    answer(resolve.json, &acted.row, "")?;
    let (id, phase) = (found.row.id, acted.row.phase);
    if acted.shown {
        return Ok(());
    }
    if phase.is_settled() {
        bail!(
            "operation {id} settled by itself (`{phase}`) in the meantime: your word was not needed, and is not recorded"
        );
    }
    bail!(
        "operation {id} does not show your word: what holds its ledger has not taken it, or the log above says why"
    )
}

fn check(row: &Row, action: &Action) -> Result<()> {
    let (phases, legal) = legal_in(row, &action.event());
    let Row { id, phase, .. } = row;
    match phase {
        _ if legal => Ok(()),
        phase if phase.is_settled() => {
            bail!("operation {id} is settled (`{phase}`): there is nothing to resolve")
        }
        Phase::Compensating => bail!(
            "operation {id} is `compensating`: its undo is still being tried. Your word counts in {phases}"
        ),
        phase => bail!(
            "operation {id} is `{phase}`, and is still looked after. Your word counts in {phases}; `countermand ops cancel {id}` stops it"
        ),
    }
}
