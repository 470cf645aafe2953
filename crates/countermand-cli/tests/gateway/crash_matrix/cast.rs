//! Who plays: the tools, the clients, and what the upstream is made to do so that a point is reached.

use crate::stage::{Stage, Times};
use countermand_testkit::fake::{Fault, Gate, Route};
use std::fmt;

/// A kind of operation, by a tool of the stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    Job,
    Undo,
    Once,
    Marked,
    Keyless,
}

impl Tool {
    pub const ALL: [Self; 5] = [Self::Job, Self::Undo, Self::Once, Self::Marked, Self::Keyless];

    pub fn name(self) -> &'static str {
        match self {
            Self::Job => "run_report",
            Self::Undo => "with_undo",
            Self::Once => "order",
            Self::Marked => "no_cancel",
            Self::Keyless => "keyless",
        }
    }

    pub fn in_words(self) -> &'static str {
        match self {
            Self::Job => "a job with a key and a look-up",
            Self::Undo => "a job with an undo",
            Self::Once => "one HTTP request with an effect, with a key",
            Self::Marked => "a job that cannot be cancelled, with a mark and a key",
            Self::Keyless => "a job with neither key nor look-up (`lost_id: accept`)",
        }
    }

    pub fn create(self) -> Route {
        if self == Self::Once { Route::Order } else { Route::CreateJob }
    }
}

/// What the client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    Cancels,
    Disconnects,
    Stays,
}

impl Client {
    pub const ALL: [Self; 3] = [Self::Cancels, Self::Disconnects, Self::Stays];

    pub fn in_words(self) -> &'static str {
        match self {
            Self::Cancels => "cancels",
            Self::Disconnects => "disconnects",
            Self::Stays => "stays",
        }
    }
}

/// When the client moves: while the upstream holds this request.
#[derive(Debug, Clone, Copy)]
pub enum Cue {
    /// The create has arrived.
    Create,
    /// The create has taken effect.
    Created,
    /// The first status read has arrived.
    Read,
}

impl Cue {
    pub fn gate(self, tool: Tool) -> (Gate, Route) {
        match (self, tool) {
            (Self::Create, tool) => (Gate::RequestHead, tool.create()),
            (Self::Created, Tool::Once) => (Gate::OrderCommitted, Route::Order),
            (Self::Created, _) => (Gate::CreateCommitted, Route::CreateJob),
            (Self::Read, _) => (Gate::RequestHead, Route::JobStatus),
        }
    }
}

/// What an operator does when it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// Cancels at the cue.
    Cancels,
    /// Retries the undo that failed.
    Retries,
    /// Settles it by word.
    Resolves,
}

/// One way in which a call can go.
#[derive(Clone, Copy)]
pub struct Plot {
    pub name: &'static str,
    pub tools: &'static [Tool],
    pub clients: &'static [Client],
    pub cue: Cue,
    pub faults: &'static [(Route, Fault, Option<u32>)],
    /// What is written differently in the config.
    pub config: &'static [(&'static str, &'static str)],
    pub operator: Option<Operator>,
    /// Whether nobody listens where the upstream should be, in the first life.
    pub nowhere: bool,
    /// Whether a job whose client stays is left to run.
    pub endless: bool,
}

impl fmt::Debug for Plot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const PLAIN: Plot = Plot {
    name: "as it should be",
    tools: &[Tool::Job, Tool::Undo, Tool::Marked, Tool::Keyless],
    clients: &Client::ALL,
    cue: Cue::Read,
    faults: &[],
    config: &[],
    operator: None,
    nowhere: false,
    endless: false,
};

const GONE: &[Client] = &[Client::Cancels, Client::Disconnects];
const STAYS: &[Client] = &[Client::Stays];

/// The plots, the simplest first: a point is tested in the first in which it is passed.
pub const PLOTS: &[Plot] = &[
    PLAIN,
    Plot { tools: &[Tool::Once], cue: Cue::Created, ..PLAIN },
    Plot { name: "the create is in flight", cue: Cue::Created, clients: GONE, ..PLAIN },
    Plot {
        name: "the create's answer is lost",
        tools: &Tool::ALL,
        cue: Cue::Create,
        faults: &[
            (Route::CreateJob, Fault::ResetAfterCommit, Some(1)),
            (Route::Order, Fault::ResetAfterCommit, Some(1)),
        ],
        ..PLAIN
    },
    Plot {
        name: "the create is lost",
        tools: &[Tool::Job, Tool::Undo],
        clients: GONE,
        cue: Cue::Create,
        faults: &[(Route::CreateJob, Fault::ResetBeforeCommit, Some(1))],
        ..PLAIN
    },
    Plot {
        name: "a look-up fails",
        tools: &[Tool::Job, Tool::Undo],
        clients: GONE,
        cue: Cue::Create,
        faults: &[
            (Route::CreateJob, Fault::ResetAfterCommit, Some(1)),
            (Route::FindJobs, Fault::Status(503, None), Some(1)),
        ],
        ..PLAIN
    },
    Plot {
        name: "the create is throttled",
        tools: &Tool::ALL,
        cue: Cue::Create,
        faults: &[
            (Route::CreateJob, Fault::Status(429, None), Some(1)),
            (Route::Order, Fault::Status(429, None), Some(1)),
        ],
        ..PLAIN
    },
    Plot {
        name: "the create is refused",
        tools: &Tool::ALL,
        cue: Cue::Create,
        faults: &[
            (Route::CreateJob, Fault::Status(400, None), Some(1)),
            (Route::Order, Fault::Status(400, None), Some(1)),
        ],
        ..PLAIN
    },
    Plot { name: "the upstream is down", tools: &Tool::ALL, clients: STAYS, nowhere: true, ..PLAIN },
    Plot {
        name: "a status read fails",
        clients: STAYS,
        faults: &[(Route::JobStatus, Fault::Status(503, None), Some(1))],
        ..PLAIN
    },
    Plot {
        name: "the upstream is left alone after a read that failed",
        clients: STAYS,
        faults: &[(Route::JobStatus, Fault::Status(503, None), Some(1))],
        config: &[(
            "connect_timeout: 2s,",
            "connect_timeout: 2s, breaker: { failures: 1, open: 300ms, max: 300ms },",
        )],
        ..PLAIN
    },
    Plot {
        name: "a status read misses the job",
        clients: STAYS,
        faults: &[(Route::JobStatus, Fault::Vanish, Some(1))],
        ..PLAIN
    },
    Plot {
        name: "a cancel fails",
        tools: &[Tool::Job, Tool::Undo, Tool::Keyless],
        clients: GONE,
        faults: &[(Route::CancelJob, Fault::Status(503, None), Some(1))],
        ..PLAIN
    },
    Plot {
        name: "cancels are ignored",
        tools: &[Tool::Job, Tool::Undo],
        clients: GONE,
        faults: &[(Route::CancelJob, Fault::CancelIgnored, None)],
        config: &[("after: 30s", "after: 300ms")],
        ..PLAIN
    },
    Plot {
        name: "a mark fails",
        tools: &[Tool::Marked],
        clients: GONE,
        faults: &[(Route::Label, Fault::Status(503, None), Some(1))],
        ..PLAIN
    },
    Plot {
        name: "an undo fails",
        tools: &[Tool::Undo],
        clients: GONE,
        faults: &[(Route::DeleteRows, Fault::Status(503, None), Some(1))],
        ..PLAIN
    },
    Plot {
        name: "an undo is refused, and an operator retries it",
        tools: &[Tool::Undo],
        clients: &[Client::Cancels],
        faults: &[(Route::DeleteRows, Fault::Status(400, None), Some(1))],
        operator: Some(Operator::Retries),
        ..PLAIN
    },
    Plot {
        name: "an undo is refused, and an operator settles it",
        tools: &[Tool::Undo],
        clients: &[Client::Cancels],
        faults: &[(Route::DeleteRows, Fault::Status(400, None), Some(1))],
        operator: Some(Operator::Resolves),
        ..PLAIN
    },
    Plot {
        name: "its lifetime ends it",
        clients: STAYS,
        config: &[
            // The call's own timeout must not be faster.
            ("lifetime: 2h", "lifetime: 2s"),
            ("lifetime: 1h", "lifetime: 2s\n    timeout: 10m"),
            ("lifetime: 4s", "lifetime: 2s\n    timeout: 10m"),
            ("compensate: [", "timeout: 10m\n    compensate: ["),
        ],
        endless: true,
        ..PLAIN
    },
    Plot {
        name: "an operator cancels it",
        tools: &[Tool::Job],
        clients: STAYS,
        operator: Some(Operator::Cancels),
        endless: true,
        ..PLAIN
    },
];

impl Plot {
    /// A stage for it.
    pub async fn stage(&self) -> Stage {
        let times = Times { horizon: "400ms", ..Times::default() };
        let stage = Stage::with_config(times, |config| {
            let config = config.replace("shield: 5s", "shield: 2s");
            self.config.iter().fold(config, |config, (from, to)| config.replace(from, to))
        })
        .await;
        for (route, fault, times) in self.faults {
            stage.fake.fault(*route, fault.clone(), *times);
        }
        stage
    }
}
