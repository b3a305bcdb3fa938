//! The upload of a batch: the body is read in pieces, and each row is handed on as it comes.
//!
//! ```text
//!   pieces ─▶ notation ─▶ rows ─▶ the runtime, which commits many at a time
//! ```
//!
//! A request holds one piece, one row and the rows of one piece. Deliberately absent: the check of an input.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::BodyDataStream;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use bytes::Bytes;
use callboard_domain::batch::{Batch, MAX_UPLOAD};
use callboard_domain::digest::Digest;
use callboard_domain::template::Caller;
use callboard_domain::{Error, Rule};
use callboard_runtime::batch::{BatchUpload, GivenRow, TriedUpload};
use callboard_runtime::handle::BatchBegun;
use callboard_runtime::{Handle, Owner};
use callboard_wire::batches::{CreateBatch, OnInvalid};
use callboard_wire::read;
use futures_util::StreamExt;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::notation::{Csv, Lines, Notation, Read, of_value, typed};
use crate::http::auth::BodySender;
use crate::http::describe::{Input, Operation};
use crate::http::{App, Edge, Failure, Share, body};

/// The pause after which the sender's credential is looked at again.
const RECHECK: Duration = Duration::from_secs(5);

/// The upload of a batch, before its body is read.
pub(in crate::http) struct Upload {
    settings: CreateBatch,
    rows: Rows,
    digest: Sha256,
}

/// The rows of an upload.
enum Rows {
    /// A body in pieces.
    Streamed(Box<Pieces>, Notation),
    /// A JSON body, which is read.
    Given(Vec<Value>),
}

/// What became of an upload.
pub(in crate::http) enum Uploaded {
    /// A batch; true if an earlier upload made it.
    Batch(Box<Batch>, bool),
    /// The upload was only tried.
    Tried(Box<TriedUpload>),
}

impl FromRequest<Arc<App>> for Upload {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &Arc<App>) -> Result<Self, Failure> {
        let headers = request.headers();
        let is_plain = headers.get(CONTENT_ENCODING).is_none_or(|encoding| encoding == "identity");
        let media = headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok());
        let media = media.and_then(|media| media.split(';').next()).unwrap_or_default().trim();
        let media = media.to_ascii_lowercase();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let mut digest = Sha256::new();
        digest.update(query.as_bytes());
        if media == "application/json" && is_plain {
            let bytes = body::read(request).await?;
            digest.update(&bytes);
            let (settings, rows) = of_json(&bytes)?;
            return Ok(Self { settings, rows: Rows::Given(rows), digest });
        }
        let settings: CreateBatch = read::query::parse(&query)?;
        let notation = match media.as_str() {
            "application/x-ndjson" | "application/jsonl" | "application/ndjson" if is_plain => {
                Notation::Lines(Lines::default())
            }
            "text/csv" if is_plain => {
                Notation::Csv(Box::new(Csv::new(settings.key_column.clone())))
            }
            _ => return Err(super::MEDIA.into()),
        };
        if settings.key_column.is_some() && matches!(notation, Notation::Lines(_)) {
            let says = "keyColumn is only for text/csv: a line of JSON has the member key";
            return Err(Error::invalid("keyColumn", Rule::Unknown, says).into());
        }
        Ok(Self {
            settings,
            rows: Rows::Streamed(Box::new(Pieces::of(request)?), notation),
            digest,
        })
    }
}

/// The settings and the rows of a JSON body.
fn of_json(bytes: &[u8]) -> Result<(CreateBatch, Vec<Value>), Error> {
    let value = read::parse(bytes, read::Format::Json)?;
    let Value::Object(mut members) = value else {
        return Err(Error::invalid(
            "body",
            Rule::Type,
            "the body must be an object with templateId and rows",
        ));
    };
    let rows = match members.shift_remove("rows") {
        Some(Value::Array(rows)) => rows,
        Some(_) => {
            return Err(Error::invalid("rows", Rule::Type, "rows must be a list of {key, input}"));
        }
        None => {
            return Err(Error::invalid(
                "rows",
                Rule::Required,
                "rows is required: a list of {key, input}",
            ));
        }
    };
    if let Some(Value::Array(tags)) = members.get("tags") {
        let tags: Vec<_> = tags.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        members.insert("tags".into(), Value::String(tags.join(",")));
    }
    Ok((read::value(Value::Object(members))?, rows))
}

impl Input for Upload {
    fn describe(operation: &mut Operation) {
        let parameters = operation.components.parameters::<CreateBatch>();
        operation.parameters.extend(parameters);
        let settings = operation.components.reference::<CreateBatch>();
        // A row with a fault is kept as invalid, so the schema of a row refuses none.
        let row = json!({"description": "{key, input}: the key is a text, the input an object"});
        // A JSON body has the rows beside the settings, and the schema of these is closed.
        if let Some(body) = operation.components.0.get_mut(<CreateBatch as read::Read>::NAME) {
            body["required"] = json!(["templateId", "rows"]);
            body["properties"]["rows"] = json!({"type": "array", "items": row});
        }
        operation.body = Some(json!({
            "required": true,
            "content": {
                "application/x-ndjson": {"schema": {"type": "string"}},
                "text/csv": {"schema": {"type": "string"}},
                "application/json": {"schema": settings},
            },
        }));
        operation.refusals.extend([400, 404, 408, 413, 415]);
    }
}

/// A body in pieces, each within its time and within the budget of bytes.
struct Pieces {
    stream: BodyDataStream,
    share: Option<Share>,
    sender: Option<BodySender>,
    limit: Duration,
    read: u64,
    checked: Instant,
}

impl Pieces {
    fn of(request: Request) -> Result<Self, Error> {
        let edge = request.extensions().get::<Edge>().copied().unwrap_or_default();
        let announced =
            request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        if announced.and_then(|length| length.parse::<u64>().ok()).is_some_and(|it| it > MAX_UPLOAD)
        {
            return Err(too_large());
        }
        let share = request.extensions().get::<Share>().cloned();
        let sender = request.extensions().get::<BodySender>().cloned();
        let stream = request.into_body().into_data_stream();
        let (limit, checked) = (edge.body_timeout, Instant::now());
        Ok(Self { stream, share, sender, limit, read: 0, checked })
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        self.share.iter().for_each(Share::reset);
        let piece = tokio::time::timeout(self.limit, self.stream.next()).await;
        let piece = piece.map_err(|_| Error::BodyTooSlow { seconds: self.limit.as_secs() })?;
        let broken = |_| Error::invalid("body", Rule::Format, "the body breaks off");
        let Some(piece) = piece.transpose().map_err(broken)? else { return Ok(None) };
        if let Some(share) = &self.share {
            share.take(piece.len())?;
        }
        self.read += piece.len() as u64;
        if self.read > MAX_UPLOAD {
            return Err(too_large());
        }
        if self.checked.elapsed() > RECHECK {
            self.checked = Instant::now();
            self.sender.iter().try_for_each(BodySender::check)?;
        }
        Ok(Some(piece))
    }
}

fn too_large() -> Error {
    Error::PayloadTooLarge { limit: usize::try_from(MAX_UPLOAD).unwrap_or(usize::MAX) }
}

impl Upload {
    /// Reads the rows, and makes them durable as they come.
    pub(in crate::http) async fn run(
        self,
        handle: &Handle,
        owner: &Owner,
        caller: Caller<'_>,
        key: Option<&str>,
    ) -> Result<Uploaded, Error> {
        let Self { settings, rows, mut digest } = self;
        match handle.begin_batch(owner, caller, settings.order()?, key).await? {
            BatchBegun::Known(batch, body) => {
                if let Rows::Streamed(mut pieces, _) = rows {
                    while let Some(piece) = pieces.next().await? {
                        digest.update(&piece);
                    }
                }
                if digest_of(digest) != body {
                    return Err(Error::IdempotencyKeyReused);
                }
                Ok(Uploaded::Batch(batch, true))
            }
            BatchBegun::New(upload) => {
                let rejects = settings.on_invalid == Some(OnInvalid::Reject);
                let mut loading = Loading { upload: *upload, rejects };
                match rows {
                    Rows::Given(rows) => {
                        for row in rows {
                            loading.add(of_value(row), false).await?;
                        }
                    }
                    Rows::Streamed(mut pieces, mut notation) => {
                        let is_csv = matches!(notation, Notation::Csv(_));
                        if let (Notation::Csv(csv), Some(key)) =
                            (&mut notation, &settings.key_column)
                        {
                            csv.keeps_key = loading.upload.declares(key);
                        }
                        let mut read = Vec::new();
                        while let Some(piece) = pieces.next().await? {
                            digest.update(&piece);
                            notation.feed(&piece, &mut read)?;
                            loading.add_all(&mut read, is_csv).await?;
                        }
                        notation.finish(&mut read)?;
                        loading.add_all(&mut read, is_csv).await?;
                    }
                }
                if loading.upload.is_empty() {
                    let says = "rows must have at least one row";
                    return Err(Error::invalid("rows", Rule::Length, says));
                }
                if let Some(tried) = loading.upload.tried() {
                    return Ok(Uploaded::Tried(Box::new(tried)));
                }
                let batch = loading.upload.finish(Some(digest_of(digest))).await?;
                Ok(Uploaded::Batch(Box::new(batch), false))
            }
        }
    }
}

fn digest_of(digest: Sha256) -> String {
    let bytes: [u8; 32] = digest.finalize().into();
    Digest::of(&format!("{bytes:?}")).to_string()
}

struct Loading {
    upload: BatchUpload,
    rejects: bool,
}

impl Loading {
    async fn add_all(&mut self, rows: &mut Vec<Read>, is_csv: bool) -> Result<(), Error> {
        for row in rows.drain(..) {
            self.add(row, is_csv).await?;
        }
        Ok(())
    }

    async fn add(&mut self, Read { key, input }: Read, is_csv: bool) -> Result<(), Error> {
        let input = if is_csv { input.and_then(|cells| self.typed(cells)) } else { input };
        let rejected = self.upload.add(GivenRow { key, input }).await?;
        match rejected.filter(|_| self.rejects) {
            Some(rejected) => {
                let (row, message) = (rejected.row, rejected.error.message);
                let says = format!("row {row}: {message}; nothing is kept");
                Err(Error::invalid(format!("rows[{row}]"), Rule::Format, says))
            }
            None => Ok(()),
        }
    }

    /// The cells of a CSV row, each as the type that the template declares.
    fn typed(&self, cells: Map<String, Value>) -> Result<Map<String, Value>, String> {
        let mut input = Map::with_capacity(cells.len());
        for (name, cell) in cells {
            let value = match &cell {
                Value::String(text) => typed(text, self.upload.declared_type(&name)),
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_) => Ok(Some(cell)),
            };
            let value = value.map_err(|says| format!("input.{name} {says}"))?;
            input.extend(value.map(|value| (name, value)));
        }
        Ok(input)
    }
}
