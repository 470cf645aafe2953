//! The binary from outside: real processes and sockets, judged by the fake upstream's own record.
#![allow(unreachable_pub, reason = "a test binary has no public items")]
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, missing_docs)]

mod stage;

mod points;
mod points_answers;
mod points_arguments;
mod points_early;
mod points_half_sent;
mod points_json;
mod points_protocol;
mod points_reads;
mod points_result;
mod faults;
mod faults_lost;
mod faults_late;
mod faults_refused;
mod faults_cancel;
mod faults_taken_back;
mod faults_answers;
mod faults_running;
mod faults_order;
mod faults_undo;
mod faults_bounds;
mod faults_huge;
mod ill;
mod told;
mod status;
mod ends;
mod silence;
mod soak;
mod sessions;
mod reissue;
mod shapes;
mod commands;
mod programs;
mod crash_matrix;
mod upgrade;
mod proxy;
