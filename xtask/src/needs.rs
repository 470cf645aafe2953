//! What the tests need of the machine.

use anyhow::{Result, bail};
use std::process::{Command, Stdio};

/// Whether a command runs and succeeds.
pub(crate) fn has(command: &[&str]) -> bool {
    let [program, args @ ..] = command else { return false };
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// A need: what proves it, which Debian package brings it, and what it is for.
struct Need {
    proof: &'static [&'static str],
    package: &'static str,
    purpose: &'static str,
}

const NEEDS: &[Need] = &[
    Need {
        proof: &["cc", "--version"],
        package: "gcc libc6-dev",
        purpose: "SQLite and the TLS library are built from C",
    },
    Need { proof: &["strace", "-V"], package: "strace", purpose: "a test reads the order of system calls" },
];

/// Installs what is missing, where we may; names it where we may not.
pub(crate) fn check() -> Result<()> {
    for need in NEEDS {
        if has(need.proof) {
            continue;
        }
        println!("{} is missing ({}): installing {}", need.proof[0], need.purpose, need.package);
        let installed = has(&["apt-get", "--version"])
            && Command::new("apt-get").arg("update").status().is_ok_and(|s| s.success())
            && Command::new("apt-get")
                .args(["install", "-y", "--no-install-recommends"])
                .args(need.package.split(' '))
                .status()
                .is_ok_and(|s| s.success());
        if !installed || !has(need.proof) {
            bail!(
                "{} is missing: {}. Install it (Debian: apt-get install {}) and run this again",
                need.proof[0],
                need.purpose,
                need.package
            );
        }
    }
    Ok(())
}

/// The clients of others need Python with pip.
pub(crate) fn python() -> Result<()> {
    if has(&["python3", "-m", "venv", "--help"]) {
        return Ok(());
    }
    bail!(
        "python3 with venv is missing: install it (Debian: apt-get install python3-venv) and run this again"
    )
}
