//! The upload of a batch: the body is read in pieces, and each row is handed on as it comes.
//!
//! ```text
//!   pieces ─▶ notation ─▶ rows ─▶ the runtime, which commits many at a time
//! ```
//!
//! A request holds one piece, one row and the rows of one piece.

use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use callboard_domain::batch::{Batch, MAX_INPUT, MAX_UPLOAD};
use callboard_domain::digest::Digest;
use callboard_domain::template::Caller;
use callboard_domain::{Error, Rule};
use callboard_runtime::batch::{BatchUpload, GivenRow, TriedUpload};
use callboard_runtime::handle::BatchBegun;
use callboard_runtime::{Handle, Owner};
use callboard_wire::batches::{CreateBatch, OnInvalid};
use callboard_wire::read;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::notation::{Csv, Notation, Read, of_value, typed};
use crate::http::body::lines::Lines;
use crate::http::body::pieces::Pieces;
use crate::http::describe::{Input, Operation};
use crate::http::{App, Failure, body};

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

/// The outcome of an upload.
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
                Notation::Lines(Lines::new(MAX_INPUT))
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
            rows: Rows::Streamed(Box::new(Pieces::of(request, MAX_UPLOAD)?), notation),
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
        if let Some(body) = operation.components.schemas.get_mut(<CreateBatch as read::Read>::NAME)
        {
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
                    while let Some(piece) = pieces.next(0).await? {
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
                        while let Some(piece) = pieces.next(0).await? {
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
