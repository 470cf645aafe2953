//! Control groups, version 2: the one thing that no process leaves by `setsid`, a double fork, or a clean environment.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

/// How long a group may be empty before it is left over.
const YOUNG: Duration = Duration::from_secs(60);

/// Where we may make groups of our own: beneath the one that we are in.
#[derive(Debug, Clone)]
pub(crate) struct CgroupBase(PathBuf);

/// A group for the processes of one operation.
#[derive(Debug, Clone)]
pub(crate) struct Cgroup(PathBuf);

impl CgroupBase {
    /// The base, where there is one that can be written.
    pub(crate) fn detect() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let base = Self(place(&mounts, &own)?);
        // Made, written to and removed once: what is mounted may still be read-only, or somebody else's.
        let probe = base.make(&format!("probe-{}", uuid::Uuid::new_v4())).ok()?;
        let kills = probe.0.join("cgroup.kill").exists();
        let joins = fs::OpenOptions::new().write(true).open(probe.0.join("cgroup.procs")).is_ok();
        let leaves = fs::OpenOptions::new().write(true).open(base.0.join("cgroup.procs")).is_ok();
        probe.remove();
        base.sweep();
        (kills && joins && leaves).then_some(base)
    }

    /// Removes what killed processes of ours have left: groups in which nothing lives. One that is young may be about to be
    /// joined.
    fn sweep(&self) {
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with("countermand-"));
            let age =
                entry.metadata().and_then(|group| group.modified()).ok().and_then(|made| made.elapsed().ok());
            if ours && age.is_some_and(|age| age > YOUNG) {
                Cgroup(entry.path()).remove();
            }
        }
    }

    /// Makes a group, or takes the one that is there.
    pub(crate) fn make(&self, name: &str) -> io::Result<Cgroup> {
        let group = self.named(name);
        match fs::create_dir(&group.0) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(group),
        }
    }

    /// The group of that name, made or not.
    pub(crate) fn named(&self, name: &str) -> Cgroup {
        Cgroup(self.0.join(format!("countermand-{name}")))
    }
}

impl Cgroup {
    /// One that was made before; only of a path that can be one of ours.
    pub(crate) fn at(path: &str) -> Option<Self> {
        let path = Path::new(path);
        let ours = path.file_name()?.to_str()?.starts_with("countermand-");
        (ours && path.is_absolute() && path.join("cgroup.procs").exists()).then(|| Self(path.to_owned()))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// What a process writes itself into.
    pub(crate) fn entrance(&self) -> io::Result<fs::File> {
        fs::OpenOptions::new().write(true).open(self.0.join("cgroup.procs"))
    }

    /// The numbers of the processes in it, and in groups beneath it.
    ///
    /// # Errors
    /// Where it is there and cannot be read: nothing is known then.
    pub(crate) fn pids(&self) -> io::Result<Vec<u32>> {
        let mut pids = Vec::new();
        for group in self.groups()? {
            let procs = unless_gone(fs::read_to_string(group.join("cgroup.procs")))?.unwrap_or_default();
            pids.extend(procs.lines().filter_map(|line| line.parse::<u32>().ok()));
        }
        Ok(pids)
    }

    /// This group and those beneath it, each after the one that it is in.
    fn groups(&self) -> io::Result<Vec<PathBuf>> {
        let mut groups = vec![self.0.clone()];
        let mut next = 0;
        while let Some(group) = groups.get(next).cloned() {
            if let Some(entries) = unless_gone(fs::read_dir(&group))? {
                for entry in entries {
                    let entry = entry?;
                    if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                        groups.push(entry.path());
                    }
                }
            }
            next += 1;
        }
        Ok(groups)
    }

    /// Kills everything in it at once.
    pub(crate) fn kill(&self) {
        // Fails where it is gone, with everything that was in it.
        let _gone = fs::write(self.0.join("cgroup.kill"), "1");
    }

    /// Removes it, and what is beneath. Whether it is gone: it stays while something is in it.
    pub(crate) fn remove(&self) -> bool {
        for group in self.groups().unwrap_or_default().iter().rev() {
            let _lives_or_gone = fs::remove_dir(group);
        }
        !self.0.exists()
    }
}

/// A group that has gone has nothing in it.
fn unless_gone<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        // What was removed while it was open.
        Err(error) if rustix::io::Errno::from_io_error(&error) == Some(rustix::io::Errno::NODEV) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The directory of our own group: the mount of version 2, and our path in it.
fn place(mountinfo: &str, own: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mount = mountinfo.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        if system.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        Some((fields.next()?, fields.next()?))
    });
    let (root, mounted) = mount?;
    // A container may see a part of the tree only: then our path starts at what is mounted.
    let within = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path);
    Some(Path::new(mounted).join(within.trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_group_is_found_in_each_kind_of_mount() {
        let unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        let hybrid = "31 30 0:5 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
                      33 30 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let part = "30 23 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        let own = "9:pids:/\n0::/user.slice/app.scope\n";
        assert_eq!(place(unified, own), Some("/sys/fs/cgroup/user.slice/app.scope".into()));
        assert_eq!(place(hybrid, "0::/\n"), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(place(part, "0::/docker/abc/x\n"), Some("/sys/fs/cgroup/x".into()));
        assert_eq!(place(part, "0::/\n"), Some("/sys/fs/cgroup".into()));
        assert_eq!(place("31 30 0:5 / /x rw - cgroup cgroup rw\n", own), None);
        assert_eq!(place(unified, "9:pids:/\n"), None);
    }

    #[test]
    fn only_what_can_be_a_group_of_ours_is_taken_for_one() {
        for path in ["/etc", "/", "", "countermand-x", "/tmp/countermand-nothing"] {
            assert!(Cgroup::at(path).is_none(), "{path}");
        }
    }
}
