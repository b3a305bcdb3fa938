//! The series of the process, its clients and its storage.

use std::fmt;

use prometheus_client::metrics::MetricType;

use super::{Scrape, ScrapeEncoder, Server};

impl Scrape {
    /// The server as its operating system and its clients see it.
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    #[expect(clippy::too_many_lines, reason = "a list of series")]
    pub(super) fn surface(&self, sheet: &mut ScrapeEncoder<'_, '_>) -> Result<(), fmt::Error> {
        let Server { responses, store_bytes, disk, process, .. } = &self.server;
        let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip(responses);
        sheet.counter(
            "svc_http_responses",
            "Answers to requests, by the class of their status.",
            classes.map(|(class, count)| ([("class", class)], *count)),
        )?;
        sheet.counter(
            "svc_http_limited",
            "Requests that were refused with 429, by the limit that they met.",
            self.server.limited.iter().map(|(limit, count)| ([("limit", *limit)], *count)),
        )?;
        if let Some(requests) = &self.server.requests {
            sheet.histogram_of(
                "svc_http_request_seconds",
                "Time from a request to its answer, of requests that do not wait for work.",
                requests,
            )?;
        }
        sheet.counter_of(
            "svc_sign_ins_refused",
            "Sign-ins that were refused.",
            &self.server.sign_ins_refused,
        )?;
        let logged = ["error", "warn"].into_iter().zip(self.server.logged);
        sheet.counter(
            "svc_log_events",
            "Errors and warnings of the log.",
            logged.map(|(level, count)| ([("level", level)], count)),
        )?;
        for (name, help, value) in [
            (
                "svc_http_connections",
                "Open connections, sockets included.",
                self.server.connections as f64,
            ),
            (
                "svc_event_streams",
                "Open event streams and sockets of clients.",
                self.server.streams as f64,
            ),
            ("svc_worker_sockets", "Open sockets of workers.", self.server.worker_sockets as f64),
            (
                "svc_uptime_seconds",
                "Time since the start of the process.",
                self.server.uptime.as_secs_f64(),
            ),
            (
                "process_start_time_seconds",
                "Start of the process, in Unix time.",
                self.server.started,
            ),
        ] {
            sheet.gauge_of(name, help, value)?;
        }
        let [exported, dropped] = &self.server.spans;
        sheet.counter_of(
            "svc_spans_exported",
            "Spans of traces that the receiver has taken.",
            exported,
        )?;
        sheet.counter_of("svc_spans_dropped", "Spans of traces that were lost: the queue was full, or the receiver did not take them.", dropped)?;
        let certificates = self.server.certificates.iter();
        sheet.gauge(
            "svc_certificate_expires_seconds",
            "Time left of a certificate of the server; negative once it is over.",
            certificates.map(|(name, left)| ([("certificate", *name)], *left as f64)),
        )?;
        let keys = self.figures.key_ends.iter();
        sheet.gauge(
            "svc_key_expires_seconds",
            "Time left of an API key; negative for a day once it is over.",
            keys.map(|key| {
                let labels =
                    [("key", key.id.as_str()), ("name", key.name.as_str()), ("role", key.role)];
                (labels, key.left_seconds)
            }),
        )?;
        let parts = ["journal", "rows"].into_iter().zip(store_bytes);
        sheet.gauge(
            "svc_store_bytes",
            "Bytes of the store's files.",
            parts.map(|(part, bytes)| ([("part", part)], *bytes as f64)),
        )?;
        if let Some([free, all]) = *disk {
            sheet.gauge_of(
                "svc_disk_free_bytes",
                "Free bytes of the file system that holds the data directory.",
                free as f64,
            )?;
            sheet.gauge_of(
                "svc_disk_size_bytes",
                "Size of the file system that holds the data directory.",
                all as f64,
            )?;
        }
        if let Some(backup) = &self.server.backup {
            if let Some([from, to]) = backup.restorable {
                sheet.gauge_of(
                    "svc_restorable_from_seconds",
                    "First moment that the last backup restores, in Unix time: its end.",
                    from,
                )?;
                sheet.gauge_of(
                    "svc_restorable_to_seconds",
                    "Last moment that the last backup and the archive behind it restore, in Unix time.",
                    to,
                )?;
            }
            if let Some(archived) = backup.archived {
                sheet.gauge_of(
                    "svc_archive_continuous",
                    "1 while the archive of the journal continues the last backup without a gap, 0 otherwise.",
                    f64::from(u8::from(archived)),
                )?;
            }
        }
        if let Some(cluster) = &self.server.cluster {
            let nodes = ["active", "standby", "lost"].into_iter().zip(cluster.nodes);
            sheet.gauge(
                "svc_cluster_nodes",
                "Nodes of the cluster, by status.",
                nodes.map(|(status, count)| ([("status", status)], count as f64)),
            )?;
            sheet.gauge_of(
                "svc_cluster_partitions_owned",
                "Partitions, of 256, that a living node owns.",
                cluster.partitions_owned as f64,
            )?;
            sheet.gauge_of(
                "svc_cluster_term_left_seconds",
                "Time left of the active node's term, unless it is renewed.",
                cluster.term_left.as_secs_f64(),
            )?;
        }
        if let Some(seconds) = process.cpu_seconds {
            sheet.counter_of("process_cpu_seconds", "Processor time of the process.", &seconds)?;
        }
        if let Some(bytes) = process.resident_bytes {
            sheet.gauge_of(
                "process_resident_memory_bytes",
                "Memory of the process.",
                bytes as f64,
            )?;
        }
        if let Some(count) = process.open_fds {
            sheet.gauge_of(
                "process_open_fds",
                "Open files and sockets of the process.",
                count as f64,
            )?;
        }
        if let Some(most) = process.max_fds {
            sheet.gauge_of(
                "process_max_fds",
                "Most files and sockets that the process may have open.",
                most as f64,
            )?;
        }
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        let mut info = sheet.0.encode_descriptor(
            "svc_build",
            "Version of the server.",
            None,
            MetricType::Info,
        )?;
        info.encode_info(&version)
    }
}
