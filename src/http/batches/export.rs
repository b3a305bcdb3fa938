//! The export of a batch, page by page as the client reads it.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::Response;
use bytes::Bytes;
use callboard_domain::Error;
use callboard_domain::access::Caller;
use callboard_domain::id::{Environment, TemplateBatchId};
use callboard_domain::query::Rows;
use callboard_runtime::Handle;
use callboard_wire::batches::{BatchRowBody, ExportFormat, ExportRows, cell_text, usual_columns};
use futures_util::stream;
use serde_json::{Map, Value};

use crate::http::App;
use crate::http::limit::OpenPermit;

/// The rows that are read at a time.
const PAGE: usize = 100;

struct Export {
    handle: Handle,
    environment: Environment,
    id: TemplateBatchId,
    format: ExportFormat,
    /// `None`: each row as the list of rows shows it.
    columns: Option<Vec<String>>,
    rows: Rows,
    header: Option<Bytes>,
    is_over: bool,
    _permit: OpenPermit,
}

/// Begins the export. The first page is read before the answer, so that a refusal is one.
pub(super) async fn begin(
    app: &Arc<App>,
    caller: &Caller,
    id: TemplateBatchId,
    asked: ExportRows,
) -> Result<Response, Error> {
    let permit = app.streams.open(caller)?;
    let (handle, environment) = (app.handle.clone(), caller.environment);
    let outputs = handle.batch_outputs(environment, id).await?;
    let format = asked.format.unwrap_or(ExportFormat::Csv);
    let columns = match (asked.columns, format) {
        (None, ExportFormat::Jsonl) => None,
        (None, ExportFormat::Csv) => {
            let reviewed = handle.reviewed_steps(environment, id).await?;
            Some(usual_columns(&outputs, &reviewed))
        }
        (columns, _) => columns,
    };
    let rows = Rows { statuses: asked.status.unwrap_or_default(), ..Rows::pages_of(PAGE) };
    let header = match (&columns, format) {
        (Some(columns), ExportFormat::Csv) => {
            Some(line(columns.iter().map(String::as_str)).map_err(|_| Error::Internal)?)
        }
        _ => None,
    };
    let mut export = Export {
        handle,
        environment,
        id,
        format,
        columns,
        rows,
        header,
        is_over: false,
        _permit: permit,
    };
    let first = export.page().await?;
    let pages = stream::unfold((Some(first), export), |(next, mut export)| async move {
        if let Some(page) = next {
            return Some((Ok::<_, io::Error>(page), (None, export)));
        }
        if export.is_over {
            return None;
        }
        match export.page().await {
            Ok(page) => Some((Ok(page), (None, export))),
            Err(error) => {
                // The client sees that the answer breaks off.
                export.is_over = true;
                Some((Err(io::Error::other(error.to_string())), (None, export)))
            }
        }
    });
    let mut response = Response::new(Body::from_stream(pages));
    let (media, ending) = match format {
        ExportFormat::Csv => ("text/csv; charset=utf-8", "csv"),
        ExportFormat::Jsonl => ("application/x-ndjson", "jsonl"),
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    let name = format!("attachment; filename=\"{id}.{ending}\"");
    headers.extend(HeaderValue::from_str(&name).ok().map(|name| (CONTENT_DISPOSITION, name)));
    Ok(response)
}

fn line<'c>(cells: impl Iterator<Item = &'c str>) -> Result<Bytes, csv::Error> {
    let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
    writer.write_record(cells)?;
    writer.into_inner().map(Bytes::from).map_err(|error| csv::Error::from(error.into_error()))
}

impl Export {
    async fn page(&mut self) -> Result<Bytes, Error> {
        let page = self.handle.batch_rows(self.environment, self.id, &self.rows).await?;
        let mut text = self.header.take().map(Vec::from).unwrap_or_default();
        for detail in &page.rows {
            let row = BatchRowBody::of(detail);
            let input = detail.execution.as_ref().map(|(_, of)| &of.input);
            self.write(&row, input, &mut text)?;
        }
        self.rows.after = page.next;
        self.is_over = page.next.is_none();
        Ok(text.into())
    }

    fn write(
        &self,
        row: &BatchRowBody<'_>,
        input: Option<&Map<String, Value>>,
        text: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let cells = |columns: &[String]| -> Result<Vec<(String, Value)>, Error> {
            let cell = |column: &String| Ok((column.clone(), row.cell(column, input)?));
            columns.iter().map(cell).collect()
        };
        match (&self.columns, self.format) {
            (Some(columns), ExportFormat::Csv) => {
                let cells: Vec<_> =
                    cells(columns)?.iter().map(|(_, cell)| cell_text(cell)).collect();
                let line = line(cells.iter().map(String::as_str)).map_err(|_| Error::Internal)?;
                text.extend_from_slice(&line);
                return Ok(());
            }
            (Some(columns), ExportFormat::Jsonl) => {
                let members: Map<_, _> = cells(columns)?.into_iter().collect();
                serde_json::to_writer(&mut *text, &members).map_err(|_| Error::Internal)?;
            }
            (None, _) => serde_json::to_writer(&mut *text, row).map_err(|_| Error::Internal)?,
        }
        text.push(b'\n');
        Ok(())
    }
}
