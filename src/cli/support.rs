//! `callboard support-bundle`: a file for a ticket about a server.
//!
//! Each part is its content, or the reason why there is none: a bundle is written also if the server is down.
//! Deliberately absent: texts of tasks, values of variables, and secrets of any kind.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use callboard_cli::doctor::Finding;
use callboard_cli::process::{announce, block_on};
use callboard_cli::support::answers;
use callboard_common::tls;
use callboard_store::inspect;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{SupportBundle, VERSION, doctor};
use crate::config::{Config, Flags};

/// The lines of the log that are taken.
const LINES: usize = 500;
/// The most bytes of the log that are read.
const LOG_BYTES: u64 = 4 << 20;
/// The beginnings of secrets that a log might hold after all.
const SECRETS: [&str; 6] =
    ["svc_live_", "svc_test_", "svc_worker_", "svc_refresh_", "whsec_", "eyJ"];

/// Gathers the parts, writes the file and prints its name.
pub(super) fn run(asked: SupportBundle) -> Result<(), String> {
    let SupportBundle { mut access, config, data_dir, log, to } = asked;
    tls::install_provider();
    let data_dir = data_dir.map(|path| path.display().to_string());
    let flags = Flags { config, data_dir, ..Flags::default() };
    let now = Timestamp::now();
    let settings = Config::load(flags.clone(), Config::environment());
    let bundle = block_on(async {
        let machine = doctor::machine(flags).await;
        access.server = access.server.or(machine.server);
        let answers = answers(&access).await;
        let answers = answers.unwrap_or_else(|reason| json!({"error": reason}));
        Ok(json!({
            "made": now.to_string(),
            "version": VERSION,
            "system": system(),
            "settings": settings.as_ref().map_or_else(|it| fault(&it.to_string()), shown),
            "variables": variables(),
            "checks": machine.findings.iter().map(finding).collect::<Vec<_>>(),
            "store": settings.as_ref().map_or(Value::Null, |it| store(&it.server.data_dir)),
            "server": answers,
            "log": log.as_deref().map(|log| last_lines(log).unwrap_or_else(|it| fault(&it.to_string()))),
        }))
    })?;
    let path = to.unwrap_or_else(|| {
        PathBuf::from(format!("callboard-support-{}.json", now.strftime("%Y%m%dT%H%M%SZ")))
    });
    write(&path, &bundle)
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    announce(&format!("wrote {}", path.display()));
    Ok(())
}

fn write(path: &Path, bundle: &Value) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(format!("{bundle:#}\n").as_bytes())?;
    file.sync_all()
}

fn fault(reason: &str) -> Value {
    json!({"error": reason})
}

/// The settings as the audit log has them, without secrets.
fn shown(config: &Config) -> Value {
    let settings = config.shown().into_iter().map(|(name, value)| (name.to_owned(), value.into()));
    Value::Object(settings.collect())
}

/// The names of the variables that the program knows, without their values.
fn variables() -> Value {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("CALLBOARD_")).collect();
    names.sort();
    names.into()
}

fn finding(finding: &Finding) -> Value {
    json!({"check": finding.check(), "state": finding.state(), "detail": finding.detail()})
}

fn system() -> Value {
    let read = |path: &str| fs::read_to_string(path).map_or(Value::Null, |text| text.trim().into());
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory: Vec<_> = memory.lines().take(3).map(str::to_owned).collect();
    let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    json!({
        "kernel": read("/proc/version"),
        "cpus": cpus,
        "memory": memory,
        "groupMemory": read("/sys/fs/cgroup/memory.max"),
        "load": read("/proc/loadavg"),
    })
}

/// The version of the store, the sizes of its files, and the limits of the process that uses it.
fn store(data_dir: &Path) -> Value {
    let directory = data_dir.join("store");
    let written = match inspect(&directory) {
        Ok(Some(found)) => json!({"rows": found.written.rows, "program": found.written.program}),
        Ok(None) => Value::Null,
        Err(error) => fault(&error.to_string()),
    };
    let files = fs::read_dir(&directory).into_iter().flatten().filter_map(Result::ok);
    let sizes: Map<_, _> = files
        .filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            Some((name, file.metadata().ok()?.len().into()))
        })
        .collect();
    let limits = doctor::files::holder(&directory)
        .and_then(|process| fs::read_to_string(format!("/proc/{process}/limits")).ok())
        .map(|limits| limits.lines().map(str::to_owned).collect::<Vec<_>>());
    json!({"written": written, "bytes": sizes, "limits": limits})
}

/// The last lines of a log, without what looks like a secret.
fn last_lines(path: &Path) -> io::Result<Value> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines: Vec<_> = text.lines().rev().take(LINES).map(blotted).collect();
    lines.reverse();
    Ok(lines.into())
}

/// The line with each word that begins as a secret does cut to its beginning.
fn blotted(line: &str) -> String {
    let mut line = line.to_owned();
    for secret in SECRETS {
        let mut from = 0;
        while let Some(at) = line[from..].find(secret).map(|at| from + at + secret.len()) {
            let is_of_secret =
                |letter: char| letter.is_ascii_alphanumeric() || "_-.+/=".contains(letter);
            let end =
                line[at..].find(|letter| !is_of_secret(letter)).map_or(line.len(), |it| at + it);
            line.replace_range(at..end, "…");
            from = at;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_secret_is_blotted_out() {
        assert_eq!(blotted("the key svc_live_abcDEF09 came"), "the key svc_live_… came");
        assert_eq!(blotted("svc_live_a,svc_live_b"), "svc_live_…,svc_live_…");
        assert_eq!(blotted("Bearer eyJhbGciOi.J9-_.x\"}"), "Bearer eyJ…\"}");
        assert_eq!(blotted("nothing"), "nothing");
    }

    #[test]
    fn the_last_lines_are_taken() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let lines: Vec<_> = (0..LINES + 7).map(|number| format!("line {number}")).collect();
        let lines = lines.join("\n");
        fs::write(&path, lines).expect("it is ours");
        let taken = last_lines(&path).expect("it can be read");
        assert_eq!(taken.as_array().map(Vec::len), Some(LINES));
        assert_eq!((&taken[0], &taken[LINES - 1]), (&json!("line 7"), &json!("line 506")));
    }
}
