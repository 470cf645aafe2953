//! Explores the real `step` and `due` against an upstream that loses, delays and doubles what it can,
//! and a process of ours that dies at any moment.
//!
//! Time is relative: after every action the state is shifted so that *now* is zero, which changes nothing
//! for `step` (it only compares) and lets the same situation at two times be one state. Time advances only by
//! jumps to what is next for somebody. All that could repeat for ever (losses, crashes, patience
//! of an upstream that still runs) has a small budget, so every path ends.

mod upstream;
mod world;

use countermand_core::{Kind, Lookup, OnDisconnect, Policy, WhenCompleted};
use stateright::{Checker, Expectation, HasDiscoveries, Model};
use std::time::Duration;
use world::{Broken, World};

/// Short times in place of the real ones, in the same order of magnitude to each other.
fn policy() -> Policy {
    Policy {
        kind: Kind::Job,
        can_cancel: true,
        confirm_within: Duration::from_secs(4),
        force_after: None,
        find: Some(Lookup::Consistent),
        key_window: Some(Duration::from_secs(20)),
        shield: Duration::from_secs(1),
        horizon: Duration::from_secs(2),
        poll_every: Duration::from_secs(10),
        poll_max: Duration::from_secs(10),
        lifetime: Duration::from_secs(25),
        undo_steps: 0,
        when_completed: WhenCompleted::Compensate,
        mark: false,
    }
}

fn key_only() -> World {
    World::new(Policy { find: None, ..policy() })
}

fn find_only() -> World {
    World::new(Policy { key_window: None, ..policy() })
}

/// A crash is no cancel here: what is unknown afterwards is replayed first.
fn both() -> World {
    World { on_disconnect: OnDisconnect::Detach, ..World::new(policy()) }
}

fn eventual_list() -> World {
    let policy = Policy { find: Some(Lookup::Eventual), key_window: None, ..policy() };
    World { stale: 1, ..World::new(policy) }
}

fn uncancellable() -> World {
    let mut world = World::new(Policy { can_cancel: false, mark: true, ..policy() });
    world.budget.doubles = 0;
    world
}

fn http_once() -> World {
    let mut world = World::new(Policy { kind: Kind::Http, can_cancel: false, ..policy() });
    world.budget.crashes = 2;
    world
}

fn undoable() -> World {
    let policy = Policy { undo_steps: 2, key_window: None, ..policy() };
    let mut world = World { forgetful: false, ..World::new(policy) };
    world.budget.crashes = 2;
    world
}

const LONGEST: Duration = Duration::from_secs(120);

/// What the checker found: the violated properties, and the examples that do not exist.
fn holds(name: &str, world: World) {
    let checker = world.checker().threads(2).timeout(LONGEST).spawn_bfs().join();
    eprintln!("{name}: {} unique states", checker.unique_state_count());
    let found = checker.discoveries();
    for property in checker.model().properties() {
        match (property.expectation, found.get(property.name)) {
            (Expectation::Sometimes, None) => panic!("{name}: never seen: {}", property.name),
            (Expectation::Always | Expectation::Eventually, Some(path)) => {
                for (state, action) in path.clone().into_vec() {
                    eprintln!("  {:?} {:?} => {action:?}", state.row.phase, state.row.was);
                }
                panic!("{name}: violated: {}", property.name);
            }
            _ => {}
        }
    }
    assert!(checker.is_done(), "{name}: not all of it was explored in time");
}

fn is_caught(name: &str, world: World, broken: Broken, violates: &'static str) {
    let model = World { broken, ..world };
    let until = HasDiscoveries::AnyOf([violates].into());
    let checker = model.checker().threads(2).timeout(LONGEST).finish_when(until).spawn_bfs().join();
    eprintln!("{name}, {broken:?}: caught within {} unique states", checker.unique_state_count());
    assert!(checker.discovery(violates).is_some(), "{name}, {broken:?}: {violates}");
}

#[test]
fn a_key_alone_is_enough() {
    holds("key only", key_only());
}

#[test]
fn a_look_up_alone_is_enough() {
    holds("look-up only", find_only());
}

#[test]
fn a_key_and_a_look_up_together_are_sound() {
    holds("both", both());
}

#[test]
fn a_list_that_lags_is_enough() {
    holds("eventual list", eventual_list());
}

#[test]
fn what_cannot_be_stopped_is_bounded() {
    holds("uncancellable", uncancellable());
}

#[test]
fn one_http_request_with_an_effect_is_sound() {
    holds("http once", http_once());
}

#[test]
fn effects_are_undone_after_the_end() {
    holds("undo", undoable());
}

#[test]
fn without_a_durable_write_before_the_send_the_model_objects() {
    is_caught("both", both(), Broken::NoWriteBeforeSend, world::SETTLED_IS_SETTLED);
}

#[test]
fn if_a_cancels_receipt_were_trusted_the_model_objects() {
    is_caught("look-up only", find_only(), Broken::TrustsReceipts, world::SETTLED_IS_SETTLED);
    is_caught("look-up only", find_only(), Broken::TrustsReceipts, world::CANCELLED_IS_CANCELLED);
}

#[test]
fn if_a_miss_from_before_the_horizon_counted_the_model_objects() {
    is_caught("look-up only", find_only(), Broken::CountsEarlyMisses, world::SETTLED_IS_SETTLED);
}

#[test]
fn if_a_key_were_replayed_after_its_window_the_model_objects() {
    is_caught("key only", key_only(), Broken::ReplaysLate, world::ONE_JOB);
}

#[test]
fn if_a_key_were_replayed_up_to_the_edge_of_its_window_the_model_objects() {
    is_caught("key only", key_only(), Broken::ReplaysUpToTheEdge, world::ONE_JOB);
}

#[test]
fn if_one_miss_of_a_list_that_lags_were_enough_the_model_objects() {
    is_caught("eventual list", eventual_list(), Broken::OneMissIsEnough, world::SETTLED_IS_SETTLED);
}

#[test]
fn if_undone_before_the_end_the_model_objects() {
    is_caught("undo", undoable(), Broken::UndoesEarly, world::UNDO_AFTER_END);
}

#[test]
fn if_cancelled_were_believed_at_once_the_model_objects() {
    is_caught("look-up only", find_only(), Broken::NoConfirmingRead, world::SETTLED_IS_SETTLED);
}
