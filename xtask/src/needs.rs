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
    /// Whether a test that misses it prints `skipped: why`; nothing can do without the others.
    skippable: bool,
}

const NEEDS: &[Need] = &[
    Need {
        proof: &["cc", "--version"],
        package: "gcc libc6-dev",
        purpose: "SQLite and the TLS library are built from C",
        skippable: false,
    },
    Need {
        proof: &["ip", "-V"],
        package: "iproute2",
        purpose: "clients whose network is lost have one of their own",
        skippable: true,
    },
    Need {
        proof: &["strace", "-V"],
        package: "strace",
        purpose: "a test reads the order of system calls",
        skippable: true,
    },
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
        let there = installed && has(need.proof);
        if !there && need.skippable {
            println!("{} could not be installed: what needs it is skipped", need.package);
        } else if !there {
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

/// The clients of others need Python with pip, and their harness is written in it.
pub(crate) fn python() -> Result<()> {
    if has(&["python3", "-m", "venv", "--help"]) {
        return Ok(());
    }
    bail!(
        "python3 with venv is missing: install it (Debian: apt-get install python3-venv) and run this again"
    )
}

/// Half of what others wrote comes from npm. Where it needs a newer Node than this one, that is a package, too.
pub(crate) fn node() -> Result<()> {
    for program in ["node", "npm"] {
        if !has(&[program, "--version"]) {
            bail!(
                "{program} is missing: install Node.js 20 or newer with npm (Debian: apt-get install nodejs npm) \
                 and run this again"
            );
        }
    }
    Ok(())
}
