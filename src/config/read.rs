//! Each section, read setting by setting: the list of all that there is.
//!
//! Deliberately absent: defaults, which stand in `config/callboard.toml` alone.

use std::path::Path;
use std::time::Duration;

use callboard_domain::rate::{Quota, Quotas, Tier};

use super::error::{Error, Place};
use super::rule;
use super::source::Source;
use super::{
    Admin, Audit, Auth, Events, Hitl, Limits, MissingConfidence, Models, OnTimeout, Queue,
    Retention, Runtime, Secret, Server, Store, Templates, Worker,
};
use crate::http::body;
use crate::tls::Files;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// The fewest bytes of a signing key (PROTOCOL.md 7).
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
            behind_proxy: source.get(SECTION, "behind_proxy", rule::flag)?,
            header_timeout: source.get(SECTION, "header_timeout", timeout())?,
            body_timeout: source.get(SECTION, "body_timeout", timeout())?,
            max_connections: source.get(SECTION, "max_connections", rule::whole(1..=1_000_000))?,
            bodies_max_bytes: source.get(
                SECTION,
                "bodies_max_bytes",
                rule::whole(2 * body::MAX_BODY..=1 << 40),
            )?,
        })
    }
}

/// `[tls]`: both files or none.
pub(super) fn tls(source: &mut Source) -> Result<Option<Files>, Error> {
    let cert = source.optional("tls", "cert", rule::path)?;
    let key = source.optional("tls", "key", rule::path)?;
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(Some(Files { cert, key })),
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

impl Worker {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        const SECTION: &str = "worker";
        let span = || rule::duration(Duration::from_millis(100)..=HOUR);
        let worker = Self {
            lease: source.get(SECTION, "lease", span())?,
            heartbeat: source.get(SECTION, "heartbeat", span())?,
            silent_after: source.get(SECTION, "silent_after", span())?,
        };
        for (name, longer) in [("silent_after", worker.silent_after), ("lease", worker.lease)] {
            if longer <= worker.heartbeat {
                // The one that was changed is to blame.
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
        })
    }
}

impl Limits {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        const TIERS: &[(&str, Tier)] = &[
            (Tier::Free.as_str(), Tier::Free),
            (Tier::Pro.as_str(), Tier::Pro),
            (Tier::Enterprise.as_str(), Tier::Enterprise),
        ];
        Ok(Self {
            plan: source.get("limits", "plan", rule::one_of(TIERS))?,
            streams: source.get("limits", "streams", rule::whole(1..=1_000_000))?,
            plans: Quotas {
                free: quota(source, "limits.free")?,
                pro: quota(source, "limits.pro")?,
                enterprise: quota(source, "limits.enterprise")?,
            },
        })
    }
}

fn quota(source: &mut Source, section: &str) -> Result<Quota, Error> {
    let per_minute = rule::whole(1..=10_000_000);
    Ok(Quota {
        requests: source.get(section, "requests_per_minute", per_minute)?,
        concurrent_tasks: source.get(section, "concurrent_tasks", rule::cap)?,
    })
}

impl Auth {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        const SECTION: &str = "auth";
        let life = |longest: u32| rule::duration(60 * SECOND..=longest * DAY);
        Ok(Self {
            access_token_ttl: source.get(SECTION, "access_token_ttl", life(7))?,
            refresh_token_ttl: source.get(SECTION, "refresh_token_ttl", life(90))?,
            password_min_length: source.get(
                SECTION,
                "password_min_length",
                rule::whole(8..=128),
            )?,
            signing_key: signing_key(source)?,
        })
    }
}

fn signing_key(source: &mut Source) -> Result<Option<Secret>, Error> {
    let Some((place, key)) = secret(source, "auth", ("signing_key", "signing_key_file"))? else {
        return Ok(None);
    };
    if key.len() < MIN_SIGNING_KEY {
        let found = key.len();
        let says =
            format!("the signing key must have at least {MIN_SIGNING_KEY} bytes, not {found}");
        return Err(Error { place, says });
    }
    Ok(Some(Secret::new(key)))
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
            let says = format!("the {name} is given here and by {place_of_path}, once is right");
            return Err(Error { place, says });
        }
        (Some(found), None) => found,
        (None, Some(path)) => (place_of_path.clone(), read_file(&path, place_of_path)?),
    };
    Ok(Some((place, secret.trim_end_matches(['\r', '\n']).to_owned())))
}

impl Store {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        Ok(Self {
            cache_bytes: source.get("store", "cache_bytes", rule::whole(1_048_576..=1 << 50))?,
        })
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

impl Audit {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        Ok(Self { keep: source.get("audit", "keep", rule::kept(HOUR..=36_500 * DAY))? })
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
        })
    }
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
                    "the password is given as text too, once is right",
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
