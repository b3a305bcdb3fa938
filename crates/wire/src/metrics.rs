//! The text of `/metrics` (docs/reference/metrics.md), for Prometheus and `OpenMetrics`.
//!
//! ```text
//!   Figures, Server ─▶ Collector ─▶ prometheus-client ─▶ OpenMetrics ─▶ the older text, if asked for
//!                                   summaries by hand ─┘
//! ```

mod projects;
mod surface;

use std::fmt::{self, Write};
use std::time::Duration;

use callboard_runtime::metrics::{Distribution, Figures, Model, QUANTILES};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// Figures of the process and of its surface.
#[derive(Debug, Clone, Default)]
pub struct Server {
    /// Time since the start.
    pub uptime: Duration,
    /// The start, in seconds of Unix time.
    pub started: f64,
    /// Connections that are open.
    pub connections: u64,
    /// Event streams and sockets that are open.
    pub streams: u64,
    /// Connections of workers that are open.
    pub worker_sockets: u64,
    /// Answers by the first digit of their status, from 1xx to 5xx.
    pub responses: [u64; 5],
    /// Requests that were refused with 429, by the limit.
    pub limited: Vec<(&'static str, u64)>,
    /// The time from a request to the head of its answer.
    pub requests: Option<Distribution>,
    /// Sign-ins that were refused.
    pub sign_ins_refused: u64,
    /// Errors and warnings that were logged.
    pub logged: [u64; 2],
    /// Requests of each project that were refused with 429 and with 503.
    pub refusals: Vec<(String, [u64; 2])>,
    /// Bytes of the store: journal, rows.
    pub store_bytes: [u64; 2],
    /// Bytes of the data directory's file system: free for this process, all.
    pub disk: Option<[u64; 2]>,
    /// The cluster, as its active node sees it.
    pub cluster: Option<ClusterFigures>,
    /// Spans that were exported and dropped.
    pub spans: [u64; 2],
    /// The time left of each certificate, in seconds; negative once it is over.
    pub certificates: Vec<(&'static str, i64)>,
    /// The last backup, and whether the archive continues it.
    pub backup: Option<BackupFigures>,
    /// Figures of the operating system about the process.
    pub process: Process,
}

/// Figures of what can be restored.
#[derive(Debug, Clone, Copy, Default)]
pub struct BackupFigures {
    /// The first and the last moment that can be restored, in seconds of Unix time.
    pub restorable: Option<[f64; 2]>,
    /// True while the archive continues the last backup without a gap; `None` without an archive.
    pub archived: Option<bool>,
}

/// Figures of a cluster.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClusterFigures {
    /// Nodes by status: active, standby, lost.
    pub nodes: [u64; 3],
    /// Partitions that a living node owns.
    pub partitions_owned: u64,
    /// Time left of the term of the node that answers.
    pub term_left: Duration,
}

/// Figures of the operating system about the process; `None` where it reports none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Process {
    /// Processor time in seconds.
    pub cpu_seconds: Option<f64>,
    /// Memory in bytes.
    pub resident_bytes: Option<u64>,
    /// Open files and sockets.
    pub open_fds: Option<u64>,
    /// The most files and sockets that may be open.
    pub max_fds: Option<u64>,
}

/// The two forms of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text, version 0.0.4.
    Prometheus,
    /// `OpenMetrics` 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The form that the header `Accept` asks for: `OpenMetrics` where it is named.
    #[must_use]
    pub fn accepted(accept: &str) -> Self {
        let names = |range: &str| range.trim().starts_with("application/openmetrics-text");
        if accept.split(',').any(names) { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// The media type.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The text of all metrics.
///
/// # Panics
/// Never: a string takes every write.
#[must_use]
pub fn written(figures: Figures, server: Server, format: Format) -> String {
    let mut text = String::with_capacity(16 << 10);
    let durations = summary(&figures.models);
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape { figures, server }));
    encode_registry(&mut text, &registry).expect("a string takes every write");
    text.push_str(&durations);
    match format {
        Format::OpenMetrics => {
            encode_eof(&mut text).expect("a string takes every write");
            text
        }
        Format::Prometheus => classic(&text),
    }
}

/// The one summary, a type that prometheus-client lacks.
fn summary(models: &[(String, Model)]) -> String {
    const NAME: &str = "svc_tasks_duration_seconds";
    let mut text = format!(
        "# HELP {NAME} Time from the moment a task could first run to its end, of tasks that completed, failed or were rejected; quantiles of the last 5 to 10 minutes.\n# TYPE {NAME} summary\n",
    );
    for (model, figures) in models {
        let model = escaped(model);
        for (at, quantile) in QUANTILES.iter().enumerate() {
            let value = figures.quantiles.map_or(f64::NAN, |all| all[at].as_secs_f64());
            let _ = writeln!(text, "{NAME}{{model=\"{model}\",quantile=\"{quantile}\"}} {value}");
        }
        let sum = figures.duration.as_secs_f64();
        let _ = writeln!(text, "{NAME}_sum{{model=\"{model}\"}} {sum}");
        let _ = writeln!(text, "{NAME}_count{{model=\"{model}\"}} {}", figures.ended);
    }
    text
}

/// A label's value, as it stands between quotes.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Rewrites `OpenMetrics` as the older text: a counter's name ends in `_total` in its description
/// too, and an info is a gauge.
fn classic(text: &str) -> String {
    let mut classic = String::with_capacity(text.len());
    let mut help = "";
    for line in text.lines() {
        if line.starts_with("# HELP ") {
            help = line;
            continue;
        }
        let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|rest| rest.rsplit_once(' '))
        else {
            classic.push_str(line);
            classic.push('\n');
            continue;
        };
        let (suffix, kind) = match kind {
            "counter" => ("_total", kind),
            "info" => ("_info", "gauge"),
            kind => ("", kind),
        };
        let said = help.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '));
        let said = said.map_or("", |(_, said)| said);
        let _ = writeln!(classic, "# HELP {name}{suffix} {said}\n# TYPE {name}{suffix} {kind}");
    }
    classic
}

/// All figures of one scrape.
#[derive(Debug)]
struct Scrape {
    figures: Figures,
    server: Server,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut sheet = ScrapeEncoder(&mut encoder);
        self.work(&mut sheet)?;
        self.projects(&mut sheet)?;
        self.stock(&mut sheet)?;
        self.surface(&mut sheet)
    }
}

impl Scrape {
    /// Counters of tasks, executions, reviews, deliveries.
    fn work(&self, sheet: &mut ScrapeEncoder<'_, '_>) -> Result<(), fmt::Error> {
        let Figures { models, queues, .. } = &self.figures;
        let entries = models.iter().flat_map(|(model, figures)| {
            let entries = figures.entries.iter();
            entries.map(move |(status, count)| {
                ([("status", *status), ("model", model.as_str())], *count)
            })
        });
        sheet.counter("svc_tasks", "Entries of tasks into each status.", entries)?;
        sheet.counter(
            "svc_plans",
            "Entries of executions into each status.",
            by("status", &self.figures.executions),
        )?;
        sheet.histogram(
            "svc_task_queue_wait_seconds",
            "Time from the moment a task could first run to its first lease.",
            queues.iter().map(|(queue, figures)| ([("queue", queue.as_str())], &figures.waits)),
        )?;
        sheet.histogram(
            "svc_task_run_seconds",
            "Time of each attempt with its worker.",
            models.iter().map(|(model, figures)| ([("model", model.as_str())], &figures.runs)),
        )?;
        sheet.counter(
            "svc_task_retries",
            "Failed attempts that another attempt follows, by the code of the failure.",
            by("code", &self.figures.retries),
        )?;
        sheet.counter(
            "svc_task_failures",
            "Tasks that failed for good, by code.",
            by("code", &self.figures.failures),
        )?;
        sheet.counter(
            "svc_leases_lost",
            "Leases that ended because their worker was lost, by queue.",
            queues.iter().map(|(queue, figures)| ([("queue", queue.as_str())], figures.lost)),
        )?;
        let tokens = models.iter().flat_map(|(model, figures)| {
            let each = [("input", figures.input), ("output", figures.output)];
            each.map(|(kind, count)| ([("model", model.as_str()), ("kind", kind)], count))
        });
        sheet.counter("svc_tokens", "Tokens of answers, by direction.", tokens)?;
        let costs =
            models.iter().map(|(model, figures)| ([("model", model.as_str())], figures.cost));
        sheet.counter(
            "svc_cost_usd",
            "Cost of answers in US dollars, by the price table.",
            costs,
        )?;
        sheet.counter(
            "svc_hitl_decisions",
            "Decisions about held outputs.",
            by("decision", &self.figures.decisions),
        )?;
        sheet.counter(
            "svc_schedule_occurrences",
            "Occurrences of schedules, by what became of them.",
            by("outcome", &self.figures.occurrences),
        )?;
        let deliveries = self.figures.deliveries.iter();
        let deliveries = deliveries
            .map(|(kind, outcome, count)| ([("kind", *kind), ("outcome", *outcome)], *count));
        sheet.counter(
            "svc_deliveries",
            "Attempts to deliver a mail or a webhook; failed ones are repeated, dead ones are not.",
            deliveries,
        )
    }

    /// Writes the figures of the present state.
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    fn stock(&self, sheet: &mut ScrapeEncoder<'_, '_>) -> Result<(), fmt::Error> {
        let figures = &self.figures;
        let queues = || figures.queues.iter();
        sheet.gauge(
            "svc_queue_depth",
            "Tasks that are ready and wait for a worker.",
            queues().map(|(queue, figures)| ([("queue", queue.as_str())], figures.depth as f64)),
        )?;
        sheet.gauge(
            "svc_queue_oldest_seconds",
            "Longest time since a waiting task could first run; 0 for an empty queue.",
            queues().map(|(queue, figures)| {
                ([("queue", queue.as_str())], figures.oldest.as_secs_f64())
            }),
        )?;
        sheet.gauge(
            "svc_queue_workers",
            "Connected workers that serve a queue and are not silent.",
            queues().map(|(queue, figures)| ([("queue", queue.as_str())], figures.workers as f64)),
        )?;
        let waiting = || {
            queues().flat_map(|(queue, figures)| {
                let ready = (figures.waiting_for, figures.depth, figures.oldest);
                let parked = ("budget", figures.unaffordable, figures.oldest_unaffordable);
                let parked = (figures.unaffordable > 0).then_some(parked);
                [Some(ready), parked].into_iter().flatten().map(move |(reason, depth, oldest)| {
                    ([("queue", queue.as_str()), ("waiting_for", reason)], depth, oldest)
                })
            })
        };
        sheet.gauge(
            "svc_tasks_waiting",
            "Tasks that could run, by the thing that they wait for.",
            waiting().map(|(labels, depth, _)| (labels, depth as f64)),
        )?;
        sheet.gauge(
            "svc_tasks_waiting_oldest_seconds",
            "Longest time since one of these tasks could first run; 0 if there is none.",
            waiting().map(|(labels, _, oldest)| (labels, oldest.as_secs_f64())),
        )?;
        for (name, help, value) in [
            (
                "svc_hitl_pending_count",
                "Approvals that wait for a decision, expired ones too.",
                figures.approvals_pending,
            ),
            (
                "svc_workers_active",
                "Connected workers that are not silent.",
                figures.workers_active,
            ),
            (
                "svc_tasks_running",
                "Tasks that are with a worker.",
                figures.projects.iter().map(|(_, project)| project.running).sum(),
            ),
            (
                "svc_paused",
                "1 while everything is paused and no task is leased, else 0.",
                u64::from(figures.paused),
            ),
            ("svc_queues_paused", "Queues that are paused.", figures.paused_queues),
            ("svc_events_subscribers", "Subscribers of events.", figures.subscribers),
            (
                "svc_actors_awake",
                "Tasks, executions and approvals that are in memory.",
                figures.awake,
            ),
        ] {
            sheet.gauge_of(name, help, value as f64)?;
        }
        sheet.histogram_of(
            "svc_commit_seconds",
            "Time from a decision to its durability, of commits that somebody waits for.",
            &figures.commits,
        )?;
        sheet.counter_of(
            "svc_store_commits",
            "Batches that the store committed.",
            &figures.store_batches,
        )?;
        sheet.counter_of(
            "svc_store_syncs",
            "Syncs of the journal; one sync commits many batches.",
            &figures.store_syncs,
        )
    }
}

/// Counts with one label each.
fn by<'a>(
    label: &'static str,
    counts: &'a [(&'static str, u64)],
) -> impl Iterator<Item = ([(&'static str, &'static str); 1], u64)> + 'a {
    counts.iter().map(move |(value, count)| ([(label, *value)], *count))
}

struct ScrapeEncoder<'a, 'e>(&'a mut DescriptorEncoder<'e>);

impl ScrapeEncoder<'_, '_> {
    fn counter<'l, const N: usize, V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        series: impl Iterator<Item = ([(&'l str, &'l str); N], V)>,
    ) -> Result<(), fmt::Error> {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in series {
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, V, u64>(&value, None)?;
        }
        Ok(())
    }

    fn counter_of<V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        value: &V,
    ) -> Result<(), fmt::Error> {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, V, u64>(value, None)
    }

    fn gauge<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        series: impl Iterator<Item = ([(&'l str, &'l str); N], f64)>,
    ) -> Result<(), fmt::Error> {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in series {
            metric.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    fn gauge_of(&mut self, name: &str, help: &str, value: f64) -> Result<(), fmt::Error> {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        metric.encode_gauge(&value)
    }

    fn histogram<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        series: impl Iterator<Item = ([(&'l str, &'l str); N], &'l Distribution)>,
    ) -> Result<(), fmt::Error> {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, Distribution { buckets, count, sum }) in series {
            let mut metric = metric.encode_family(&labels)?;
            metric.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)?;
        }
        Ok(())
    }

    fn histogram_of(
        &mut self,
        name: &str,
        help: &str,
        Distribution { buckets, count, sum }: &Distribution,
    ) -> Result<(), fmt::Error> {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        metric.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
    }
}

#[cfg(test)]
mod tests {
    use callboard_runtime::metrics::Project;

    use super::*;

    fn figures() -> Figures {
        let zero = Distribution { buckets: vec![(0.5, 1), (f64::INFINITY, 2)], count: 3, sum: 4.5 };
        let model = Model {
            entries: vec![("pending", 2), ("running", 1)],
            quantiles: Some([1, 2, 3].map(Duration::from_secs)),
            duration: Duration::from_millis(1_500),
            ended: 2,
            runs: zero.clone(),
            input: 10,
            output: 20,
            cost: 0.25,
        };
        let idle = Model { quantiles: None, ..model.clone() };
        let project = Project {
            entries: vec![("pending", 2)],
            depth: 1,
            running: 3,
            input: 10,
            output: 20,
            cost: 0.25,
            webhooks: vec![("dead", 4)],
        };
        Figures {
            models: vec![("a\"b\\c\nd".into(), model), ("idle".into(), idle)],
            queues: Vec::new(),
            projects: vec![("default".into(), project)],
            executions: vec![("running", 1)],
            retries: vec![("TASK_TIMEOUT", 1)],
            failures: Vec::new(),
            decisions: vec![("approved", 1)],
            occurrences: vec![("failed", 2)],
            deliveries: vec![("mail", "dead", 1)],
            commits: zero,
            approvals_pending: 7,
            workers_active: 1,
            paused: false,
            paused_queues: 0,
            key_ends: Vec::new(),
            subscribers: 0,
            awake: 0,
            store_batches: 1,
            store_syncs: 1,
        }
    }

    fn text(format: Format) -> String {
        written(figures(), Server::default(), format)
    }

    #[test]
    fn open_metrics_ends_with_its_mark_and_names_counters_without_total() {
        let text = text(Format::OpenMetrics);
        assert!(text.ends_with("\n# EOF\n"), "{text}");
        assert!(text.contains("# TYPE svc_tasks counter\n"));
        assert!(text.contains("\nsvc_tasks_total{status=\"pending\",model=\"idle\"} 2\n"));
        assert!(text.contains("# TYPE svc_build info\nsvc_build_info{version="));
        assert!(text.contains("\nsvc_hitl_pending_count 7"));
    }

    #[test]
    fn what_is_of_a_project_has_its_name() {
        let refusals = vec![("default".to_owned(), [5, 6])];
        let text = written(figures(), Server { refusals, ..Server::default() }, Format::Prometheus);
        for line in [
            "svc_project_tasks_total{project=\"default\",status=\"pending\"} 2",
            "svc_project_tokens_total{project=\"default\",kind=\"output\"} 20",
            "svc_project_cost_usd_total{project=\"default\"} 0.25",
            "svc_project_webhooks_total{project=\"default\",outcome=\"dead\"} 4",
            "svc_project_refusals_total{project=\"default\",status=\"429\"} 5",
            "svc_project_refusals_total{project=\"default\",status=\"503\"} 6",
            "svc_project_tasks_running{project=\"default\"} 3.0",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
        }
        assert!(text.contains("\nsvc_project_queue_depth{project=\"default\"} 1.0\n"), "{text}");
    }

    #[test]
    fn the_older_text_names_what_it_describes_as_it_names_the_samples() {
        let text = text(Format::Prometheus);
        assert!(!text.contains("# EOF"));
        assert!(text.contains("# HELP svc_tasks_total Entries of tasks into each status.\n# TYPE svc_tasks_total counter\nsvc_tasks_total{"));
        assert!(text.contains("# TYPE svc_build_info gauge\nsvc_build_info{version="));
        assert!(text.contains("# TYPE svc_commit_seconds histogram\n"));
        assert!(text.contains("svc_commit_seconds_bucket{le=\"+Inf\"} 3\n"));
    }

    #[test]
    fn a_summary_has_quantiles_or_says_that_there_are_none() {
        let text = text(Format::Prometheus);
        let name = "svc_tasks_duration_seconds";
        assert!(text.contains(&format!("# TYPE {name} summary\n")));
        assert!(text.contains(&format!("{name}{{model=\"idle\",quantile=\"0.99\"}} NaN\n")));
        assert!(
            text.contains(&format!("{name}{{model=\"a\\\"b\\\\c\\nd\",quantile=\"0.5\"}} 1\n"))
        );
        assert!(text.contains(&format!("{name}_sum{{model=\"idle\"}} 1.5\n")));
        assert!(text.contains(&format!("{name}_count{{model=\"idle\"}} 2\n")));
    }

    #[test]
    fn a_model_s_name_cannot_break_a_line() {
        let text = text(Format::Prometheus);
        assert!(text.contains("svc_tasks_total{status=\"running\",model=\"a\\\"b\\\\c\\nd\"} 1\n"));
        let is_sample = |line: &str| line.starts_with(['#', 's', 'p']);
        assert!(text.lines().all(is_sample), "{text}");
    }

    #[test]
    fn a_client_that_names_open_metrics_gets_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3";
        assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
        for accept in ["", "*/*", "text/plain;version=0.0.4", "application/json"] {
            assert_eq!(Format::accepted(accept), Format::Prometheus, "{accept}");
        }
    }
}
