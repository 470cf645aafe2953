//! What developers run: `cargo xtask test`, `ci`, `soak`, `fuzz`, `bench`, and against what others wrote, `foreign` and `conformance`.

mod fuzz;
mod needs;
mod run;
mod soak;

use anyhow::{Context as _, Result, bail};
use run::{Step, cargo, run_all};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test [ARGS…]         checks what the tests need, installs or names what is missing, runs them all
  ci                   format, clippy, tests, deny, docs, examples, the demo: what .ci/run runs
  soak                 everything at once for [--minutes N] (30) from [--seed S]; then the books must balance
  fuzz                 each target of fuzz/ in turn, or [TARGET], for [--minutes N] (1) each (needs cargo-fuzz)
  bench                prints the latency of a cancel and the CPU time of a call
  foreign [NAME…]      drives the gateway with MCP clients written by others, and `wrap` before servers written by others
                       (needs PyPI and npm); NAME: part of a run's name or a scenario's, such as `typescript`, `http/2026`, `wrap`
  foreign overhead     measures an echo call straight to such servers and through `wrap`, by the build of
                       COUNTERMAND_PROFILE (debug), which must be there
  conformance [REV…]   runs the official MCP conformance suite against the gateway over HTTP (needs npm)
";

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("test") => test(&args.collect::<Vec<_>>(), &[]),
        Some("ci") => ci(),
        Some("bench") => {
            run_all([Step::new("bench", cargo(["bench", "-p", "countermand-cli", "--bench", "cancel"]))])
        }
        Some("soak") => soak::run(args),
        Some("fuzz") => fuzz::run(args),
        Some("foreign") => foreign(&args.collect::<Vec<_>>()),
        Some("conformance") => conformance(&args.collect::<Vec<_>>()),
        _ => bail!("{USAGE}"),
    }
}

/// Everything that tests, with nextest where it is installed.
fn test(args: &[String], vars: &[(&str, &str)]) -> Result<()> {
    needs::check()?;
    let extra = args.iter().map(String::as_str);
    let tests = if needs::has(&["cargo", "nextest", "--version"]) {
        cargo(["nextest", "run", "--workspace", "--no-fail-fast"].into_iter().chain(extra))
    } else {
        println!("cargo-nextest is not installed: using `cargo test`");
        cargo(["test", "--workspace", "--no-fail-fast"].into_iter().chain(extra))
    };
    run_all([
        Step::new("tests", tests).env(vars),
        Step::new("doc tests", cargo(["test", "--workspace", "--doc"])),
    ])
}

fn ci() -> Result<()> {
    let strict = [("RUSTDOCFLAGS", "-D warnings")];
    run_all([
        Step::new("format", cargo(["fmt", "--all", "--check"])),
        Step::new("clippy", cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])),
    ])?;
    // The soak is longest: it starts first (.config/nextest.toml), and the other tests run beside it.
    test(&[], &[(soak::MINUTES, "5")])?;
    run_all([Step::new("docs", cargo(["doc", "--workspace", "--no-deps", "--document-private-items"]))
        .env(&strict)])?;
    if needs::has(&["cargo", "deny", "--version"]) {
        // The advisory database is fetched from elsewhere; it is no part of a build that works offline.
        run_all([Step::new("deny", cargo(["deny", "check", "bans", "licenses", "sources"]))])?;
    } else {
        println!("skipped: cargo deny: cargo-deny is not installed");
    }
    run_all([
        Step::new("examples", cargo(["run", "--release", "--", "check", "-c", "examples/reports.yaml"])),
        Step::new(
            "examples: programs",
            cargo(["run", "--release", "--", "check", "-c", "examples/commands.yaml"]),
        ),
        Step::new("demo", cargo(["run", "--release", "--", "demo", "--all"])),
    ])?;
    nothing_can_kill_it()
}

/// The binary for use has none of what tests kill it with.
fn nothing_can_kill_it() -> Result<()> {
    println!("\n== no crash points");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| run::root().join("target"), Into::into);
    let binary = target.join("release/countermand");
    let bytes = std::fs::read(&binary).with_context(|| format!("failed to read {}", binary.display()))?;
    let name = b"COUNTERMAND_CRASH";
    if bytes.windows(name.len()).any(|window| window == name) {
        bail!("{} has the feature `crash-points`: it is for tests only", binary.display());
    }
    Ok(())
}

/// Clients and servers that are not ours, pinned, against a real gateway.
fn foreign(args: &[String]) -> Result<()> {
    needs::python()?;
    needs::node()?;
    if let Some(("overhead", servers)) = args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return run_all([Step::new("overhead", script("tests/foreign/overhead.py", servers))]);
    }
    run_all([
        Step::new("build", cargo(["build", "-p", "countermand-cli"])),
        Step::new("foreign clients", script("tests/foreign/run.py", args)),
    ])
}

/// The official suite, pinned, against a real gateway.
fn conformance(args: &[String]) -> Result<()> {
    needs::python()?;
    needs::node()?;
    run_all([
        Step::new("build", cargo(["build", "-p", "countermand-cli"])),
        Step::new("conformance", script("tests/conformance/run.py", args)),
    ])
}

fn script(path: &str, args: &[String]) -> std::process::Command {
    run::program("python3", [path].into_iter().chain(args.iter().map(String::as_str)))
}
