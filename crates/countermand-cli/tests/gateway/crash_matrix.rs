//! Every point at which a gateway can die, with every kind of client and operation: the next start makes of it what it must.

mod cast;
mod play;
mod reasons;
mod session;
mod table;

use cast::{Client, PLOTS, Plot, Tool};
use countermand::crash::{CrashPoint, Moment};
use play::{Arm, Play, Seen};
use reasons::why_not;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use table::Pair;
use tokio::{sync::Semaphore, task::JoinSet};

/// How many plays are on at once: most of their time they wait.
const AT_ONCE: usize = 24;

/// A play in which the first life ends at a point.
#[derive(Debug, Clone, Copy)]
struct Case {
    play: Play,
    point: CrashPoint,
    nth: u32,
}

/// Which point, of which tool, with which client.
type Combination = (Tool, Client, CrashPoint);

/// Plays them all; what they were is given back with what was seen.
async fn play_all<T: Send + 'static>(plays: Vec<(T, Play, Vec<Arm>)>) -> Vec<(T, Seen)> {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut set = JoinSet::new();
    let mut failed = Vec::new();
    let mut names = BTreeMap::new();
    for (what, play, arms) in plays {
        let room = room.clone();
        let name = format!("{play:?} {arms:?}");
        if std::env::var("CRASH_ONLY").is_ok_and(|only| !name.contains(&only)) {
            continue;
        }
        let task = set.spawn(async move {
            let _room = room.acquire().await;
            (what, play.lives(&arms).await)
        });
        names.insert(task.id().to_string(), name);
    }
    let mut seen = Vec::new();
    while let Some(ended) = set.join_next().await {
        match ended {
            Ok(one) => seen.push(one),
            Err(error) => failed.push(names[&error.id().to_string()].clone()),
        }
    }
    assert!(failed.is_empty(), "{} plays failed: {failed:#?}", failed.len());
    seen
}

fn plays() -> impl Iterator<Item = (usize, Play)> {
    PLOTS.iter().enumerate().flat_map(|(n, plot)| {
        plot.tools.iter().flat_map(move |tool| {
            plot.clients
                .iter()
                .map(move |client| (n, Play { plot: *plot, tool: *tool, client: *client, http: false }))
        })
    })
}

/// Whether the client had moved when this happened.
fn is_the_move(point: CrashPoint) -> bool {
    matches!(point, CrashPoint::Before(Moment::CancelWanted | Moment::ClientLeft))
}

/// Of a trace: the passing of a point that is worth a death, and whether the client had moved by then.
fn passing(trace: &[CrashPoint], client: Client, point: CrashPoint) -> Option<(u32, bool)> {
    let moved = trace.iter().position(|at| is_the_move(*at)).unwrap_or(trace.len());
    let from = if client == Client::Stays { 0 } else { moved };
    let first = trace.iter().position(|at| *at == point)?;
    let at = trace[from..].iter().position(|at| *at == point).map_or(first, |at| from + at);
    let nth = trace[..=at].iter().filter(|at| **at == point).count();
    Some((u32::try_from(nth).unwrap(), at >= moved))
}

/// For each combination that can be reached, the simplest play that does: after the client has moved, where that can be.
async fn cases() -> BTreeMap<Combination, Case> {
    let traced = plays().map(|(n, play)| ((n, play), play, vec![Arm::Trace])).collect();
    let mut traced = play_all(traced).await;
    traced.sort_by_key(|((n, play), _)| (*n, play.tool, play.client));
    let mut cases: BTreeMap<Combination, (bool, Case)> = BTreeMap::new();
    for ((_, play), seen) in traced {
        for point in CrashPoint::all() {
            // What comes at the end of the input besides the client's leaving is a race with the end of the operation.
            let (CrashPoint::Before(moment) | CrashPoint::After(moment)) = point;
            if play.client == Client::Disconnects && moment == Moment::CancelWanted {
                continue;
            }
            let Some((nth, moved)) = passing(&seen.traces[0], play.client, point) else { continue };
            let case = (moved, Case { play, point, nth });
            match cases.get(&(play.tool, play.client, point)) {
                Some((had_moved, _)) if *had_moved || !moved => {}
                _ => drop(cases.insert((play.tool, play.client, point), case)),
            }
        }
    }
    cases.into_iter().map(|(combination, (_, case))| (combination, case)).collect()
}

/// What was passed is what is not explained, and the other way round.
fn explained(cases: &BTreeMap<Combination, Case>) {
    let mut wrong = Vec::new();
    for tool in Tool::ALL {
        for client in Client::ALL {
            for moment in Moment::ALL {
                let why = why_not(tool, client, *moment);
                for point in [CrashPoint::Before(*moment), CrashPoint::After(*moment)] {
                    match (cases.get(&(tool, client, point)), why) {
                        (None, None) => {
                            wrong.push(format!("{tool:?} {client:?} {point}: not passed, and no reason"))
                        }
                        (Some(case), Some(why)) => {
                            let plot = case.play.plot.name;
                            wrong.push(format!("{tool:?} {client:?} {point}: passed ({plot}), though {why}"));
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The first deaths whose recovery dies too.
const FIRST_DEATHS: &[(Tool, Client, CrashPoint)] = &[
    (Tool::Job, Client::Stays, CrashPoint::After(Moment::Create)),
    (Tool::Undo, Client::Cancels, CrashPoint::After(Moment::CancelWanted)),
    (Tool::Once, Client::Stays, CrashPoint::After(Moment::Create)),
    (Tool::Marked, Client::Disconnects, CrashPoint::After(Moment::Created)),
    (Tool::Keyless, Client::Stays, CrashPoint::After(Moment::Created)),
];

/// Every point that a recovery passes, for each of a few first deaths.
async fn second_deaths(cases: &BTreeMap<Combination, Case>) -> Vec<(Pair, Play, Vec<Arm>)> {
    let firsts = FIRST_DEATHS.iter().map(|first| {
        let case = cases[first];
        (case, case.play, vec![Arm::At(case.point, case.nth), Arm::Trace])
    });
    let mut plays = Vec::new();
    for (Case { play, point, nth }, seen) in play_all(firsts.collect()).await {
        let passed: BTreeSet<CrashPoint> = seen.traces[0].iter().copied().collect();
        for second in passed {
            let arms = vec![Arm::At(point, nth), Arm::At(second, 1), Arm::No];
            plays.push(((play.tool, play.client, point, second), play, arms));
        }
    }
    plays
}

/// Over HTTP the same deaths end the same: a few of them.
fn over_http(cases: &BTreeMap<Combination, Case>) -> Vec<(Combination, Play, Vec<Arm>)> {
    let moments = [Moment::Intent, Moment::Create, Moment::Created, Moment::CancelAccepted, Moment::Answer];
    let of = |(combination, case): (&Combination, &Case)| {
        let (tool, client, point) = *combination;
        let (CrashPoint::Before(moment) | CrashPoint::After(moment)) = point;
        let wanted = moments.contains(&moment) && tool == Tool::Job && client != Client::Disconnects;
        let plot = Plot { operator: None, ..case.play.plot };
        // The operator's plot would be the one for a client that stays.
        let same = plot.operator == case.play.plot.operator && !plot.endless;
        let play = Play { http: true, ..case.play };
        (wanted && same).then(|| (*combination, play, vec![Arm::At(point, case.nth), Arm::No]))
    };
    cases.iter().filter_map(of).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_point_it_dies_at_the_next_start_finishes_what_was_begun() {
    let began = tokio::time::Instant::now();
    let cases = cases().await;
    println!("{} combinations, {:?}", cases.len(), began.elapsed());
    explained(&cases);
    let deaths = cases
        .iter()
        .map(|(combination, case)| (*combination, case.play, vec![Arm::At(case.point, case.nth), Arm::No]));
    let seen = play_all(deaths.collect()).await;
    println!("{} deaths, {:?}", seen.len(), began.elapsed());
    let outcomes: BTreeMap<Combination, (Case, String)> = seen
        .into_iter()
        .map(|(combination, seen)| (combination, (cases[&combination], seen.outcome)))
        .collect();

    let http = play_all(over_http(&cases)).await;
    for (combination, seen) in &http {
        assert_eq!(seen.outcome, outcomes[combination].1, "over HTTP: {combination:?}");
    }
    let twice = play_all(second_deaths(&cases).await).await;
    println!("{} over HTTP, {} deaths in a recovery, {:?}", http.len(), twice.len(), began.elapsed());

    let twice: BTreeMap<Pair, String> = twice.into_iter().map(|(pair, seen)| (pair, seen.outcome)).collect();
    let mut tested: BTreeSet<CrashPoint> = outcomes.keys().map(|(_, _, point)| *point).collect();
    tested.extend(twice.keys().map(|(_, _, _, second)| *second));
    tested.extend(session::POINTS);
    let untested: Vec<CrashPoint> = CrashPoint::all().filter(|point| !tested.contains(point)).collect();
    assert!(untested.is_empty(), "no test dies at {untested:?}");
    table::check(&outcomes, &twice);
}
