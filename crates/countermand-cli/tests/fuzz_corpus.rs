//! The fuzz targets' entries over their committed seeds, and over some thousand mutations of them: the same for everybody, with no
//! fuzzer. What a fuzzer has found is a seed from then on.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, missing_docs, unreachable_pub)]

#[path = "../../../fuzz/src/entries.rs"]
mod entries;

use std::path::Path;

const SEED: u64 = 0x5eed_0000_0001;

/// Text that means something to one of them.
const WORDS: &[&str] = &[
    "${",
    "}",
    "${args.a}",
    ":path",
    "$${",
    "$.",
    "..",
    "[*]",
    "[?@.a==1]",
    "{",
    "[",
    "\"",
    "\\u0000",
    "\n",
    "\r\n",
    "&a ",
    "*a",
    "<<: ",
    "- ",
    ": ",
    "|\n",
    "null",
    "-1",
    "1e999",
    "18446744073709551616",
    "%2e",
    "/",
    "#",
    "?",
    "é",
    "\u{202e}",
    "0s",
    "\"id\":",
    "\"method\":",
    "\"jsonrpc\":\"2.0\"",
    "running",
    "unsupported",
    "lifetime",
    "preset: ",
];

/// Chance that can be had again (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }

    /// A seed, with a few things done to it.
    fn mutation(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            match self.below(6) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 => {
                    let end = (at + self.below(12)).min(bytes.len());
                    bytes.drain(at..end);
                }
                2 => {
                    let end = (at + self.below(40)).min(bytes.len());
                    let again = bytes[at..end].to_vec();
                    bytes.splice(at..at, again);
                }
                3 => {
                    let other = &seeds[self.below(seeds.len())];
                    let from = self.below(other.len() + 1);
                    bytes.truncate(at);
                    bytes.extend_from_slice(&other[from..]);
                }
                4 => bytes.insert(at, self.below(256) as u8),
                _ => {
                    let word = WORDS[self.below(WORDS.len())].bytes();
                    bytes.splice(at..at, word);
                }
            }
        }
        bytes
    }
}

fn holds_for(target: &str, mutations: usize, entry: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<_> = std::fs::read_dir(corpus).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let seeds: Vec<_> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    assert!(!seeds.is_empty(), "{target} has no seeds");
    let tried = |what: &str, bytes: &[u8]| {
        if std::panic::catch_unwind(|| entry(bytes)).is_err() {
            panic!("{target}, {what}: {:?}", String::from_utf8_lossy(bytes));
        }
    };
    for (file, seed) in files.iter().zip(&seeds) {
        tried(&file.display().to_string(), seed);
    }
    let mut dice = Dice(SEED);
    for nth in 0..mutations {
        tried(&format!("mutation {nth}"), &dice.mutation(&seeds));
    }
}

#[test]
fn a_config_is_read_or_refused_in_words() {
    holds_for("config", 3_000, entries::config);
}

#[test]
fn whatever_a_template_holds_stays_in_its_place() {
    holds_for("template", 20_000, entries::template);
}

#[test]
fn an_answer_is_read_or_refused_and_never_guessed() {
    countermand::upstream::install_crypto();
    holds_for("answer", 5_000, entries::answer);
}

#[test]
fn whatever_comes_on_stdin_only_lines_of_json_go_out() {
    holds_for("stdio", 5_000, entries::stdio);
}
