//! What stands beside the kind of a tool, or under `defaults` for all of them.

use super::{
    checked::OnReissue,
    fields::{Fields, Reader},
    node::{Data, Node},
    shapes,
};
use countermand::core::{OnDisconnect, WhenCompleted};

/// A tool's siblings, and where it takes them from that it does not give.
#[derive(Debug, Clone, Copy)]
pub struct Siblings<'a> {
    /// The tool.
    pub tool: Fields<'a>,
    /// `defaults`.
    pub defaults: Option<&'a Node>,
}

impl<'a> Siblings<'a> {
    /// A sibling, and whether it comes from `defaults`.
    pub fn get(&self, name: &str) -> Option<(&'a Node, bool)> {
        let own = self.tool.get(name).map(|node| (node, false));
        own.or_else(|| self.defaults?.get(name).map(|node| (node, true)))
    }

    /// What becomes of completed work whose cancel was wanted.
    pub fn when_completed(&self, reader: &Reader<'_>, undoes: bool) -> WhenCompleted {
        let words = [("keep", WhenCompleted::Keep), ("compensate", WhenCompleted::Compensate)];
        let given = self.get("when_completed");
        let chosen = given.and_then(|(node, _)| reader.word(node, &words));
        if let (Some((node, false)), Some(WhenCompleted::Compensate), false) = (given, chosen, undoes) {
            reader.error(node.at, "nothing says how to undo it", "add `compensate: [ { request: … } ]`");
        }
        match (chosen, undoes) {
            (_, false) => WhenCompleted::Keep,
            (Some(chosen), true) => chosen,
            (None, true) => WhenCompleted::Compensate,
        }
    }
}

/// Reads `on_disconnect`.
pub fn on_disconnect(reader: &Reader<'_>, node: &Node) -> Option<OnDisconnect> {
    match &node.data {
        Data::Map(_) => {
            let fields = reader.open(node, &shapes::GRACE)?;
            match fields.get("grace") {
                Some(grace) => reader.duration(grace).map(OnDisconnect::Grace),
                None => {
                    reader.error(
                        fields.head(),
                        "`grace` is missing",
                        "write `on_disconnect: { grace: 30s }`",
                    );
                    None
                }
            }
        }
        Data::Text(text) if text.starts_with("grace") => {
            reader.error(node.at, "a grace needs its time", "write `on_disconnect: { grace: 30s }`");
            None
        }
        _ => reader.word(node, &[("cancel", OnDisconnect::Cancel), ("detach", OnDisconnect::Detach)]),
    }
}

/// Reads `on_reissue`.
pub fn on_reissue(reader: &Reader<'_>, node: &Node) -> Option<OnReissue> {
    reader.word(node, &[("new", OnReissue::New), ("attach", OnReissue::Attach)])
}
