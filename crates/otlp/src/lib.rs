//! Export of spans by OTLP over HTTP, for the server and the worker.
//!
//! ```text
//!   Spans::end ─▶ queue of 4,096 ─▶ batches ─▶ POST …/v1/traces
//!                   └ full: dropped, counted
//! ```
//!
//! A span is made when its work has ended, so no span is open in memory, and its identifiers come from the caller. No
//! work waits for an export.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use callboard_common::secret::Secret;
use callboard_domain::trace::TraceContext;
use opentelemetry::trace::{SpanContext, SpanId, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use reqwest::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use url::Url;

pub use opentelemetry::trace::SpanKind;
pub use opentelemetry::{StringValue, Value};

/// The most spans that wait.
const QUEUE: usize = 4_096;
/// The most spans of one request.
const BATCH: usize = 512;
/// The time for which spans are gathered.
const GATHER: Duration = Duration::from_secs(1);
/// The time of one export, with its repetitions.
const EXPORT: Duration = Duration::from_secs(30);
/// The time to export the last spans when the process ends.
const LAST: Duration = Duration::from_secs(3);
/// The time between two logged failures.
const COMPLAIN: Duration = Duration::from_mins(1);

/// The receiver of spans, and the name under which they are sent.
#[derive(Debug)]
pub struct Options {
    /// The name of the service in traces, unless `OTEL_SERVICE_NAME` gives another.
    pub service: &'static str,
    /// The receiver, to which `/v1/traces` is added; `None` leaves it to `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub endpoint: Option<Url>,
    /// Headers for the receiver, `name=value` with commas or line ends between them; `None` leaves it to
    /// `OTEL_EXPORTER_OTLP_HEADERS`.
    pub headers: Option<Secret>,
}

/// The reason why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The receiver's address, or another variable of OpenTelemetry, cannot be used.
    #[error("traces cannot be exported: {0}")]
    Refused(String),
    /// The headers cannot be read. The error does not show them.
    #[error("the headers for traces must be name=value, with commas or line ends between them")]
    Headers,
}

/// True if the variables of OpenTelemetry name a receiver.
#[must_use]
pub fn named_by_environment() -> bool {
    ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"]
        .into_iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Work that has ended.
#[derive(Debug)]
pub struct Span(SpanData);

impl Span {
    /// A span with the identifiers of `context`, child of `parent`.
    #[must_use]
    pub fn new(
        context: TraceContext,
        parent: Option<u64>,
        name: impl Into<Cow<'static, str>>,
        kind: SpanKind,
        (start, end): (SystemTime, SystemTime),
    ) -> Self {
        Self(SpanData {
            span_context: SpanContext::new(
                TraceId::from(context.trace()),
                SpanId::from(context.span()),
                TraceFlags::SAMPLED,
                false,
                TraceState::NONE,
            ),
            parent_span_id: parent.map_or(SpanId::INVALID, SpanId::from),
            parent_span_is_remote: false,
            span_kind: kind,
            name: name.into(),
            start_time: start,
            end_time: end.max(start),
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::builder("callboard")
                .with_version(env!("CARGO_PKG_VERSION"))
                .build(),
        })
    }

    /// This span with an attribute.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.0.attributes.push(KeyValue::new(name, value));
        self
    }

    /// This span with an attribute, if it has a value.
    #[must_use]
    pub fn with_some(self, name: &'static str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// This span, failed with this code (`error.type`), if there is one.
    #[must_use]
    pub fn failed(mut self, code: Option<&str>) -> Self {
        let Some(code) = code else { return self };
        self.0.status = Status::error(code.to_owned());
        self.with("error.type", code.to_owned())
    }
}

/// The numbers of spans by their fate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The spans that the receiver has.
    pub exported: u64,
    /// The spans that found the queue full, or that the receiver did not take.
    pub dropped: u64,
}

#[derive(Debug, Default)]
struct Counters {
    exported: AtomicU64,
    dropped: AtomicU64,
}

/// The sender of spans to the exporter; clones share its queue.
#[derive(Debug, Clone)]
pub struct Spans {
    queue: mpsc::Sender<SpanData>,
    counters: Arc<Counters>,
}

impl Spans {
    /// Takes a span. Never waits: a span that finds the queue full is dropped.
    pub fn end(&self, span: Span) {
        if self.queue.try_send(span.0).is_err() {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The numbers of spans that were exported and dropped since the start.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let Counters { exported, dropped } = &*self.counters;
        Counts {
            exported: exported.load(Ordering::Relaxed),
            dropped: dropped.load(Ordering::Relaxed),
        }
    }
}

/// The export in the background.
#[derive(Debug)]
pub struct Exporter {
    spans: Spans,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl Exporter {
    /// Starts to export, within a tokio runtime.
    ///
    /// # Errors
    /// The receiver or the headers cannot be used.
    pub fn start(options: Options) -> Result<Self, Error> {
        callboard_common::tls::install_provider();
        let refused = |error: &dyn std::fmt::Display| Error::Refused(error.to_string());
        let mut client = reqwest::Client::builder()
            .user_agent(concat!("callboard/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .timeout(EXPORT);
        if options.endpoint.as_ref().is_some_and(|endpoint| endpoint.scheme() == "http") {
            // TLS is never used, so a machine without certificates must not fail over them.
            client = client.tls_certs_only([]);
        }
        let client = client.build().map_err(|error| refused(&error))?;
        let headers = options.headers.map(|it| headers_of(it.expose())).transpose()?;
        let client = Client { client, headers };
        let mut builder = SpanExporter::builder().with_http().with_http_client(client);
        if let Some(mut endpoint) = options.endpoint {
            let path = format!("{}/v1/traces", endpoint.path().trim_end_matches('/'));
            endpoint.set_path(&path);
            builder = builder.with_endpoint(endpoint.to_string());
        }
        let mut exporter = builder.build().map_err(|error| refused(&error))?;
        let mut resource = Resource::builder()
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name(options.service);
        }
        exporter.set_resource(&resource.build());
        let (queue, spans) = mpsc::channel(QUEUE);
        let counters = Arc::<Counters>::default();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(run(exporter, spans, Arc::clone(&counters), stopped));
        Ok(Self { spans: Spans { queue, counters }, stop, running })
    }

    /// The sender of spans to this exporter.
    #[must_use]
    pub fn spans(&self) -> Spans {
        self.spans.clone()
    }

    /// Exports the spans that wait, for up to three seconds, and ends.
    pub async fn finish(self) {
        let _ = self.stop.send(());
        if tokio::time::timeout(LAST, self.running).await.is_err() {
            tracing::warn!("the last spans were not exported in time");
        }
    }
}

/// The client of the exporter, which lets headers of the environment replace those that it is given: here
/// given ones take the place of the environment's.
#[derive(Debug)]
struct Client {
    client: reqwest::Client,
    /// The headers that were given, if any were.
    headers: Option<HeaderMap>,
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        if let Some(headers) = &self.headers {
            let mut own = headers.clone();
            for name in [CONTENT_TYPE, CONTENT_ENCODING, USER_AGENT] {
                own.extend(request.headers_mut().remove(&name).map(|value| (name, value)));
            }
            *request.headers_mut() = own;
        }
        self.client.send_bytes(request).await
    }
}

/// `name=value` pairs, with commas or line ends between them.
fn headers_of(text: &str) -> Result<HeaderMap, Error> {
    let pairs = text.split([',', '\n']).map(str::trim).filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| {
        let (name, value) = pair.split_once('=').ok_or(Error::Headers)?;
        let name = HeaderName::try_from(name.trim()).map_err(|_| Error::Headers)?;
        let mut value = HeaderValue::try_from(value.trim()).map_err(|_| Error::Headers)?;
        value.set_sensitive(true);
        Ok((name, value))
    });
    pairs.collect()
}

async fn run(
    exporter: SpanExporter,
    mut spans: mpsc::Receiver<SpanData>,
    counters: Arc<Counters>,
    mut stopped: oneshot::Receiver<()>,
) {
    let (mut batch, mut complained) = (Vec::new(), None::<tokio::time::Instant>);
    let mut ends = false;
    while !ends {
        tokio::select! {
            _ = &mut stopped => {
                ends = true;
                spans.close();
            }
            count = spans.recv_many(&mut batch, BATCH) => {
                ends = count == 0;
                // Further spans may follow at once.
                let gathered = tokio::time::timeout(GATHER, gather(&mut spans, &mut batch));
                tokio::select! {
                    _ = gathered => {}
                    _ = &mut stopped => {
                        ends = true;
                        spans.close();
                    }
                }
            }
        }
        loop {
            while batch.len() < BATCH
                && let Ok(span) = spans.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() {
                break;
            }
            let count = batch.len() as u64;
            let sent = exporter.export(std::mem::take(&mut batch));
            let why = match tokio::time::timeout(EXPORT, sent).await {
                Ok(Ok(())) => {
                    counters.exported.fetch_add(count, Ordering::Relaxed);
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "the receiver does not answer".to_owned(),
            };
            counters.dropped.fetch_add(count, Ordering::Relaxed);
            if complained.is_none_or(|at| at.elapsed() >= COMPLAIN) {
                complained = Some(tokio::time::Instant::now());
                tracing::warn!(spans = count, why, "spans could not be exported");
            }
        }
    }
}

/// Receives until a batch is full or no more spans can come.
async fn gather(spans: &mut mpsc::Receiver<SpanData>, batch: &mut Vec<SpanData>) {
    while batch.len() < BATCH {
        let room = BATCH - batch.len();
        if spans.recv_many(batch, room).await == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_pairs_and_nothing_else() {
        let read = headers_of("authorization=Bearer a=b, x-tenant = 7\n").expect("two");
        assert_eq!(read["authorization"], "Bearer a=b");
        assert_eq!(read["x-tenant"], "7");
        for wrong in ["authorization", "a b=c", "=x", "a=\u{1}"] {
            assert!(headers_of(wrong).is_err(), "{wrong}");
        }
    }

    fn span(number: u64) -> Span {
        let now = SystemTime::UNIX_EPOCH;
        Span::new(TraceContext::new(7, number, true), None, "s", SpanKind::Internal, (now, now))
    }

    #[tokio::test]
    async fn a_receiver_that_is_away_delays_nobody_and_what_does_not_fit_is_counted() {
        // A port that nobody listens on.
        let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr());
        let endpoint = Url::parse(&format!("http://{}", port.expect("a port"))).expect("a URL");
        let options = Options { service: "test", endpoint: Some(endpoint), headers: None };
        let exporter = Exporter::start(options).expect("it starts");
        let spans = exporter.spans();
        let started = std::time::Instant::now();
        // Nothing else runs on this thread meanwhile, so that the queue fills.
        for number in 1..=QUEUE as u64 + 100 {
            spans.end(span(number));
        }
        assert!(started.elapsed() < Duration::from_secs(5));
        assert_eq!(spans.counts(), Counts { exported: 0, dropped: 100 });
        exporter.finish().await;
        assert_eq!(spans.counts().exported, 0);
        assert!(spans.counts().dropped > 100);
    }
}
