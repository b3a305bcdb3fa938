//! The series of each project.

use std::fmt;

use super::{Scrape, ScrapeEncoder};

impl Scrape {
    /// The figures of each project.
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    pub(super) fn projects(&self, sheet: &mut ScrapeEncoder<'_, '_>) -> Result<(), fmt::Error> {
        let projects = || {
            let projects = self.figures.projects.iter();
            projects.map(|(name, figures)| (("project", name.as_str()), figures))
        };
        let entries = projects().flat_map(|(project, figures)| {
            let entries = figures.entries.iter();
            entries.map(move |(status, count)| ([project, ("status", *status)], *count))
        });
        sheet.counter(
            "svc_project_tasks",
            "Entries of tasks of a project into each status.",
            entries,
        )?;
        let tokens = projects().flat_map(|(project, figures)| {
            let each = [("input", figures.input), ("output", figures.output)];
            each.map(|(kind, count)| ([project, ("kind", kind)], count))
        });
        sheet.counter(
            "svc_project_tokens",
            "Tokens of answers of a project, by direction.",
            tokens,
        )?;
        sheet.counter(
            "svc_project_cost_usd",
            "Cost of answers of a project in US dollars, by the price table.",
            projects().map(|(project, figures)| ([project], figures.cost)),
        )?;
        let webhooks = projects().flat_map(|(project, figures)| {
            let outcomes = figures.webhooks.iter();
            outcomes.map(move |(outcome, count)| ([project, ("outcome", *outcome)], *count))
        });
        sheet.counter(
            "svc_project_webhooks",
            "Attempts to deliver a webhook of a project; failed ones are repeated, dead ones are not.",
            webhooks,
        )?;
        let refusals = self.server.refusals.iter().flat_map(|(name, [rate, busy])| {
            let each = [("429", *rate), ("503", *busy)];
            each.map(|(status, count)| ([("project", name.as_str()), ("status", status)], count))
        });
        sheet.counter(
            "svc_project_refusals",
            "Requests of a project that were refused because of a limit (429) or of load (503).",
            refusals,
        )?;
        sheet.gauge(
            "svc_project_queue_depth",
            "Tasks of a project that are ready and wait for a worker.",
            projects().map(|(project, figures)| ([project], figures.depth as f64)),
        )?;
        sheet.gauge(
            "svc_project_tasks_running",
            "Tasks of a project that are with a worker.",
            projects().map(|(project, figures)| ([project], figures.running as f64)),
        )
    }
}
