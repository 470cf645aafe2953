//! Which of a call's arguments its operation must keep: those that a request names.

use super::{Name, scope::member};
use crate::definition::{IdSource, ToolDefinition, Work};
use serde_json::{Map, Value};

/// The argument values that create, status, find, cancel, result, compensate or mark name, and
/// nothing else: of `${args.a.b}` only the member `b` of `a`. What must not be stored
/// (`writeOnly`) the caller leaves out of `arguments`.
pub fn inputs_of(definition: &ToolDefinition, arguments: &Map<String, Value>) -> Map<String, Value> {
    let mut inputs = Map::new();
    for name in names_of(definition) {
        if let Name::Arg(members) = name
            && let Some(value) = member(arguments, members)
        {
            keep(&mut inputs, members, value);
        }
    }
    inputs
}

/// Every name that the definition uses.
fn names_of(definition: &ToolDefinition) -> Vec<&Name> {
    let mut names: Vec<&Name> = definition.requests().into_iter().flat_map(|(_, r)| r.names()).collect();
    let find = match &definition.work {
        Work::Job(job) => {
            if let IdSource::Ours(id) = &job.create.id {
                names.extend(id.names());
            }
            &job.find
        }
        Work::Http(http) => &http.find,
        Work::Command(_) => &None,
    };
    names.extend(definition.programs().into_iter().flat_map(|(_, program)| program.names()));
    names.extend(find.iter().filter_map(|find| find.id.as_ref()).flat_map(|id| id.names()));
    names
}

fn keep(into: &mut Map<String, Value>, members: &[String], value: &Value) {
    let Some((first, deeper)) = members.split_first() else { return };
    if deeper.is_empty() {
        // The whole of it, whatever members were kept before.
        into.insert(first.clone(), value.clone());
        return;
    }
    if let Value::Object(inner) = into.entry(first.clone()).or_insert_with(|| Value::Object(Map::new())) {
        keep(inner, deeper, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kept(pairs: &[&[&str]], arguments: &Value) -> Value {
        let mut inputs = Map::new();
        for members in pairs {
            let members: Vec<String> = members.iter().map(|m| (*m).to_owned()).collect();
            if let Some(value) = member(arguments.as_object().unwrap(), &members) {
                keep(&mut inputs, &members, value);
            }
        }
        Value::Object(inputs)
    }

    #[test]
    fn only_the_named_member_of_an_argument_is_kept() {
        let arguments = json!({"a": {"b": 1, "secret": 2}, "c": [1], "d": 4});
        assert_eq!(kept(&[&["a", "b"], &["c"], &["missing"]], &arguments), json!({"a": {"b": 1}, "c": [1]}));
    }

    #[test]
    fn the_whole_of_an_argument_wins_over_a_member_in_either_order() {
        let arguments = json!({"a": {"b": 1, "c": 2}});
        assert_eq!(kept(&[&["a", "b"], &["a"]], &arguments), arguments);
        assert_eq!(kept(&[&["a"], &["a", "b"]], &arguments), arguments);
    }
}
