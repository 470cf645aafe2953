//! The shapes of the config file: which fields there are, what they hold, what they are for.
//!
//! The reader and the JSON Schema for editors are both made from these tables, so that neither
//! knows a field that the other does not.

mod kinds;
mod settings;
mod tools;

pub use kinds::{
    CANCEL, COMMAND, CREATE, EXIT, FIND, FORCE, HEADER, HTTP, HTTP_STATUS, JOB, PROGRAM, REQUEST, RESULT,
    SECRET, STATUS, STOP,
};
pub use settings::{
    ADMIN, BREAKER, LIMITS, MCP_TOOLS, RETRY_BUDGET, ROOT, SERVER, SERVER_HTTP, UNCONFIRMED, UPSTREAM,
    UPSTREAM_HTTP, UPSTREAM_MCP,
};
pub use tools::{DEFAULTS, GRACE, ON_ORPHAN, PRESET, TOOL};

/// A mapping with known fields.
#[derive(Debug)]
pub struct Shape {
    /// Its name in the JSON Schema, and in messages.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// Its fields, in groups.
    pub fields: &'static [&'static [Field]],
}

impl Shape {
    /// All fields.
    pub fn all(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().flat_map(|group| group.iter())
    }
}

/// A field.
#[derive(Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub holds: Holds,
    /// What it is for.
    pub doc: &'static str,
}

/// What a field can hold.
#[derive(Debug)]
pub enum Holds {
    /// A text; numbers are taken as they are written.
    Text,
    /// A text that is one of these.
    Word(&'static [&'static str]),
    /// `true` or `false`.
    Bool,
    /// A whole number, at least 1.
    Count,
    /// Bytes: a whole number, or `4MiB`.
    Size,
    /// A time such as `30s`, `10m`, `24h`, `2h 30m`, `PT30S`.
    Duration,
    /// A JSONPath.
    Path,
    /// Any value, with placeholders in its strings.
    Any,
    /// A JSON Schema.
    Schema,
    /// A mapping of any fields.
    Object,
    /// A mapping with known fields.
    Shape(&'static Shape),
    /// A mapping from names to one kind of value.
    Map(&'static Holds),
    /// A list.
    List(&'static Holds),
    /// One of several.
    Either(&'static [Holds]),
    /// Known, and not there yet.
    Later,
}

const fn field(name: &'static str, holds: Holds, doc: &'static str) -> Field {
    Field { name, holds, doc }
}
