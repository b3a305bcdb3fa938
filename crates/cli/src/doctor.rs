//! `callboard doctor`: the obstacles between this machine and a working server, each with a remedy.
//!
//! The checks of the server's own machine are the program's ([`Machine`]). Deliberately absent: repairs.

mod backup;
mod provider;

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use callboard_client::{Call, Client, Credential, HeaderMap, Page};
use callboard_common::proxy::Route;
use clap::Args;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use serde_json::{Value, json};

use super::access::Access;
use super::auth::probe;
use super::failure::Failure;
use super::output::{Format, escaped, print};
use callboard_client::logins::Store;

mod key;
mod stream;

/// The difference of the clocks below which they count as equal.
const SAME_CLOCK_MS: i64 = 5_000;

/// The options of `doctor`.
#[derive(Debug, Clone, Args)]
pub struct Doctor {
    /// The server, the credentials and the format.
    #[command(flatten)]
    pub access: Access,
    #[command(flatten)]
    provider: provider::Tried,
    /// Settings of the server on this machine: its disk, port, limits, mail server and identity provider are checked
    /// too.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Data directory of the server on this machine, which is checked too.
    #[arg(long, value_name = "DIRECTORY")]
    pub data_dir: Option<PathBuf>,
}

/// The checks of the machine of a server.
#[derive(Debug, Default)]
pub struct Machine {
    /// The results.
    pub findings: Vec<Finding>,
    /// The address of the server that runs on it; without one, no server is asked.
    pub server: Option<String>,
}

/// The result of one check.
#[derive(Debug)]
pub struct Finding {
    check: &'static str,
    state: &'static str,
    detail: String,
    advice: Option<String>,
}

impl Finding {
    /// A check without a fault.
    #[must_use]
    pub fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, state: "ok", detail: detail.into(), advice: None }
    }

    /// A fault that costs something, and its cure.
    #[must_use]
    pub fn warn(check: &'static str, detail: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { state: "warn", advice: Some(advice.into()), ..Self::ok(check, detail) }
    }

    fn skip(check: &'static str, detail: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { state: "skip", advice: Some(advice.into()), ..Self::ok(check, detail) }
    }

    /// A fault with which the server or the command cannot work, and its cure.
    #[must_use]
    pub fn broken(
        check: &'static str,
        detail: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { state: "fail", ..Self::warn(check, detail, advice) }
    }

    /// The check.
    #[must_use]
    pub const fn check(&self) -> &'static str {
        self.check
    }

    /// ok, warn, fail or skip.
    #[must_use]
    pub const fn state(&self) -> &'static str {
        self.state
    }

    /// True without a fault.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.state == "ok"
    }

    /// True for a fault with which nothing works.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.state == "fail"
    }

    /// The result in words.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    fn fail(check: &'static str, failure: &Failure, advice: impl Into<String>) -> Self {
        Self::broken(check, failure.words(), advice)
    }
}

/// Makes every check, shows the results, and fails with the first broken one.
pub(super) async fn run(doctor: Doctor, machine: Option<Machine>) -> Result<(), Failure> {
    let mut access = doctor.access;
    let Machine { mut findings, server } = machine.unwrap_or_default();
    let is_alone = !findings.is_empty() && server.is_none() && access.server.is_none();
    access.server = access.server.or(server);
    let of_machine = findings.iter().find(|finding| finding.is_broken());
    let mut failure =
        of_machine.map(|broken| Failure::Other(format!("{}: {}", broken.check, broken.detail)));
    if !is_alone {
        let (of_server, refused) = examine(&access.client()?).await;
        findings.extend(of_server);
        failure = failure.or(refused);
    }
    // On the machine of a server, models are run by workers elsewhere.
    if !is_alone {
        let (of_provider, broken) = provider::finding(&doctor.provider).await;
        findings.push(of_provider);
        failure = failure.or(broken);
    }
    let items: Vec<Value> = findings
        .iter()
        .map(|finding| {
            let Finding { check, state, detail, advice } = finding;
            json!({"check": check, "state": state, "detail": detail, "advice": advice})
        })
        .collect();
    match access.output.format() {
        Format::Table => print(&findings.iter().map(shown).collect::<String>())?,
        Format::Json => access.output.item(&Value::Array(items), |_| String::new())?,
        Format::Jsonl | Format::Csv => {
            access.output.list("findings", &Page { data: items, pagination: Value::Null }, &[])?;
        }
    }
    failure.map_or(Ok(()), Err)
}

async fn examine(client: &Client) -> (Vec<Finding>, Option<Failure>) {
    let server = client.server();
    let route = callboard_common::proxy::route(&server.to_string());
    let mut findings = vec![address(client), way(&route)];
    let answer = match client.anonymous().send(&Call::get(&["health"]).at_once()).await {
        Ok(answer) => answer,
        Err(error) => {
            let failure = Failure::from(error);
            let advice = match route {
                Route::Direct => {
                    "start it with callboard serve, or name another server with --server or \
                     CALLBOARD_SERVER"
                }
                Route::Through(_) => {
                    "put the proxy's user and password into HTTPS_PROXY \
                     (http://USER:PASSWORD@HOST:PORT), or the server's host into NO_PROXY"
                }
            };
            findings.push(Finding::fail("reachable", &failure, advice));
            return (findings, Some(failure));
        }
    };
    let version = answer.data["version"].as_str().unwrap_or("unknown");
    findings.push(Finding::ok("reachable", format!("callboard {version}")));
    findings.extend(versions(version));
    // A server of before this field says nothing of it.
    let zones = answer.data["timeZoneData"].as_str();
    findings.extend(zones.map(|zones| Finding::ok("time zones", format!("IANA data {zones}"))));
    findings.extend(components(&answer.data["components"]));
    findings.extend(warnings(&answer.data["warnings"]));
    findings.push(clock(&answer.headers, Timestamp::now()));
    findings.extend(permissions());
    let kind = match client.credential() {
        Credential::Key(key) => key::kind(key.expose()),
        Credential::None | Credential::Session(_) => None,
    };
    let wrong = kind.as_ref().filter(|kind| kind.is_broken());
    let wrong = wrong.map(|kind| Failure::Other(kind.detail.clone()));
    findings.extend(kind);
    let failure = match probe(client).await {
        Ok(()) => {
            findings.push(Finding::ok("credentials", credentials(client).await));
            let asked = client.send(&Call::get(&["tasks"]).query("limit", Some(1))).await;
            findings
                .extend(asked.ok().and_then(|answer| key::end(&answer.headers, Timestamp::now())));
            findings.extend(backup::check(client).await);
            findings.extend(provider::paused(client).await);
            findings.extend(stream::check(client).await);
            None
        }
        Err(failure) => {
            let advice = format!(
                "callboard auth login --server {server} --email YOU, or a key in \
                 CALLBOARD_API_KEY_FILE"
            );
            findings.push(Finding::fail("credentials", &failure, advice));
            Some(failure)
        }
    };
    (findings, failure.or(wrong))
}

fn address(client: &Client) -> Finding {
    let server = client.server();
    if server.is_local() || server.is_encrypted() {
        return Finding::ok("server", server.to_string());
    }
    let advice = "turn on TLS at the server or at a proxy before it, and use https";
    Finding::warn("server", format!("{server} is not encrypted: keys can be read"), advice)
}

/// The way to the server, which workers and all other clients take.
fn way(route: &Route) -> Finding {
    match route {
        Route::Direct => Finding::ok("route", "direct, without a proxy"),
        Route::Through(proxy) => Finding::ok("route", format!("through the proxy {proxy}")),
    }
}

fn versions(server: &str) -> Option<Finding> {
    let own = env!("CARGO_PKG_VERSION");
    let advice = "install the same version on both sides";
    (server != own).then(|| Finding::warn("version", format!("this is callboard {own}"), advice))
}

fn components(components: &Value) -> Vec<Finding> {
    [("engine", "engine"), ("database", "database"), ("workers", "workers")]
        .into_iter()
        .map(|(check, name)| {
            let component = &components[name];
            let status = component["status"].as_str().unwrap_or("unknown");
            let detail = component["detail"].as_str().unwrap_or(status);
            match (status, name) {
                ("ok", _) => Finding::ok(check, detail),
                (_, "workers") => {
                    let advice = "start one: callboard worker --server … --key-file …";
                    Finding::warn(check, detail, advice)
                }
                ("degraded", "engine") => {
                    Finding::warn(check, detail, "resume: callboard resume --all")
                }
                _ => Finding::warn(check, detail, "look at the server's log"),
            }
        })
        .collect()
}

/// The settings of the server that do not go together.
fn warnings(warnings: &Value) -> Vec<Finding> {
    let texts = warnings.as_array().into_iter().flatten().filter_map(Value::as_str);
    let warn = |text: &str| {
        let (detail, advice) =
            text.split_once("; ").unwrap_or((text, "look at the server's settings"));
        Finding::warn("settings", detail, advice)
    };
    texts.map(warn).collect()
}

fn clock(headers: &HeaderMap, now: Timestamp) -> Finding {
    let date = headers.get("date").and_then(|date| date.to_str().ok());
    let Some(date) = date.and_then(|date| rfc2822::parse(date).ok()) else {
        return Finding::ok("clock", "the server sends no date");
    };
    let ahead = date.timestamp().as_millisecond() - now.as_millisecond();
    if ahead.abs() < SAME_CLOCK_MS {
        return Finding::ok("clock", "the same as the server's");
    }
    let seconds = ahead.abs() / 1000;
    let which = if ahead > 0 { "ahead of" } else { "behind" };
    let advice = "tokens and deadlines depend on both clocks: synchronise them with NTP";
    Finding::warn("clock", format!("the server's is {seconds} s {which} this one"), advice)
}

/// A warning if other users may read the stored login.
fn permissions() -> Option<Finding> {
    let store = Store::of_user().ok()?;
    let mode = std::fs::metadata(store.path()).ok()?.mode() & 0o777;
    let path = store.path().display();
    (mode & 0o077 != 0).then(|| {
        let detail = format!("{path} has mode {mode:o}: others may read it");
        Finding::warn("stored login", detail, format!("chmod 600 {path}"))
    })
}

async fn credentials(client: &Client) -> String {
    match client.credential() {
        Credential::None => "none are needed".into(),
        Credential::Key(_) => "API key accepted".into(),
        Credential::Session(session) => {
            let login = session.login().await;
            format!("signed in as {} ({})", login.email, login.role)
        }
    }
}

fn shown(finding: &Finding) -> String {
    let Finding { check, state, detail, advice } = finding;
    let mut text = format!("{state:4}  {check:12}  {}\n", escaped(detail));
    if let Some(advice) = advice {
        text = format!("{text}{:18}  → {}\n", "", escaped(advice));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_differ_are_named_with_their_direction() {
        let now: Timestamp = "2026-11-21T10:00:00Z".parse().unwrap();
        let found = |date: &'static str| {
            clock(&HeaderMap::from_iter([("date".parse().unwrap(), date.parse().unwrap())]), now)
        };
        assert_eq!(found("Sat, 21 Nov 2026 10:00:01 GMT").state, "ok");
        let behind = found("Sat, 21 Nov 2026 09:58:20 GMT");
        assert_eq!(
            (behind.state, behind.detail.as_str()),
            ("warn", "the server's is 100 s behind this one")
        );
    }
}
