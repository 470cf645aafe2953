//! Why a point is never passed by a kind of operation with a kind of client. What is passed all the same makes an entry
//! stale, and fails the test.

use super::cast::{Client, Tool};
use countermand::crash::Moment;

pub fn why_not(tool: Tool, client: Client, moment: Moment) -> Option<&'static str> {
    let gone = client != Client::Stays;
    let looks_up = matches!(tool, Tool::Job | Tool::Undo);
    let no = |never: bool, why: &'static str| never.then_some(why);
    match moment {
        Moment::Found | Moment::NotFound | Moment::FindFailed | Moment::Find => {
            no(!looks_up, "it has no look-up")
                .or_else(|| no(!gone, "while its client stays, a lost create is replayed"))
        }
        Moment::Replay => no(tool == Tool::Keyless, "it has no key")
            .or_else(|| no(looks_up && gone, "with a cancel wanted it is looked up, not replayed")),
        Moment::SeenEnded | Moment::Status if tool == Tool::Once => Some("it has no status"),
        Moment::HeldUp => no(tool == Tool::Once, "tried with a status read, and it has none").or_else(|| {
            no(gone, "what stops it waits two seconds at most, and no word is written about that")
        }),
        Moment::SeenMissing | Moment::StatusFailed => no(tool == Tool::Once, "it has no status")
            .or_else(|| no(gone, "the first read fails, before a client could go")),
        Moment::CreateNotSent => no(gone, "it is tried again at once, before a client could go"),
        Moment::SeenRunning => no(tool == Tool::Once, "it has no status")
            .or_else(|| no(tool == Tool::Marked && gone, "it has no cancel that could fail")),
        Moment::CancelAccepted | Moment::Cancel => {
            no(matches!(tool, Tool::Once | Tool::Marked), "it has no cancel")
        }
        Moment::CancelNotAccepted => no(matches!(tool, Tool::Once | Tool::Marked), "it has no cancel")
            .or_else(|| no(!gone, "tried with a client that is gone")),
        Moment::Force => {
            no(!looks_up, "it has no forced cancel").or_else(|| no(!gone, "tried with a client that is gone"))
        }
        Moment::CancelWanted if client == Client::Disconnects => {
            Some("its leaving is its cancel; what the shutdown adds to that may come too late")
        }
        Moment::CancelWanted => {
            no(tool != Tool::Job && !gone, "nobody says so: an operator is tried with another tool")
        }
        Moment::ClientLeft => no(client == Client::Cancels, "its client has said that it goes")
            .or_else(|| no(tool == Tool::Once && !gone, "its client stays")),
        Moment::Delivered | Moment::Answer => no(gone, "its client is gone: there is no answer"),
        Moment::Result => no(!looks_up, "its result is in an answer that is here already")
            .or_else(|| no(gone, "its client is gone: nobody wants the result")),
        Moment::Undone | Moment::Undo => no(tool != Tool::Undo, "it has no undo"),
        Moment::UndoFailed => {
            no(tool != Tool::Undo, "it has no undo").or_else(|| no(!gone, "nothing is undone"))
        }
        Moment::UndoRefused | Moment::Resolved | Moment::RetryWanted => {
            no(tool != Tool::Undo, "it has no undo that could be refused")
                .or_else(|| no(client != Client::Cancels, "tried with a client that cancels"))
        }
        Moment::RequestAnswered => match (tool, client) {
            (Tool::Job, Client::Stays) | (Tool::Undo, Client::Cancels) => None,
            _ => Some("operators are tried with a job whose client stays and an undo that was refused"),
        },
        Moment::Marked | Moment::Mark => no(tool != Tool::Marked, "it has no mark"),
        Moment::MarkFailed => no(tool != Tool::Marked, "it has no mark")
            .or_else(|| no(!gone, "tried with a client that is gone")),
        Moment::TimePassed => no(tool == Tool::Once, "its time is bounded by its request")
            .or_else(|| no(gone, "its client is faster than its lifetime")),
        Moment::TakenOver => Some("only in a later life: see the deaths while recovering"),
        Moment::ClientReturned => Some("only in a session: see there"),
        _ => None,
    }
}
