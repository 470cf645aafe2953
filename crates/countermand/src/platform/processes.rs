//! The processes of this machine: who runs, whose child, in which group, and a signal to exactly one of them.

use std::{fmt, io, str::FromStr};

/// A process: its number, and when it was started. A number is used again, the pair is not until the machine starts anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// Its number.
    pub pid: u32,
    /// When it was started, in clock ticks since the machine was.
    pub start: u64,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.pid, self.start)
    }
}

impl FromStr for Identity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts =
            text.split_once(':').and_then(|(pid, start)| Some((pid.parse().ok()?, start.parse().ok()?)));
        let (pid, start) = parts.ok_or_else(|| format!("`{text}` is no process: it is written PID:START"))?;
        Ok(Self { pid, start })
    }
}

/// What the kernel says of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) id: Identity,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    /// It has ended, and its parent has not asked how.
    pub(crate) zombie: bool,
}

impl Stat {
    /// Reads a line of `/proc/PID/stat`. The name in it may hold anything, spaces and brackets too.
    fn parse(line: &str) -> Option<Self> {
        let (pid, rest) = line.split_once(" (")?;
        let (_name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let number = |at: usize| fields.get(at)?.parse::<u32>().ok();
        Some(Self {
            id: Identity { pid: pid.parse().ok()?, start: fields.get(19)?.parse().ok()? },
            parent: number(1)?,
            group: number(2)?,
            session: number(3)?,
            zombie: matches!(*fields.first()?, "Z" | "X" | "x"),
        })
    }
}

/// Reads a file of a process; `None` where that has gone. Anything else that fails is an error: a process that cannot be
/// looked at for want of a descriptor has not ended by that.
#[cfg(target_os = "linux")]
fn read_of(pid: u32, file: &str) -> io::Result<Option<Vec<u8>>> {
    let gone = |error: &io::Error| {
        let number = rustix::io::Errno::from_io_error(error);
        error.kind() == io::ErrorKind::NotFound || number == Some(rustix::io::Errno::SRCH)
    };
    match std::fs::read(format!("/proc/{pid}/{file}")) {
        Ok(content) => Ok(Some(content)),
        Err(error) if gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The process of that number now.
#[cfg(target_os = "linux")]
pub(crate) fn stat(pid: u32) -> io::Result<Option<Stat>> {
    Ok(read_of(pid, "stat")?.and_then(|stat| Stat::parse(&String::from_utf8_lossy(&stat))))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn stat(pid: u32) -> io::Result<Option<Stat>> {
    Ok(Some(Stat { id: Identity { pid, start: 0 }, parent: 0, group: pid, session: pid, zombie: false }))
}

/// Every process that can be seen.
///
/// # Errors
/// Where they cannot be looked at: nothing is known then.
#[cfg(target_os = "linux")]
pub(crate) fn all() -> io::Result<Vec<Stat>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        if let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
            all.extend(stat(pid)?);
        }
    }
    Ok(all)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn all() -> io::Result<Vec<Stat>> {
    Ok(Vec::new())
}

/// A variable of the environment that a process was started with; none where we may not look.
#[cfg(target_os = "linux")]
pub(crate) fn variable(pid: u32, name: &str) -> io::Result<Option<String>> {
    let environ = match read_of(pid, "environ") {
        Ok(Some(environ)) => environ,
        Ok(None) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(error),
    };
    let of = |entry: &[u8]| Some(entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec());
    Ok(environ.split(|byte| *byte == 0).find_map(of).and_then(|value| String::from_utf8(value).ok()))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn variable(_pid: u32, _name: &str) -> io::Result<Option<String>> {
    Ok(None)
}

/// This start of the machine, and the space of numbers that we are in: elsewhere an [`Identity`] means another process.
#[cfg(target_os = "linux")]
pub(crate) fn world() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), space.display())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn world() -> String {
    String::new()
}

/// Sends a signal to that process, and to no later one of its number. Whether it was there.
#[cfg(target_os = "linux")]
pub(crate) fn signal(to: Identity, signal: rustix::process::Signal) -> bool {
    use rustix::{
        io::Errno,
        process::{Pid, PidfdFlags, kill_process, pidfd_open, pidfd_send_signal},
    };
    let is_there = || matches!(stat(to.pid), Ok(Some(now)) if now.id == to);
    let Some(pid) = Pid::from_raw(to.pid.cast_signed()) else { return false };
    match pidfd_open(pid, PidfdFlags::empty()) {
        // The descriptor is of one process: if it is the right one now, it stays the right one.
        Ok(process) => is_there() && pidfd_send_signal(process, signal).is_ok(),
        // A kernel before 5.3.
        Err(Errno::NOSYS) => is_there() && kill_process(pid, signal).is_ok(),
        Err(_) => false,
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn signal(to: Identity, signal: rustix::process::Signal) -> bool {
    let pid = rustix::process::Pid::from_raw(to.pid.cast_signed());
    pid.is_some_and(|pid| rustix::process::kill_process_group(pid, signal).is_ok())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_moves_no_field() {
        let line = "4711 (a ) R 1 (b) S 4700 4711 4600 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 2 3";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(stat.id, Identity { pid: 4711, start: 987_654 });
        assert_eq!((stat.parent, stat.group, stat.session, stat.zombie), (4700, 4711, 4600, false));
        assert!(Stat::parse("4711 (x").is_none());
    }

    #[test]
    fn an_identity_is_read_as_it_is_written() {
        let id = Identity { pid: 7, start: 99 };
        assert_eq!(id.to_string().parse(), Ok(id));
        for bad in ["", "7", "7:", ":9", "a:b", "7:9:1"] {
            assert!(bad.parse::<Identity>().is_err(), "{bad}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn we_are_among_the_processes_and_a_later_one_of_our_number_is_not_us() {
        let me = stat(std::process::id()).unwrap().unwrap();
        assert!(all().unwrap().contains(&me));
        let later = Identity { start: me.id.start + 1, ..me.id };
        // Were it sent, this test would end.
        assert!(!signal(later, rustix::process::Signal::KILL));
    }
}
