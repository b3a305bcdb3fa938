//! The help of every command: its width, its examples, its language.

use callboard::cli;
use clap::Command;

/// Every command with its path, without the `help` that clap adds.
pub(crate) fn commands() -> Vec<(String, Command)> {
    fn walk(path: &str, command: &Command, found: &mut Vec<(String, Command)>) {
        found.push((path.to_owned(), command.clone()));
        for own in command.get_subcommands() {
            if own.get_name() != "help" && !own.is_hide_set() {
                walk(format!("{path} {}", own.get_name()).trim_start(), own, found);
            }
        }
    }
    let mut root = cli::command();
    root.build();
    let mut found = Vec::new();
    walk("", &root, &mut found);
    found
}

fn help(command: &Command, width: usize) -> String {
    command.clone().term_width(width).render_long_help().to_string()
}

#[test]
fn the_definition_of_the_command_line_is_sound() {
    cli::command().debug_assert();
}

#[test]
fn every_help_fits_terminals_of_80_and_120_columns() {
    for (path, command) in commands() {
        for width in [80, 120] {
            let help = help(&command, width);
            // clap does not break the line of usage.
            let lines = help.lines().filter(|line| !line.starts_with("Usage:"));
            for line in lines {
                let wide = line.chars().count();
                assert!(wide <= width, "{path} at {width}: {wide}: {line}");
            }
        }
    }
}

#[test]
fn every_command_has_examples_that_it_accepts() {
    for (path, command) in commands() {
        if command.has_subcommands() {
            continue;
        }
        let help = help(&command, 200);
        let (_, examples) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{path}"));
        let examples = examples.replace("\\\n", " ");
        for example in examples.lines().filter(|line| !line.trim().is_empty()) {
            let words = shlex::split(example).unwrap_or_else(|| panic!("{example}"));
            // What the shell takes for itself.
            let words = words.split(|word| word == ">" || word == "<").next().unwrap_or_default();
            let read = cli::command().try_get_matches_from(words);
            assert!(
                read.is_ok(),
                "{example}: {}",
                read.err().map(|e| e.to_string()).unwrap_or_default()
            );
            assert!(example.trim_start().starts_with(&format!("callboard {path}")), "{example}");
        }
    }
}

/// The help of every command, by its path.
pub(crate) fn texts() -> Vec<(String, String)> {
    let found = commands().into_iter();
    found.map(|(path, command)| (path, help(&command, 100))).collect()
}
