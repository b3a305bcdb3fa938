//! The text of `callboard --version`: the version of the package, and the commit that it was built from.
//!
//! The commit comes from `CALLBOARD_COMMIT`, or from git in a build with optimisations. A debug build asks neither,
//! so that a commit compiles nothing again.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=CALLBOARD_COMMIT");
    let version = std::env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let text = match commit() {
        Some(commit) => format!("{version} ({})", commit.chars().take(12).collect::<String>()),
        None => version,
    };
    println!("cargo:rustc-env=CALLBOARD_VERSION={text}");
}

fn commit() -> Option<String> {
    let is_commit =
        |text: &String| text.len() >= 7 && text.bytes().all(|it| it.is_ascii_hexdigit());
    if let Ok(given) = std::env::var("CALLBOARD_COMMIT") {
        return Some(given).filter(is_commit);
    }
    if std::env::var("PROFILE").is_ok_and(|profile| profile != "release") {
        println!("cargo:rerun-if-changed=build.rs");
        return None;
    }
    for file in ["logs/HEAD", "HEAD"] {
        let path = git(&["rev-parse", "--git-path", file])
            .filter(|path| std::path::Path::new(path).exists());
        if let Some(path) = path {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "HEAD"]).filter(is_commit)
}

fn git(words: &[&str]) -> Option<String> {
    let ran = Command::new("git").args(words).output().ok().filter(|ran| ran.status.success())?;
    Some(String::from_utf8(ran.stdout).ok()?.trim().to_owned())
}
