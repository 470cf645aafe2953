//! Temporary: the faults alone, while other modules of `gateway` are being written. Deleted when they are done.
#![allow(unreachable_pub, dead_code, unused)]
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, missing_docs)]
#[path = "../gateway/stage.rs"]
mod stage;
#[path = "../gateway/faults.rs"]
mod faults;
#[path = "../gateway/faults_lost.rs"]
mod faults_lost;
#[path = "../gateway/faults_late.rs"]
mod faults_late;
#[path = "../gateway/faults_refused.rs"]
mod faults_refused;
#[path = "../gateway/faults_cancel.rs"]
mod faults_cancel;
#[path = "../gateway/faults_taken_back.rs"]
mod faults_taken_back;
#[path = "../gateway/faults_answers.rs"]
mod faults_answers;
#[path = "../gateway/faults_running.rs"]
mod faults_running;
#[path = "../gateway/faults_order.rs"]
mod faults_order;
#[path = "../gateway/faults_undo.rs"]
mod faults_undo;
#[path = "../gateway/faults_bounds.rs"]
mod faults_bounds;
