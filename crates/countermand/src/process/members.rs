//! Which processes belong to an operation.

use super::census::{Seen, Snapshot};
use crate::platform::{self, Cgroup, Identity, Stat};
use rustix::process::Signal;
use std::{
    collections::HashSet,
    io,
    sync::{Mutex, PoisonError},
};

/// The processes of one operation, as far as they can be told.
#[derive(Debug)]
pub(super) struct Members {
    operation: String,
    /// The process that was started, where it is known.
    pub(super) leader: Option<Identity>,
    /// Whether this process has started it, and has watched it since. Else a number may be another's by now.
    watched: bool,
    pub(super) cgroups: Vec<Cgroup>,
    /// Those that were seen: they stay members whatever they turn into.
    seen: Mutex<HashSet<Identity>>,
    /// Our own session and number: nobody is ours by being near us.
    own: (u32, u32),
}

impl Members {
    pub(super) fn new(
        operation: String,
        leader: Option<Identity>,
        watched: bool,
        cgroups: Vec<Cgroup>,
    ) -> Self {
        let pid = std::process::id();
        let session = platform::stat(pid).ok().flatten().map_or(0, |stat| stat.session);
        Self { operation, leader, watched, cgroups, seen: Mutex::default(), own: (pid, session) }
    }

    /// Those that live.
    ///
    /// # Errors
    /// Where they cannot be looked at now: nothing is known then.
    pub(super) fn alive(&self, snapshot: &Snapshot) -> io::Result<Vec<Identity>> {
        let mut grouped = HashSet::new();
        for group in &self.cgroups {
            grouped.extend(group.pids()?);
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let members = self.select(snapshot, &grouped, &seen)?;
        seen.extend(&members);
        Ok(members)
    }

    fn select(
        &self,
        snapshot: &Snapshot,
        grouped: &HashSet<u32>,
        seen: &HashSet<Identity>,
    ) -> io::Result<Vec<Identity>> {
        let since = self.leader.filter(|_| self.watched).map_or(0, |leader| leader.start);
        let candidates: Vec<&Seen> = snapshot
            .processes
            .iter()
            .filter(|p| p.stat.id.pid != self.own.0 && p.stat.id.start >= since)
            .collect();
        // While it is being watched its number stands for it, session and group too, unless somebody else has it.
        let reused = candidates.iter().any(|p| {
            self.leader.is_some_and(|leader| p.stat.id.pid == leader.pid && p.stat.id.start != leader.start)
        });
        let number = self.leader.filter(|_| self.watched && !reused).map(|leader| leader.pid);
        let is_one = |p: &Seen| {
            let stat = &p.stat;
            let near = Some(stat.id) == self.leader
                || number.is_some_and(|number| stat.session == number || stat.group == number)
                || grouped.contains(&stat.id.pid)
                || seen.contains(&stat.id);
            Ok::<bool, io::Error>(near || p.operation()? == Some(self.operation.as_str()))
        };
        let mut members: Vec<&Stat> = Vec::new();
        let mut rest: Vec<&Seen> = Vec::new();
        for candidate in candidates {
            if is_one(candidate)? {
                members.push(&candidate.stat);
            } else {
                rest.push(candidate);
            }
        }
        // Whoever shares a session or a group with a member, or descends from one.
        loop {
            let kin = |p: &&Seen| {
                members.iter().any(|m| {
                    let near = m.session != self.own.1;
                    p.stat.parent == m.id.pid
                        || near && (p.stat.session == m.session || p.stat.group == m.group)
                })
            };
            let (found, others): (Vec<&Seen>, Vec<&Seen>) = rest.into_iter().partition(kin);
            rest = others;
            if found.is_empty() {
                break;
            }
            members.extend(found.iter().map(|p| &p.stat));
        }
        Ok(members.into_iter().filter(|stat| !stat.zombie).map(|stat| stat.id).collect())
    }

    /// Sends a signal to those.
    pub(super) fn signal(&self, members: &[Identity], signal: Signal) {
        if signal == Signal::KILL {
            self.cgroups.iter().for_each(Cgroup::kill);
        }
        for member in members {
            platform::signal(*member, signal);
        }
    }

    /// Nobody is left: nor need their groups be. Whether they are gone.
    pub(super) fn tidy(&self) -> bool {
        self.cgroups.iter().all(Cgroup::remove)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const OWN: (u32, u32) = (1000, 900);
    const LEADER: Identity = Identity { pid: 2000, start: 50 };

    fn process(pid: u32, start: u64, (parent, group, session): (u32, u32, u32)) -> Stat {
        Stat { id: Identity { pid, start }, parent, group, session, zombie: false }
    }

    fn members(watched: bool) -> Members {
        Members {
            operation: "op".into(),
            leader: Some(LEADER),
            watched,
            cgroups: Vec::new(),
            seen: Mutex::default(),
            own: OWN,
        }
    }

    fn pids(members: &Members, processes: Vec<Seen>) -> Vec<u32> {
        let mut pids: Vec<u32> =
            members.alive(&Snapshot { processes }).unwrap().into_iter().map(|member| member.pid).collect();
        pids.sort_unstable();
        pids
    }

    fn other(stat: Stat) -> Seen {
        Seen::of(stat, "another")
    }

    #[test]
    fn session_group_environment_and_descent_each_make_a_member() {
        let all = vec![
            other(process(1000, 1, (1, 1000, 900))),
            other(process(2000, 50, (1000, 2000, 2000))),
            other(process(2001, 51, (2000, 2001, 2000))),
            Seen::of(process(2002, 52, (1, 2002, 2002)), "op"),
            other(process(2003, 53, (2002, 2003, 2003))),
            other(process(2004, 54, (1, 2003, 2003))),
            other(process(3000, 60, (1000, 3000, 3000))),
            other(process(4000, 40, (1, 4000, 4000))),
        ];
        assert_eq!(pids(&members(true), all), [2000, 2001, 2002, 2003, 2004]);
    }

    #[test]
    fn whoever_was_seen_stays_a_member_after_its_parents_have_gone() {
        let members = members(true);
        let child = process(2001, 51, (2000, 2001, 2001));
        assert_eq!(
            pids(&members, vec![other(process(2000, 50, (1000, 2000, 2000))), other(child)]),
            [2000, 2001]
        );
        let adopted = Stat { parent: 1, ..child };
        let later = process(2002, 99, (1, 2002, 2002));
        assert_eq!(pids(&members, vec![other(adopted), other(later)]), [2001]);
    }

    #[test]
    fn a_number_that_somebody_else_has_now_makes_nobody_a_member() {
        let reused =
            || vec![other(process(2000, 70, (1, 2000, 2000))), other(process(2001, 71, (2000, 2000, 2000)))];
        assert_eq!(pids(&members(true), reused()), [] as [u32; 0]);
        assert_eq!(pids(&members(false), reused()), [] as [u32; 0]);
    }

    #[test]
    fn of_one_that_was_not_watched_a_bare_number_proves_nothing() {
        // Its leader is gone: the session of that number may be another's, unless somebody in it is known.
        let stranger = process(2001, 71, (1, 2000, 2000));
        assert_eq!(pids(&members(false), vec![other(stranger)]), [] as [u32; 0]);
        let known = Seen::of(process(2002, 51, (1, 2000, 2000)), "op");
        assert_eq!(
            pids(&members(false), vec![other(process(2001, 51, (1, 2000, 2000))), known]),
            [2001, 2002]
        );
    }

    #[test]
    fn the_dead_and_our_own_neighbours_are_none() {
        let mut zombie = process(2000, 50, (1000, 2000, 2000));
        zombie.zombie = true;
        // Between fork and exec a child is still in our session, and has our environment.
        let young = Seen::of(process(2005, 55, (1000, 1000, 900)), "op");
        let neighbour = other(process(2006, 56, (1, 1000, 900)));
        assert_eq!(pids(&members(true), vec![other(zombie), young, neighbour]), [2005]);
    }
}
