//! Two outcomes side by side, and the table of differences that have an explanation.

use serde_json::Value;
use std::collections::BTreeSet;

/// A difference that is meant: the case, where in its outcome (a JSON pointer), what we do and what `rmcp` does there
/// (JSON; `-` for nothing), and why we do not do the same.
pub(crate) type Difference = (&'static str, &'static str, &'static str, &'static str, &'static str);

/// The words of an error are free; its code and data are not.
pub(crate) fn without_words(mut message: Value) -> Value {
    if let Some(error) = message.get_mut("error").and_then(Value::as_object_mut) {
        error.remove("message");
    }
    message
}

/// What is wrong: differences without an explanation, explanations without a difference.
pub(crate) fn judge(outcomes: &[(&str, Value, Value)], explained: &[Difference]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    for (case, ours, theirs) in outcomes {
        compare(case, String::new(), Some(ours), Some(theirs), &mut seen);
    }
    let known: BTreeSet<_> = explained
        .iter()
        .map(|(case, at, ours, theirs, why)| {
            assert!(!why.is_empty());
            [case, at, ours, theirs].map(|text| (*text).to_owned())
        })
        .collect();
    let unexplained = seen.difference(&known).map(|found| format!("unexplained: {found:?}"));
    unexplained.chain(known.difference(&seen).map(|gone| format!("not so: {gone:?}"))).collect()
}

fn compare(
    case: &str,
    at: String,
    ours: Option<&Value>,
    theirs: Option<&Value>,
    seen: &mut BTreeSet<[String; 4]>,
) {
    match (ours, theirs) {
        (Some(Value::Object(ours)), Some(Value::Object(theirs))) => {
            let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
            for name in names {
                compare(case, format!("{at}/{name}"), ours.get(name), theirs.get(name), seen);
            }
        }
        (Some(Value::Array(ours)), Some(Value::Array(theirs))) if ours.len() == theirs.len() => {
            for (nth, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                compare(case, format!("{at}/{nth}"), Some(ours), Some(theirs), seen);
            }
        }
        (ours, theirs) if ours == theirs => {}
        (ours, theirs) => {
            let text = |value: Option<&Value>| value.map_or_else(|| "-".to_owned(), Value::to_string);
            seen.insert([case.to_owned(), at, text(ours), text(theirs)]);
        }
    }
}
