//! The settings as texts, for the audit log and the dashboard.
//!
//! Each setting is written as in `config/callboard.toml`, where a reader can look it up.
//! Deliberately absent: secrets, and settings that a start does not use.

use std::fmt::Display;
use std::time::Duration;

use callboard_common::duration;
use callboard_domain::id::ProjectId;
use callboard_domain::model_limits::ModelLimits;
use callboard_domain::rate::Quota;
use callboard_domain::worker::ConfidenceTrust;

use super::{Config, MissingConfidence, OfProject, OnTimeout};

impl Config {
    /// Every setting without a secret, by its name with the section.
    #[must_use]
    pub fn shown(&self) -> Vec<(&'static str, String)> {
        [self.access(), self.work(), self.kept(), self.outside()].concat()
    }

    fn access(&self) -> Vec<(&'static str, String)> {
        let Self { server, auth, limits, metrics, .. } = self;
        let mut shown = vec![
            ("server.listen", server.listen.to_string()),
            ("server.data_dir", server.data_dir.display().to_string()),
            ("server.trusted_proxies", list(&server.trusted_proxies)),
            ("server.allowed_origins", list(&server.allowed_origins)),
            ("server.behind_proxy", server.behind_proxy.to_string()),
            ("server.max_connections", server.max_connections.to_string()),
            ("server.connections_per_address", server.connections_per_address().to_string()),
            ("server.bodies_max_bytes", server.bodies_max_bytes.to_string()),
            (
                "server.memory_bytes",
                server.memory_bytes.map_or_else(|| "automatic".to_owned(), |it| it.to_string()),
            ),
            ("server.chat_wait", duration::format(server.chat_wait)),
            ("server.log", server.log.clone()),
            ("server.paused", self.paused.to_string()),
            ("tls", if self.tls.is_some() { "on" } else { "off" }.to_owned()),
            ("auth.access_token_ttl", duration::format(auth.access_token_ttl)),
            ("auth.refresh_token_ttl", duration::format(auth.refresh_token_ttl)),
            ("auth.password_min_length", auth.password_min_length.to_string()),
            ("limits.plan", limits.plans.default.as_str().to_owned()),
            ("limits.free", quota(limits.plans.free)),
            ("limits.pro", quota(limits.plans.pro)),
            ("limits.enterprise", quota(limits.plans.enterprise)),
            ("limits.streams", limits.streams.to_string()),
            ("limits.file_bytes", limits.file_bytes.to_string()),
            ("limits.unfinished_tasks", unlimited(limits.caps.unfinished_tasks)),
            ("limits.schedules", unlimited(limits.caps.schedules)),
            ("limits.stored_bytes", unlimited(limits.caps.stored_bytes)),
            ("metrics.public", metrics.public.to_string()),
        ];
        if let Some(url) = &server.public_url {
            shown.push(("server.public_url", url.to_string()));
        }
        shown
    }

    fn work(&self) -> Vec<(&'static str, String)> {
        let Self { runtime, queue, tasks, worker, models, hitl, templates, .. } = self;
        let trust = match &worker.trust_confidence {
            ConfidenceTrust::All => "all".to_owned(),
            ConfidenceTrust::None => "none".to_owned(),
            ConfidenceTrust::Only(keys) => list(keys),
        };
        let missing = match hitl.missing_confidence {
            MissingConfidence::Hold => "hold",
            MissingConfidence::Pass => "pass",
        };
        let on_timeout = match hitl.on_timeout {
            OnTimeout::Wait => "wait",
            OnTimeout::Reject => "reject",
        };
        vec![
            ("runtime.active", runtime.active.to_string()),
            ("runtime.shards", runtime.shards.to_string()),
            ("queue.aging", duration::format(queue.aging)),
            ("tasks.outage_patience", duration::format(tasks.outage_patience)),
            ("worker.lease", duration::format(worker.lease)),
            ("worker.heartbeat", duration::format(worker.heartbeat)),
            ("worker.silent_after", duration::format(worker.silent_after)),
            ("worker.trust_confidence", trust),
            ("models.default", models.default.clone()),
            ("models.limits", models.limits.iter().map(limited).collect::<Vec<_>>().join("; ")),
            (
                "models.prices",
                models.prices.as_ref().map_or_else(built_in, |path| path.display().to_string()),
            ),
            ("hitl.missing_confidence", missing.to_owned()),
            ("hitl.escalate_after", hitl.escalate_after.to_string()),
            ("hitl.on_timeout", on_timeout.to_owned()),
            ("hitl.four_eyes", hitl.four_eyes.to_string()),
            ("templates.env_allow", list(&templates.env_allow)),
        ]
    }

    fn kept(&self) -> Vec<(&'static str, String)> {
        let Self { store, events, retention, search, audit, .. } = self;
        vec![
            ("store.cache_bytes", store.cache_bytes.to_string()),
            (
                "store.archive",
                store.archive.as_ref().map_or_else(off, |path| path.display().to_string()),
            ),
            ("store.min_free_bytes", store.min_free_bytes.to_string()),
            ("store.reserve_bytes", store.reserve_bytes.to_string()),
            ("store.must_exist", store.must_exist.to_string()),
            ("events.keep", duration::format(events.keep)),
            ("events.keep_max", events.keep_max.to_string()),
            ("retention.ended", forever(retention.ended)),
            ("retention.history", forever(retention.history)),
            ("search.days", search.days.to_string()),
            ("audit.keep", forever(audit.keep)),
        ]
    }

    fn outside(&self) -> Vec<(&'static str, String)> {
        let Self { webhooks, projects, oidc, smtp, otel, .. } = self;
        vec![
            ("webhooks.events", list(&webhooks.events)),
            ("webhooks.retry_seconds", list(webhooks.waits.iter().map(Duration::as_secs))),
            ("webhooks.allow", list(&webhooks.allow)),
            ("projects", projects.iter().map(allowed).collect::<Vec<_>>().join("; ")),
            ("oidc.issuer", oidc.as_ref().map_or_else(off, |oidc| oidc.issuer.clone())),
            (
                "smtp.host",
                smtp.as_ref().map_or_else(off, |smtp| format!("{}:{}", smtp.host, smtp.port)),
            ),
            ("otel.endpoint", otel.endpoint.as_ref().map_or_else(off, ToString::to_string)),
        ]
    }
}

fn built_in() -> String {
    "built-in".to_owned()
}

fn quota(quota: Quota) -> String {
    format!("{} requests a minute, {} tasks", quota.requests, unlimited(quota.concurrent_tasks))
}

fn limited((model, limits): (&String, &ModelLimits)) -> String {
    let of = [
        ("requests", limits.requests_per_minute),
        ("input tokens", limits.input_tokens_per_minute),
        ("output tokens", limits.output_tokens_per_minute),
        ("tokens", limits.tokens_per_minute),
    ];
    let minutes =
        of.into_iter().filter_map(|(what, limit)| Some(format!("{} {what} a minute", limit?)));
    let calls = limits.concurrent.map(|calls| format!("{calls} calls"));
    format!("{model}: {}", minutes.chain(calls).collect::<Vec<_>>().join(", "))
}

fn allowed((id, project): (&ProjectId, &OfProject)) -> String {
    let OfProject { webhooks_allow, env_allow, weight } = project;
    let (networks, variables) = (list(webhooks_allow), list(env_allow));
    let weight = weight.as_percent();
    format!("{id}: webhooks_allow {networks}; env_allow {variables}; weight {weight}")
}

fn off() -> String {
    "off".to_owned()
}

fn list<T: Display>(values: impl IntoIterator<Item = T>) -> String {
    values.into_iter().map(|value| value.to_string()).collect::<Vec<_>>().join(", ")
}

fn forever(time: Option<Duration>) -> String {
    time.map_or_else(|| "forever".to_owned(), duration::format)
}

fn unlimited(cap: Option<impl Display>) -> String {
    cap.map_or_else(|| "unlimited".to_owned(), |cap| cap.to_string())
}
