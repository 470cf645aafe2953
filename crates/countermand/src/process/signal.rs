//! The signals that ask a program to stop, and the names of those that have ended one.

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

/// A signal that asks a program to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum StopSignal {
    /// What Ctrl-C sends.
    Int,
    /// What `kill` sends.
    Term,
    /// What a closed terminal sends.
    Hup,
    /// What Ctrl-\ sends.
    Quit,
    /// What a program makes of it.
    Usr1,
    /// What a program makes of it.
    Usr2,
    /// Not to be refused.
    Kill,
}

impl StopSignal {
    /// Every one of them, by its name without `SIG`.
    pub const ALL: [(&'static str, Self); 7] = [
        ("INT", Self::Int),
        ("TERM", Self::Term),
        ("HUP", Self::Hup),
        ("QUIT", Self::Quit),
        ("USR1", Self::Usr1),
        ("USR2", Self::Usr2),
        ("KILL", Self::Kill),
    ];

    /// Its name without `SIG`.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, signal)| *signal == self).map_or("", |(name, _)| name)
    }

    pub(super) fn raw(self) -> Signal {
        match self {
            Self::Int => Signal::INT,
            Self::Term => Signal::TERM,
            Self::Hup => Signal::HUP,
            Self::Quit => Signal::QUIT,
            Self::Usr1 => Signal::USR1,
            Self::Usr2 => Signal::USR2,
            Self::Kill => Signal::KILL,
        }
    }
}

/// What a signal is called, such as `SIGSEGV`.
pub(super) fn name_of(number: i32) -> String {
    const NAMES: [(Signal, &str); 19] = [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::ILL, "ILL"),
        (Signal::TRAP, "TRAP"),
        (Signal::ABORT, "ABRT"),
        (Signal::BUS, "BUS"),
        (Signal::FPE, "FPE"),
        (Signal::KILL, "KILL"),
        (Signal::USR1, "USR1"),
        (Signal::SEGV, "SEGV"),
        (Signal::USR2, "USR2"),
        (Signal::PIPE, "PIPE"),
        (Signal::ALARM, "ALRM"),
        (Signal::TERM, "TERM"),
        (Signal::XCPU, "XCPU"),
        (Signal::XFSZ, "XFSZ"),
        (Signal::VTALARM, "VTALRM"),
        (Signal::SYS, "SYS"),
    ];
    let known = NAMES.iter().find(|(signal, _)| signal.as_raw() == number);
    known.map_or_else(|| format!("signal {number}"), |(_, name)| format!("SIG{name}"))
}
