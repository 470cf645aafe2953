//! `--state`: which operations are meant, by their phase.

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use countermand::core::{Phase, ports::Query};

/// Any of the phases that were named; all where none was.
#[derive(Debug, Clone, Args)]
pub(crate) struct States {
    /// Only operations in this phase, or all that are `settled` or `unsettled`; given more than once, any of them
    #[arg(long, value_name = "S", hide_possible_values = true, value_parser = words().map(State))]
    state: Vec<State>,
}

#[derive(Debug, Clone)]
struct State(String);

const SETTLED: &str = "settled";
const UNSETTLED: &str = "unsettled";

fn words() -> PossibleValuesParser {
    PossibleValuesParser::new(Phase::ALL.iter().map(|phase| phase.as_str()).chain([SETTLED, UNSETTLED]))
}

impl State {
    fn has(&self, phase: Phase) -> bool {
        match self.0.as_str() {
            SETTLED => phase.is_settled(),
            UNSETTLED => !phase.is_settled(),
            word => word == phase.as_str(),
        }
    }
}

impl States {
    /// All that is not settled.
    pub(super) fn unsettled() -> Self {
        Self { state: vec![State(UNSETTLED.to_owned())] }
    }

    /// Whether any was named.
    pub(super) fn are_named(&self) -> bool {
        !self.state.is_empty()
    }

    /// Whether an operation in this phase is meant.
    pub(super) fn have(&self, phase: Phase) -> bool {
        self.state.is_empty() || self.state.iter().any(|state| state.has(phase))
    }

    /// The newest of them, at most so many of each ledger.
    pub(super) fn query(&self, limit: usize) -> Query {
        let phases: Vec<Phase> = Phase::ALL.iter().copied().filter(|phase| self.have(*phase)).collect();
        let all = phases.len() == Phase::ALL.len();
        Query { phases: if all { Vec::new() } else { phases }, limit, ..Query::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(words: &[&str]) -> States {
        States { state: words.iter().map(|word| State((*word).to_owned())).collect() }
    }

    #[test]
    fn several_states_are_a_union_and_both_halves_are_all() {
        let query = |words: &[&str]| states(words).query(9).phases;
        assert_eq!(query(&[]), []);
        assert_eq!(query(&["settled", "unsettled"]), []);
        assert_eq!(query(&["cancelled", "running", "cancelled"]), [Phase::Running, Phase::Cancelled]);
        let mixed = query(&["unsettled", "cancelled"]);
        assert!(mixed.contains(&Phase::Cancelled) && mixed.contains(&Phase::CompensationFailed));
        assert!(!mixed.contains(&Phase::Completed));
        assert_eq!(mixed.len(), Phase::ALL.iter().filter(|phase| !phase.is_settled()).count() + 1);
    }
}
