//! Bodies that no memory holds: what the gateway takes of them is bounded, and it says by what.

use crate::{
    faults::{error, tag, text},
    over_all,
    stage::{Caller, Door, Stage, Times},
};
use countermand_testkit::fake::{Fault, Route};

/// 10 GiB.
const HUGE: u64 = 10 << 30;

/// How much more memory the gateway may have had at its peak, in KiB.
const MORE: u64 = 64 << 10;

/// How many calls meet one at the same time.
const AT_ONCE: u64 = 4;

/// The most memory that a process has had so far, in KiB.
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

over_all! {
    async fn a_body_of_10_gib_costs_no_more_than_max_bytes_and_the_error_says_how_to_raise_it(door) {
        // The default of `max_bytes`: 10 MiB.
        let stage = Stage::with_config(Times::default(), |config| config.replace(", max_bytes: 1MiB", "")).await;
        let mut caller = Caller::at(door, &stage).await;
        caller.works().await;
        let before = peak(caller.pid());
        let mut id = 0;
        for fault in [Fault::HugeBody(HUGE), Fault::UnsizedBody(HUGE)] {
            // A read.
            stage.fake.fault(Route::Quick, fault.clone(), Some(u32::try_from(AT_ONCE).unwrap()));
            let mut all = Vec::new();
            for _ in 0..AT_ONCE {
                id += 1;
                all.push(caller.call(id, "quick", tag()).await);
            }
            for mut pending in all {
                let result = caller.answer(&mut pending).await;
                assert_eq!(result["isError"], true, "{result:#}");
                for words in ["larger than 10485760 bytes", "raise `max_bytes`"] {
                    assert!(text(&result).contains(words), "`{words}` is missing: {result:#}");
                }
            }
            // Every request of a job: its create is looked for, its status is read again.
            for route in [Route::CreateJob, Route::FindJobs, Route::JobStatus] {
                stage.fake.fault(route, fault.clone(), Some(1));
            }
            stage.fake.fault(Route::JobResult, fault.clone(), Some(1));
            id += 1;
            let mut pending = caller.call_of(id, "run_report", tag()).await;
            let job = stage.fake.live_jobs().remove(0).id;
            stage.fake.finish(&job);
            let text = error(&mut caller, &mut pending).await;
            for words in ["It finished upstream", "larger than 10485760 bytes", "raise `max_bytes`", &job] {
                assert!(text.contains(words), "`{words}` is missing: {text}");
            }
            // And a cancel.
            stage.fake.fault(Route::CancelJob, fault.clone(), Some(1));
            id += 1;
            let pending = caller.call_of(id, "run_report", tag()).await;
            caller.cancel(pending).await;
            stage.operations_when("a job that was cancelled", |rows| rows[0]["phase"] == "cancelled").await;
        }
        let after = peak(caller.pid());
        println!("{door:?}: {before} KiB at most before, {after} KiB after");
        assert!(after <= before + MORE, "{before} KiB at most before, {after} KiB after");
        caller.works().await;
        stage.agree().await;
    }
}
