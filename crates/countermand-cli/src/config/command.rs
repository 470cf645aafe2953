//! The kind `command`: a program.

use super::{
    extract,
    fields::{Fields, Reader},
    input::Arguments,
    kind::{Made, bounds, policy},
    node::{Data, Node},
    program::read_program,
    scope::Scope,
    shapes,
};
use countermand::{
    core::{Kind, Lookup},
    definition::{CommandDefinition, ExitDefinition, OutputFormat, Work},
    process::{Stop, StopSignal},
};
use std::{collections::BTreeSet, time::Duration};

/// How much a program may write to its standard output, where the config does not say.
pub const DEFAULT_MAX_BYTES: u64 = 10 << 20;

/// How long after everything was killed it may take to be seen.
const MARGIN: Duration = Duration::from_secs(10);

/// When the stop is over that we began, the same is said once more, by SIGKILL alone.
const FORCE_MARGIN: Duration = Duration::from_secs(1);

/// After our own end nothing of ours starts any more; a process that is between fork and program then is given this long to find out.
const HORIZON: Duration = Duration::from_secs(1);

/// The end is not polled for: each read waits for it.
const POLL: Duration = Duration::from_millis(1);

/// Reads `command`. `promises` says whether the tool has an `output` schema.
pub fn read_command(reader: &Reader<'_>, node: &Node, args: &Arguments, promises: bool) -> Option<Made> {
    let fields = match node.data {
        Data::Map(_) => Some(reader.open(node, &shapes::COMMAND)?),
        _ => None,
    };
    let get = |name: &str| fields.and_then(|fields| fields.get(name));
    let none = BTreeSet::new();
    let scope = Scope {
        args,
        of: "command",
        operation: true,
        id: Err("it is known once it runs: write `${op.key}` for a name of ours"),
        undo: false,
        create: true,
        saved: &none,
        maybe_saved: &none,
    };
    let program = read_program(reader, node, fields, &scope);
    let stop = get("stop").map_or(Some(Stop::default()), |node| read_stop(reader, node));
    let exit = get("exit").map_or(Some(ExitDefinition::default()), |node| read_exit(reader, node));
    let value = match get("value") {
        Some(node) => Some(extract::path(reader, node)?),
        None => None,
    };
    let result = match value {
        Some(value) => OutputFormat::Json(value),
        None if promises => OutputFormat::Json("$".to_owned()),
        None => OutputFormat::Text,
    };
    let max_bytes = get("max_bytes").map_or(Some(DEFAULT_MAX_BYTES), |node| reader.size(node));
    let stop = stop?;
    let mut policy = policy(Kind::Command, bounds(reader, &Fields { node }, None));
    policy.can_cancel = true;
    policy.find = Some(Lookup::Consistent);
    policy.horizon = HORIZON;
    policy.confirm_within = stop.patience() + MARGIN;
    policy.force_after = Some(stop.patience() + FORCE_MARGIN);
    (policy.poll_every, policy.poll_max) = (POLL, POLL);
    let command = CommandDefinition { program: program?, stop, exit: exit?, result, max_bytes: max_bytes? };
    let accepted = super::checked::Accepted { write_only: !args.write_only.is_empty(), ..Default::default() };
    Some(Made { work: Work::Command(Box::new(command)), default_timeout: policy.lifetime, policy, accepted })
}

fn read_stop(reader: &Reader<'_>, node: &Node) -> Option<Stop> {
    let default = Stop::default();
    if let Data::Text(_) = node.data {
        return Some(Stop { signal: signal(reader, node)?, ..default });
    }
    let fields = reader.open(node, &shapes::STOP)?;
    let signal = fields.get("signal").map_or(Some(default.signal), |node| signal(reader, node));
    let grace = fields.get("grace").map_or(Some(default.grace), |node| reader.duration(node));
    Some(Stop { signal: signal?, grace: grace? })
}

fn signal(reader: &Reader<'_>, node: &Node) -> Option<StopSignal> {
    let long: Vec<(String, StopSignal)> =
        StopSignal::ALL.iter().map(|(name, signal)| (format!("SIG{name}"), *signal)).collect();
    let words = StopSignal::ALL.iter().copied();
    let words: Vec<(&str, StopSignal)> =
        words.chain(long.iter().map(|(name, signal)| (name.as_str(), *signal))).collect();
    reader.word(node, &words)
}

fn read_exit(reader: &Reader<'_>, node: &Node) -> Option<ExitDefinition> {
    let fields = reader.open(node, &shapes::EXIT)?;
    let mut exit = ExitDefinition::default();
    let mut fine = true;
    if let Some(node) = fields.get("ok") {
        let codes: Vec<Option<i32>> =
            reader.texts(node).into_iter().map(|(node, text)| code(reader, node, &text)).collect();
        fine &= codes.iter().all(Option::is_some);
        exit.ok = codes.into_iter().flatten().collect();
    }
    for entry in reader.optional_entries(fields.get("failed")) {
        let (code, meaning) = (code(reader, &entry.value, &entry.name), reader.name(&entry.value));
        let (Some(code), Some(meaning)) = (code, meaning) else {
            fine = false;
            continue;
        };
        if exit.ok.contains(&code) {
            reader.error(
                entry.at,
                format!("the exit code {code} is one of `ok`"),
                "leave it out in one of them",
            );
            fine = false;
        }
        exit.failed.insert(code, meaning);
    }
    fine.then_some(exit)
}

fn code(reader: &Reader<'_>, node: &Node, text: &str) -> Option<i32> {
    let code = text.parse::<u8>().ok().map(i32::from);
    if code.is_none() {
        reader.error(node.head(), format!("`{text}` is no exit code"), "write a number from 0 to 255");
    }
    code
}
