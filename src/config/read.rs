//! Each section, read setting by setting: the list of all settings.
//!
//! Deliberately absent: defaults, which stand in `config/callboard.toml` alone.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use callboard_domain::caps::Caps;
use callboard_domain::cell::{HOME, checked_name};
use callboard_domain::delivery::TASK_ENDS;
use callboard_domain::event::EventName;
use callboard_domain::id::ProjectId;
use callboard_domain::model_limits::{MAX_LIMIT, ModelLimits};
use callboard_domain::rate::{Quota, Quotas, Tier};
use callboard_domain::share::ProjectWeight;

use super::error::{Error, Place};
use super::rule;
use super::source::Source;
use super::{
    Admin, Audit, Auth, Cluster, ConfidenceTrust, Config, Events, Hitl, Limits, Metrics,
    MissingConfidence, Models, OfProject, OnTimeout, Otel, Queue, Retention, Runtime, Search,
    Secret, Server, Tasks, Templates, Webhooks, Worker,
};
use crate::http::body;
use crate::outbound::webhook::{self, WebhookSecret};
use crate::tls::Files;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// The longest wait before another attempt of a webhook, and the most waits.
const LONGEST_WAIT: Duration = Duration::from_hours(7 * 24);
const MAX_WAITS: usize = 100;

/// The most that a file may be allowed to have, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 40;

/// The fewest bytes of a signing key.
const MIN_SIGNING_KEY: usize = 32;

impl Server {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        const SECTION: &str = "server";
        let timeout = || rule::duration(SECOND..=HOUR);
        Ok(Self {
            listen: source.get(SECTION, "listen", rule::address)?,
            data_dir: source.get(SECTION, "data_dir", rule::path)?,
            public_url: source.optional(SECTION, "public_url", rule::url)?,
            trusted_proxies: source.get(SECTION, "trusted_proxies", rule::list(rule::network))?,
            allowed_origins: source.get(SECTION, "allowed_origins", rule::list(rule::origin))?,
            behind_proxy: source.get(SECTION, "behind_proxy", rule::flag)?,
            header_timeout: source.get(SECTION, "header_timeout", timeout())?,
            body_timeout: source.get(SECTION, "body_timeout", timeout())?,
            max_connections: source.get(SECTION, "max_connections", rule::whole(1..=1_000_000))?,
            connections_per_address: source.optional(
                SECTION,
                "connections_per_address",
                rule::whole(1..=1_000_000),
            )?,
            bodies_max_bytes: source.get(
                SECTION,
                "bodies_max_bytes",
                rule::whole(2 * body::MAX_BODY..=1 << 40),
            )?,
            memory_bytes: source.optional(
                SECTION,
                "memory_bytes",
                rule::whole(1 << 20..=1 << 50),
            )?,
            chat_wait: source.get(SECTION, "chat_wait", rule::duration(SECOND..=DAY))?,
            log: source.get(SECTION, "log", rule::log_filter)?,
        })
    }
}

/// `[tls]`: certificate and key, or nothing.
pub(super) fn tls(source: &mut Source) -> Result<Option<Files>, Error> {
    let cert = source.optional("tls", "cert", rule::path)?;
    let key = source.optional("tls", "key", rule::path)?;
    let client_ca = source.optional("tls", "client_ca", rule::path)?;
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(Some(Files { cert, key, client_ca })),
        (None, None) if client_ca.is_some() => Err(without(source, "client_ca", "cert")),
        (None, None) => Ok(None),
        (Some(_), None) => Err(without(source, "cert", "key")),
        (None, Some(_)) => Err(without(source, "key", "cert")),
    }
}

fn without(source: &Source, name: &str, other: &str) -> Error {
    let place = source.place("tls", name);
    Error { place, says: format!("tls.{name} must not be set without tls.{other}") }
}

impl Runtime {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        Ok(Self {
            active: source.get("runtime", "active", rule::whole(1..=10_000_000))?,
            shards: source.get("runtime", "shards", rule::whole(1..=256))?,
        })
    }
}

impl Queue {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        Ok(Self { aging: source.get("queue", "aging", rule::duration(SECOND..=DAY))? })
    }
}

impl Tasks {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        let span = rule::duration(Duration::ZERO..=7 * DAY);
        Ok(Self { outage_patience: source.get("tasks", "outage_patience", span)? })
    }
}

impl Worker {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        const SECTION: &str = "worker";
        let span = || rule::duration(Duration::from_millis(100)..=HOUR);
        let worker = Self {
            lease: source.get(SECTION, "lease", span())?,
            heartbeat: source.get(SECTION, "heartbeat", span())?,
            silent_after: source.get(SECTION, "silent_after", span())?,
            trust_confidence: source.get(SECTION, "trust_confidence", rule::trust)?,
        };
        for (name, longer) in [("silent_after", worker.silent_after), ("lease", worker.lease)] {
            if longer <= worker.heartbeat {
                // The error names the setting that was changed.
                let blamed = if source.is_default(SECTION, name) { "heartbeat" } else { name };
                return Err(Error {
                    place: source.place(SECTION, blamed),
                    says: format!("worker.{name} must be longer than worker.heartbeat"),
                });
            }
        }
        Ok(worker)
    }
}

impl Models {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        Ok(Self {
            default: source.get("models", "default", rule::text)?,
            prices: source.optional("models", "prices", rule::path)?,
            limits: model_limits(source)?,
        })
    }
}

/// `[models.limits."name"]`: the limits of each model that has such a section.
fn model_limits(source: &mut Source) -> Result<BTreeMap<String, ModelLimits>, Error> {
    let mut limits = BTreeMap::new();
    for name in source.sections_under("models.limits") {
        let section = format!("models.limits.{name}");
        let mut limit = |setting| source.optional(&section, setting, rule::whole(1..=MAX_LIMIT));
        let of_model = ModelLimits {
            requests_per_minute: limit("requests_per_minute")?,
            input_tokens_per_minute: limit("input_tokens_per_minute")?,
            output_tokens_per_minute: limit("output_tokens_per_minute")?,
            tokens_per_minute: limit("tokens_per_minute")?,
            concurrent: limit("concurrent")?,
        };
        limits.insert(name, of_model);
    }
    Ok(limits)
}

/// `[projects."prj_…"]`: each project that has such a section.
pub(super) fn projects(source: &mut Source) -> Result<BTreeMap<ProjectId, OfProject>, Error> {
    let mut projects = BTreeMap::new();
    for name in source.sections_under("projects") {
        let section = format!("projects.{name}");
        let webhooks_allow = source.optional(&section, "webhooks_allow", rule::list(rule::network));
        let webhooks_allow = webhooks_allow?.unwrap_or_default();
        let env_allow = source.optional(&section, "env_allow", rule::list(rule::text));
        let weight = source.optional(&section, "weight", rule::whole(10..=1_000))?;
        let weight = weight.map_or_else(ProjectWeight::default, ProjectWeight::percent);
        let env_allow = env_allow?.unwrap_or_default();
        let of_project = OfProject { webhooks_allow, env_allow, weight };
        let id = name.parse().ok().filter(|id| *id != ProjectId::DEFAULT).ok_or_else(|| Error {
            place: source.first_place(&section),
            says: format!(
                "[{section}] must name a project by its identifier, prj_…; webhooks.allow and templates.env_allow \
                 are those of default"
            ),
        })?;
        projects.insert(id, of_project);
    }
    Ok(projects)
}

impl Limits {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        const TIERS: &[(&str, Tier)] = &[
            (Tier::Free.as_str(), Tier::Free),
            (Tier::Pro.as_str(), Tier::Pro),
            (Tier::Enterprise.as_str(), Tier::Enterprise),
        ];
        Ok(Self {
            streams: source.get("limits", "streams", rule::whole(1..=1_000_000))?,
            file_bytes: source.get("limits", "file_bytes", rule::whole(1..=MAX_FILE_BYTES))?,
            caps: Caps {
                unfinished_tasks: source.get(
                    "limits",
                    "unfinished_tasks",
                    rule::cap(1..=u32::MAX),
                )?,
                schedules: source.get("limits", "schedules", rule::cap(1..=u32::MAX))?,
                stored_bytes: source.get("limits", "stored_bytes", rule::cap(1..=u64::MAX))?,
            },
            plans: Quotas {
                free: quota(source, "limits.free")?,
                pro: quota(source, "limits.pro")?,
                enterprise: quota(source, "limits.enterprise")?,
                default: source.get("limits", "plan", rule::one_of(TIERS))?,
            },
        })
    }
}

fn quota(source: &mut Source, section: &str) -> Result<Quota, Error> {
    let per_minute = rule::whole(1..=10_000_000);
    Ok(Quota {
        requests: source.get(section, "requests_per_minute", per_minute)?,
        concurrent_tasks: source.get(section, "concurrent_tasks", rule::cap(1..=u32::MAX))?,
    })
}

impl Auth {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        const SECTION: &str = "auth";
        let life = |longest: u32| rule::duration(60 * SECOND..=longest * DAY);
        let current = signing_key(source, ("signing_key", "signing_key_file"))?;
        let previous = signing_key(source, ("previous_signing_key", "previous_signing_key_file"))?;
        if let (None, Some((place, _))) = (&current, &previous) {
            let says = "auth.signing_key_file must be set too: a key that the server made is rotated with \
                        callboard auth rotate-signing-key";
            return Err(Error { place: place.clone(), says: says.to_owned() });
        }
        let key = |found: Option<(Place, String)>| found.map(|(_, key)| Secret::new(key));
        Ok(Self {
            access_token_ttl: source.get(SECTION, "access_token_ttl", life(7))?,
            refresh_token_ttl: source.get(SECTION, "refresh_token_ttl", life(90))?,
            password_min_length: source.get(
                SECTION,
                "password_min_length",
                rule::whole(8..=128),
            )?,
            signing_key: key(current),
            previous_signing_key: key(previous),
        })
    }
}

fn signing_key(source: &mut Source, names: (&str, &str)) -> Result<Option<(Place, String)>, Error> {
    let Some((place, key)) = secret(source, "auth", names)? else { return Ok(None) };
    if key.len() < MIN_SIGNING_KEY {
        let found = key.len();
        let says =
            format!("the signing key must have at least {MIN_SIGNING_KEY} bytes, not {found}");
        return Err(Error { place, says });
    }
    Ok(Some((place, key)))
}

/// A secret setting, from its variable or from the file that its second name points to.
pub(super) fn secret(
    source: &mut Source,
    section: &str,
    (name, file): (&str, &str),
) -> Result<Option<(Place, String)>, Error> {
    let text = source.secret(section, name)?;
    let path = source.optional(section, file, rule::path)?;
    let place_of_path = source.place(section, file);
    let (place, secret) = match (text, path) {
        (None, None) => return Ok(None),
        (Some((place, _)), Some(_)) => {
            let name = name.replace('_', " ");
            let says = format!("the {name} is given here and by {place_of_path}: give it once");
            return Err(Error { place, says });
        }
        (Some(found), None) => found,
        (None, Some(path)) => (place_of_path.clone(), read_file(&path, place_of_path)?),
    };
    Ok(Some((place, secret.trim_end_matches(['\r', '\n']).to_owned())))
}

impl Cluster {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        let key = match secret(source, "cluster", ("key", "key_file"))? {
            Some((place, key)) if key.len() < MIN_SIGNING_KEY => {
                let found = key.len();
                let says = format!(
                    "the cluster's key must have at least {MIN_SIGNING_KEY} bytes, not {found}"
                );
                return Err(Error { place, says });
            }
            found => found.map(|(_, key)| Secret::new(key)),
        };
        let advertise = source.optional("cluster", "advertise", rule::url)?;
        let term = source.get("cluster", "term", rule::duration(2 * SECOND..=60 * SECOND))?;
        let cell = source.optional("cluster", "cell", rule::text)?.filter(|name| name != HOME);
        let home: Vec<_> = source.get("cluster", "home", rule::list(rule::url))?;
        let fault = match &cell {
            Some(name) => match checked_name("cell", name) {
                Err(fault) => Some(format!("the cell's name {fault}")),
                Ok(()) if home.is_empty() => Some(
                    "a cell follows home: set home to the addresses of home's nodes".to_owned(),
                ),
                Ok(()) if key.is_none() => {
                    Some("a cell shares the cluster's key with home: set key_file".to_owned())
                }
                Ok(()) => None,
            },
            None if !home.is_empty() => {
                Some("home is for a node of another cell: set cell to the cell's name".to_owned())
            }
            None => None,
        };
        if let Some(says) = fault {
            return Err(Error { place: source.place("cluster", "cell"), says });
        }
        Ok(Self { advertise, key, term, cell, home })
    }
}

impl Events {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        Ok(Self {
            keep: source.get("events", "keep", rule::duration(60 * SECOND..=30 * DAY))?,
            keep_max: source.get("events", "keep_max", rule::whole(1..=1_000_000_000))?,
        })
    }
}

impl Retention {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        let kept = || rule::kept(SECOND..=36_500 * DAY);
        Ok(Self {
            ended: source.get("retention", "ended", kept())?,
            history: source.get("retention", "history", kept())?,
        })
    }
}

impl Search {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        Ok(Self { days: source.get("search", "days", rule::whole(0..=3_650))? })
    }
}

impl Audit {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        Ok(Self { keep: source.get("audit", "keep", rule::kept(HOUR..=36_500 * DAY))? })
    }
}

impl Metrics {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        Ok(Self { public: source.get("metrics", "public", rule::flag)? })
    }
}

impl Otel {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        const SECTION: &str = "otel";
        let headers = secret(source, SECTION, ("headers", "headers_file"))?;
        Ok(Self {
            endpoint: source.optional(SECTION, "endpoint", rule::url)?,
            headers: headers.map(|(_, headers)| Secret::new(headers)),
            sample_ratio: source.get(SECTION, "sample_ratio", rule::share)?,
        })
    }
}

impl Templates {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        Ok(Self { env_allow: source.get("templates", "env_allow", rule::list(rule::text))? })
    }
}

impl Hitl {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        const MISSING: &[(&str, MissingConfidence)] =
            &[("hold", MissingConfidence::Hold), ("pass", MissingConfidence::Pass)];
        const TIMEOUT: &[(&str, OnTimeout)] =
            &[("wait", OnTimeout::Wait), ("reject", OnTimeout::Reject)];
        Ok(Self {
            missing_confidence: source.get("hitl", "missing_confidence", rule::one_of(MISSING))?,
            escalate_after: source.get("hitl", "escalate_after", rule::share)?,
            on_timeout: source.get("hitl", "on_timeout", rule::one_of(TIMEOUT))?,
            four_eyes: source.get("hitl", "four_eyes", rule::flag)?,
        })
    }
}

/// Fails if a confidence that does not count, and is therefore missing, would pass every threshold.
pub(super) fn trust_fits(config: &Config, source: &Source) -> Result<(), Error> {
    let trusts_all = config.worker.trust_confidence == ConfidenceTrust::All;
    if trusts_all || config.hitl.missing_confidence == MissingConfidence::Hold {
        return Ok(());
    }
    Err(Error {
        place: source.place("worker", "trust_confidence"),
        says: "worker.trust_confidence must be \"all\" while hitl.missing_confidence is \"pass\": \
               outputs of the other workers would pass every threshold"
            .to_owned(),
    })
}

impl Webhooks {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        const SECTION: &str = "webhooks";
        const EVENTS: &[(&str, EventName)] = &[
            (TASK_ENDS[0].as_str(), TASK_ENDS[0]),
            (TASK_ENDS[1].as_str(), TASK_ENDS[1]),
            (TASK_ENDS[2].as_str(), TASK_ENDS[2]),
            (TASK_ENDS[3].as_str(), TASK_ENDS[3]),
        ];
        let seconds = rule::list(rule::whole(0..=LONGEST_WAIT.as_secs()));
        let waits: Vec<u64> = source.get(SECTION, "retry_seconds", seconds)?;
        if waits.len() > MAX_WAITS {
            let place = source.place(SECTION, "retry_seconds");
            let says = format!("webhooks.retry_seconds must have at most {MAX_WAITS} items");
            return Err(Error { place, says });
        }
        Ok(Self {
            events: source.get(SECTION, "events", rule::list(rule::one_of(EVENTS)))?,
            waits: waits.into_iter().map(Duration::from_secs).collect(),
            allow: source.get(SECTION, "allow", rule::list(rule::network))?,
            secret: webhook_secret(source)?,
        })
    }
}

/// The secret of `CALLBOARD_WEBHOOK_SECRET`, of a setting, or of a file.
fn webhook_secret(source: &mut Source) -> Result<Option<Secret>, Error> {
    const VARIABLE: &str = "CALLBOARD_WEBHOOK_SECRET";
    let by_name = source.variable(VARIABLE).map(str::to_owned);
    let by_name = by_name.map(|text| (Place::Variable(VARIABLE.to_owned()), text));
    let text = source.secret_of_any("webhooks", "secret")?;
    let path = source.optional("webhooks", "secret_file", rule::path)?;
    let by_file = match path {
        Some(path) => {
            let place = source.place("webhooks", "secret_file");
            Some((place.clone(), read_file(&path, place)?))
        }
        None => None,
    };
    let mut given = [text, by_file, by_name].into_iter().flatten();
    let Some((place, secret)) = given.next() else { return Ok(None) };
    if let Some((again, _)) = given.next() {
        let says = format!("the secret is given here and by {place}: give it once");
        return Err(Error { place: again, says });
    }
    let secret = Secret::new(secret.trim_end_matches(['\r', '\n']).to_owned());
    if WebhookSecret::parse(secret.expose()).is_none() {
        let says = format!("webhooks.secret must be {}", webhook::RIGHT);
        return Err(Error { place, says });
    }
    Ok(Some(secret))
}

impl Admin {
    pub(super) fn read(source: &mut Source) -> Result<Option<Self>, Error> {
        const EMAIL: &str = "CALLBOARD_ADMIN_EMAIL";
        const PASSWORD: &str = "CALLBOARD_ADMIN_PASSWORD";
        const PASSWORD_FILE: &str = "CALLBOARD_ADMIN_PASSWORD_FILE";
        let wrong = |name: &str, says: &str| Error {
            place: Place::Variable(name.to_owned()),
            says: says.to_owned(),
        };
        let given = |name: &str| source.variable(name).map(str::to_owned);
        let password = match (given(PASSWORD), given(PASSWORD_FILE)) {
            (Some(_), Some(_)) => {
                return Err(wrong(
                    PASSWORD_FILE,
                    "the password is given as text too: give it once",
                ));
            }
            (Some(text), None) => Some(text),
            (None, Some(path)) => {
                let place = Place::Variable(PASSWORD_FILE.to_owned());
                let text = read_file(Path::new(&path), place)?;
                Some(text.trim_end_matches(['\r', '\n']).to_owned())
            }
            (None, None) => None,
        };
        match (given(EMAIL), password) {
            (Some(email), Some(password)) => {
                Ok(Some(Self { email, password: Secret::new(password) }))
            }
            (None, None) => Ok(None),
            (Some(_), None) => Err(wrong(EMAIL, "CALLBOARD_ADMIN_PASSWORD(_FILE) must be set too")),
            (None, Some(_)) => Err(wrong(PASSWORD, "CALLBOARD_ADMIN_EMAIL must be set too")),
        }
    }
}

/// Reads a text file that a setting at `place` names.
pub(super) fn read_file(path: &Path, place: Place) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|error| {
        let says = format!("{} cannot be read: {error}", path.display());
        Error { place, says }
    })
}
