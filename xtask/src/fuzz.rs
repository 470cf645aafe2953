//! The fuzz targets, one after the other. What they find is kept in `fuzz/found`; what is worth keeping becomes a seed.

use crate::{
    needs,
    run::{Step, cargo, root, run_all},
};
use anyhow::{Context, Result, bail};

const TARGETS: [&str; 4] = ["config", "template", "answer", "stdio"];

/// Runs them.
pub(crate) fn run(mut args: impl Iterator<Item = String>) -> Result<()> {
    let (mut minutes, mut only) = (1.0, None);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--minutes" => minutes = args.next().context("`--minutes` has no value")?.parse::<f64>()?,
            target if TARGETS.contains(&target) => only = Some(arg),
            _ => bail!("usage: cargo xtask fuzz [{}] [--minutes N]", TARGETS.join("|")),
        }
    }
    if !needs::has(&["cargo", "fuzz", "--version"]) {
        bail!("cargo-fuzz is missing: cargo install cargo-fuzz");
    }
    for target in TARGETS.into_iter().filter(|target| only.as_deref().is_none_or(|only| only == *target)) {
        let (found, seeds) = (format!("fuzz/found/{target}"), format!("fuzz/corpus/{target}"));
        std::fs::create_dir_all(root().join(&found))?;
        let bound = format!("-max_total_time={}", (minutes * 60.0) as u64);
        let fuzz = ["fuzz", "run", "--dev", "--sanitizer", "none", target, &found, &seeds, "--"];
        let fuzz = cargo(fuzz.into_iter().chain([bound.as_str(), "-max_len=8192", "-timeout=20"]));
        // What instruments a build is not stable in rustc.
        run_all([Step::new(target, fuzz).env(&[("RUSTC_BOOTSTRAP", "1")])])?;
    }
    Ok(())
}
