//! The `countermand` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    countermand_cli::main()
}
