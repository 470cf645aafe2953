//! What the upstream does wrong meanwhile. Only what an upstream may do that keeps the promises of its config: it may fail, hang,
//! break off and pretend, but a list that it calls consistent is, and a refusal refuses.

use super::dice::Dice;
use countermand_testkit::fake::{Fault, Route};

/// A fault, where, and for how many requests.
pub fn any(dice: &mut Dice) -> (Route, Fault, u32) {
    use Fault::*;
    let commits = [
        Status(503, None),
        Status(429, Some(1)),
        Status(400, None),
        StatusAfterCommit(503),
        HangBeforeCommit,
        HangAfterCommit,
        ResetBeforeCommit,
        ResetAfterCommit,
        LateCreate,
        NotJson,
        HugeBody(2 << 20),
        Redirect("/elsewhere".into()),
    ];
    let reads = [
        Status(500, None),
        Status(429, Some(1)),
        HangBeforeCommit,
        ResetBeforeCommit,
        NotJson,
        HugeBody(2 << 20),
        Trickle,
    ];
    let cancels = [
        Status(503, None),
        Status(404, None),
        StatusAfterCommit(500),
        HangBeforeCommit,
        HangAfterCommit,
        ResetBeforeCommit,
        ResetAfterCommit,
        CancelIgnored,
        CancelledThenDone,
        CancelledThenRunning,
        NotJson,
    ];
    let undos = [Status(500, None), HangBeforeCommit, HangAfterCommit, ResetBeforeCommit, ResetAfterCommit];
    let (route, faults): (_, &[Fault]) = match dice.below(9) {
        0 | 1 => (Route::CreateJob, &commits),
        2 => (Route::JobStatus, &reads),
        3 => (Route::JobResult, &reads),
        4 | 5 => (Route::CancelJob, &cancels),
        6 => (*dice.one_of(&[Route::FindJobs, Route::Slow, Route::Quick]), &reads[..5]),
        7 => (Route::Order, &commits),
        _ => (*dice.one_of(&[Route::DeleteRows, Route::Label]), &undos),
    };
    (route, dice.one_of(faults).clone(), 1 + dice.below(3) as u32)
}
