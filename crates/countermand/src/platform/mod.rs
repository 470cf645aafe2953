//! What is specific to Linux; elsewhere each answer is the careless one.

mod cgroup;
mod processes;
mod spawn;

pub(crate) use cgroup::{Cgroup, CgroupBase};
pub use processes::Identity;
pub(crate) use processes::{Stat, all as processes, signal, stat, variable, world};
pub(crate) use spawn::prepare;

use std::{io, path::Path, time::Duration};

/// The name of the network file system that holds `path`, where one does. Its locks and its shared memory
/// are not to be trusted with a database.
///
/// # Errors
/// Where the file system cannot be asked, above all for a path that is not there.
#[cfg(target_os = "linux")]
pub(crate) fn network_file_system(path: &Path) -> io::Result<Option<&'static str>> {
    let kind = rustix::fs::statfs(path)?.f_type as u32;
    if kind == FUSE {
        return Ok(fuse_remote(path));
    }
    Ok(NETWORK.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn network_file_system(_path: &Path) -> io::Result<Option<&'static str>> {
    Ok(None)
}

/// Lets the kernel close a connection whose peer has taken nothing for so long. Without it one that was given up while
/// its peer reads nothing more stays open: it closes only once it is flushed.
#[cfg(target_os = "linux")]
pub(crate) fn bound_unacknowledged(
    client: reqwest::ClientBuilder,
    bound: Duration,
) -> reqwest::ClientBuilder {
    client.tcp_user_timeout(bound)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn bound_unacknowledged(
    client: reqwest::ClientBuilder,
    _bound: Duration,
) -> reqwest::ClientBuilder {
    client
}

/// A process group that is killed when this is dropped: a program of somebody's, and what it has started.
pub(crate) struct KillGroup(#[cfg(target_os = "linux")] Option<rustix::process::Pid>);

impl KillGroup {
    /// That of the process that leads it.
    #[cfg(target_os = "linux")]
    pub(crate) fn of(leader: Option<u32>) -> Self {
        Self(leader.and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())))
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn of(_leader: Option<u32>) -> Self {
        Self()
    }

    /// Its leader has ended by itself: what it has left behind is its own affair.
    #[cfg_attr(not(target_os = "linux"), expect(unused_mut, reason = "there is nothing to change"))]
    pub(crate) fn let_go(mut self) {
        #[cfg(target_os = "linux")]
        {
            self.0 = None;
        }
    }
}

impl Drop for KillGroup {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        if let Some(group) = self.0 {
            // Fails where nothing of it is left.
            let _gone = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

/// The kernel's numbers for file systems whose server is another machine (or, with 9p, another kernel).
#[cfg(target_os = "linux")]
const NETWORK: &[(u32, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x7375_7245, "Coda"),
    (0x564c, "NCP"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
];

#[cfg(target_os = "linux")]
const FUSE: u32 = 0x6573_5546;

/// FUSE is one number for everything: a local NTFS and a bucket at the other end of the world. The
/// mount table has the name.
#[cfg(target_os = "linux")]
fn fuse_remote(path: &Path) -> Option<&'static str> {
    use std::os::unix::fs::MetadataExt;
    let device = std::fs::metadata(path).ok()?.dev();
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    remote_in(&std::fs::read_to_string("/proc/self/mountinfo").ok()?, &device)
}

/// The remote FUSE file system that is mounted as `device` (major:minor), in the words of a mount table.
#[cfg(target_os = "linux")]
fn remote_in(mountinfo: &str, device: &str) -> Option<&'static str> {
    const REMOTE: &[&str] = &[
        "sshfs",
        "rclone",
        "s3fs",
        "mount-s3",
        "goofys",
        "gcsfuse",
        "blobfuse2",
        "glusterfs",
        "ceph-fuse",
        "ceph",
        "davfs",
        "curlftpfs",
        "juicefs",
        "mfs",
        "beegfs",
        "smbnetfs",
    ];
    mountinfo.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        if mount.split(' ').nth(2) != Some(device) {
            return None;
        }
        let name = system.split(' ').next()?.strip_prefix("fuse.")?;
        REMOTE.iter().copied().find(|remote| *remote == name)
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_local_directory_is_on_no_network() {
        assert_eq!(network_file_system(&std::env::temp_dir()).ok(), Some(None));
    }

    #[test]
    fn a_remote_fuse_mount_is_told_from_a_local_one() {
        let table = "36 25 0:41 / /mnt/far rw,nosuid shared:1 - fuse.sshfs host:/ rw,user_id=0\n\
                     37 25 0:42 / /mnt/near rw - fuse.fuse-overlayfs overlay rw\n";
        assert_eq!(remote_in(table, "0:41"), Some("sshfs"));
        assert_eq!(remote_in(table, "0:42"), None);
        assert_eq!(remote_in(table, "0:43"), None);
    }
}

/// Lets this process open as many files and connections as it may: what it is given at first is often a mere 1,024, and
/// without a descriptor no cancel is sent. Returns how many those are, where that is known.
#[cfg(target_os = "linux")]
pub fn raise_descriptor_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(_) => current,
    }
}

/// As on Linux; nothing is known elsewhere.
#[cfg(not(target_os = "linux"))]
pub fn raise_descriptor_limit() -> Option<u64> {
    None
}

/// Keeps a write beyond the limit on a file's size (`ulimit -f`) from killing this process: the write fails, as on a full
/// disk. What is started here gets the signal as ever. To be called in a runtime, once.
///
/// # Errors
/// Where the system does not let us.
#[cfg(target_os = "linux")]
pub fn survive_file_size_limit() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    // Nobody waits for it; its default action is replaced for good.
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

/// As on Linux; elsewhere the system decides.
#[cfg(not(target_os = "linux"))]
pub fn survive_file_size_limit() -> std::io::Result<()> {
    Ok(())
}
