//! A small file system of our own, where the machine lets us mount one.

use std::{
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// A mounted tmpfs; dropping it unmounts it.
pub struct Mount {
    directory: TempDir,
}

impl Mount {
    /// Mounts one of this size, or says why the test is skipped.
    pub fn of(size: &str) -> Option<Self> {
        let directory = tempfile::tempdir().expect("makes a directory");
        match run("mount", &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"], directory.path()) {
            Ok(()) => Some(Self { directory }),
            Err(why) => {
                println!("skipped: a tmpfs cannot be mounted here: {why}");
                None
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn make_read_only(&self) {
        run("mount", &["-o", "remount,ro"], self.path()).expect("remounts");
    }

    /// Takes this much of the space away, until the file is removed.
    pub fn fill(&self, bytes: usize) -> PathBuf {
        let path = self.path().join("filler");
        std::fs::write(&path, vec![0; bytes]).expect("fills");
        path
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(why) = run("umount", &["-l"], self.path()) {
            println!("failed to unmount {}: {why}", self.path().display());
        }
    }
}

fn run(program: &str, args: &[&str], path: &Path) -> Result<(), String> {
    let output = Command::new(program).args(args).arg(path).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}
