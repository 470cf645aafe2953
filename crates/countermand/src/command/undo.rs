//! Programs that undo something: run to their ends, and not twice at once.

use super::{Commands, NotStarted, run::Run};
use crate::{
    process::{Exit, Stop},
    template::{ProgramTemplate, Scope},
};
use countermand_core::{
    Row,
    event::{RequestAnswer, Trouble},
};
use std::{sync::Arc, time::Duration};

/// How long an undo may run.
const LONGEST: Duration = Duration::from_secs(600);

impl Commands {
    /// Runs a program that undoes something of an operation; exit code 0 says that it has.
    ///
    /// # Cancel safety
    /// If the future is dropped, the program runs on, and the next one to ask waits for it. So an undo may take longer than a
    /// request.
    pub(crate) async fn undo(
        self: &Arc<Self>,
        program: &ProgramTemplate,
        scope: &Scope<'_>,
        row: &Row,
    ) -> RequestAnswer {
        let known = self.undoing().get(&row.id).cloned();
        let run = match known {
            Some(run) => run,
            None => match self.start_undo(program, scope, row).await {
                Ok(run) => run,
                Err(NotStarted::ForNow(trouble)) => return RequestAnswer::Failed(trouble),
                Err(NotStarted::Refused(trouble)) => return RequestAnswer::Refused(trouble),
            },
        };
        let exit = run.ended().await;
        self.undoing().remove(&row.id);
        judged(&run, exit)
    }

    async fn start_undo(
        self: &Arc<Self>,
        program: &ProgramTemplate,
        scope: &Scope<'_>,
        row: &Row,
    ) -> Result<Arc<Run>, NotStarted> {
        // A gateway that died may have left one that still does what is to be done now.
        let control = self.adopt_by_name(row)?;
        control.ended().await;
        let run = self.start(program, scope, row, 0).await?;
        self.undoing().insert(row.id, run.clone());
        let control = run.control.clone();
        self.tasks.spawn(async move {
            if tokio::time::timeout(LONGEST, control.ended()).await.is_err() {
                control.stop(Stop::default());
            }
        });
        Ok(run)
    }

    fn adopt_by_name(&self, row: &Row) -> Result<crate::process::Control, NotStarted> {
        let runner = self.runner().map_err(NotStarted::ForNow)?;
        Ok(runner.adopt(&row.id.to_string(), None, None, Stop::NOW))
    }
}

fn judged(run: &Run, exit: Exit) -> RequestAnswer {
    if exit.code() == Some(0) && !exit.stopped {
        return RequestAnswer::Done;
    }
    let said = run.capture.last_words().map_or_else(String::new, |words| format!("; it said last: {words}"));
    let why = if exit.stopped { format!("it was stopped ({exit})") } else { exit.to_string() };
    RequestAnswer::Failed(Trouble::new(format!("the undo program failed: {why}{said}")))
}
