//! What a cancel does to a program, and what the end of the gateway does.

use super::{
    moments::{At, after_completed, before},
    show,
};
use crate::config::Tool;
use countermand::{
    core::OnDisconnect,
    definition::CommandDefinition,
    process::{Stop, StopSignal},
};

/// Every moment but those at which somebody vanishes.
pub(super) fn of_command(tool: &Tool, command: &CommandDefinition) -> Vec<At> {
    let run = show::program(&command.program);
    let signals = signals(command.stop);
    let starting = At::new("create_in_flight", "being started")
        .say(format!("{run} is started within moments; then it is stopped, as when running."));
    let lost = At::new("create_answer_lost", "start not recorded").say(
        "Its processes are looked for by COUNTERMAND_OPERATION in their environments, and in its control group; what is found is ended.",
    ).say("Nothing is left: it counts as stopped all the same, since it may have run until the gateway died.");
    let running = At::new("running", "running")
        .say(format!("{signals}, to each of its processes."))
        .say("It is stopped when none is left: in its control group (where one can be made), in its session, by descent, by COUNTERMAND_OPERATION in the environment.");
    let undo = &tool.definition.compensate;
    let running =
        if undo.is_empty() { running } else { running.say("Once it has ended it is undone.").each(undo) };
    let told = if tool.on_orphan.is_some() { ", somebody is told (`on_orphan`)" } else { "" };
    let stuck = At::new("not_confirmed", "killed, still there")
        .say("SIGKILL is sent again and again: a process that waits in the kernel ends when that lets it.")
        .say(format!(
            "After {} it is an orphan: an alarm{told}, and looked at for 24h; then it waits for an operator.",
            show::time(tool.definition.policy.confirm_within)
        ));
    let done = At::new("done", "exited, not delivered");
    vec![
        before(),
        starting,
        lost,
        running,
        stuck,
        after_completed(tool, done, "The cancel wins: no result is sent, and "),
    ]
}

/// What is sent, and when: `SIGINT, 5s later SIGTERM, 1s later SIGKILL`.
pub(super) fn signals(stop: Stop) -> String {
    let grace = show::time(stop.grace);
    match stop.signal {
        StopSignal::Kill => "SIGKILL".to_owned(),
        StopSignal::Term => format!("SIGTERM, {grace} later SIGKILL"),
        signal => format!("SIG{}, {grace} later SIGTERM, 1s later SIGKILL", signal.name()),
    }
}

/// What our own end does to it.
pub(super) fn our_end(tool: &Tool) -> Vec<At> {
    let killed = At::new("gateway_killed", "gateway killed")
        .say("The process that was started is killed with it. What that has started is found by the next start, and ended.")
        .say("The ledger knows it: it was written before anything was started.");
    let down = At::new("gateway_shuts_down", "gateway shuts down");
    let down = match tool.on_disconnect {
        Some(OnDisconnect::Detach) => {
            down.say("It is stopped, although it was to go on without its client: it ends with the gateway.")
        }
        _ => down.say("A cancel at once, as above; the client is told."),
    };
    vec![killed, down.say("What is left of it when `serve --grace` is nearly over is killed.")]
}
