//! What a child does between the fork and the program: the only unsafe code of this crate.

use std::{fs::File, io};
use tokio::process::Command;

/// Lets the child be a session and a group of its own, be in the control group, and die with the *thread* that spawns it, at
/// once and without a chance to object. The thread has to be one that lives as long as we do.
///
/// The last is for the child alone: what it starts in turn does not have it, and a program that changes its user by
/// set-user-ID loses it.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "std runs code in the child for nobody else; nothing safe asks for the signal"
)]
pub(crate) fn prepare(command: &mut Command, entrance: Option<File>) {
    use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal, setsid};
    let parent = getpid();
    let before_exec = move || -> io::Result<()> {
        setsid()?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(parent) {
            // It died before that, and nothing would tell us any more.
            return Err(io::Error::from(rustix::io::Errno::SRCH));
        }
        if let Some(entrance) = &entrance {
            rustix::io::write(entrance, b"0")?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. These are system calls: nothing is
    // allocated, no lock is taken, and an error holds a number.
    unsafe { command.pre_exec(before_exec) };
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn prepare(command: &mut Command, _entrance: Option<File>) {
    command.process_group(0);
}
