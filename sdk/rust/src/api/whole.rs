//! Calls whose answers are texts or bytes, and batches in lines.

use futures_util::Stream;
use futures_util::stream;
use serde_json::Value;

use super::types::{
    BatchesCreateLinesQuery, BatchesExportQuery, CreateTemplateBatch, File, Session, TemplateBatch,
    TemplateBatchEstimate,
};
use super::{Batches, Callboard, Files, Sessions, System, json};
use crate::{Call, Error};

/// The formats of a table of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Comma-separated values, whose first line names the columns.
    Csv,
    /// A JSON object a line.
    Lines,
}

impl Rows {
    const fn kind(self) -> &'static str {
        match self {
            Self::Csv => "text/csv",
            Self::Lines => "application/x-ndjson",
        }
    }
}

impl Batches {
    /// Begins a batch: an execution of a template for each row.
    ///
    /// # Errors
    /// The server refuses it, or cannot be reached.
    pub async fn create(
        &self,
        batch: impl Into<CreateTemplateBatch>,
    ) -> Result<TemplateBatch, Error> {
        let batch: CreateTemplateBatch = batch.into();
        self.cb.one(Call::post(&["batches"]).json(&json(&batch)), true).await
    }

    /// Estimates a batch, and starts nothing.
    ///
    /// # Errors
    /// The server refuses it, or cannot be reached.
    pub async fn dry_run(
        &self,
        batch: impl Into<CreateTemplateBatch>,
    ) -> Result<TemplateBatchEstimate, Error> {
        let batch: CreateTemplateBatch = batch.into();
        let call = Call::post(&["batches"]).query("dryRun", Some(true)).json(&json(&batch));
        self.cb.one(call, true).await
    }

    /// Begins a batch whose rows are a text.
    ///
    /// # Errors
    /// The server refuses it, or cannot be reached.
    pub async fn create_lines(
        &self,
        query: &BatchesCreateLinesQuery,
        format: Rows,
        rows: impl Into<Vec<u8>>,
    ) -> Result<TemplateBatch, Error> {
        let call = Call::post(&["batches"]).pairs(query.pairs()).raw(format.kind(), rows.into());
        self.cb.one(call, true).await
    }

    /// The rows of a batch with their outputs, as a stream of bytes.
    ///
    /// # Errors
    /// The server refuses it, or cannot be reached.
    pub async fn export(
        &self,
        id: &str,
        query: &BatchesExportQuery,
        format: Rows,
    ) -> Result<impl Stream<Item = Result<Vec<u8>, Error>> + Send + use<>, Error> {
        let name = match format {
            Rows::Csv => "csv",
            Rows::Lines => "ndjson",
        };
        let call = Call::get(&["batches", id, "export"]).pairs(query.pairs());
        self.cb.bytes(&call.query("format", Some(name)).accepting(format.kind())).await
    }
}

impl Files {
    /// Uploads a file: bytes of an image or a document. The server recognises the formats that models are shown;
    /// `content_type` counts for others.
    ///
    /// # Errors
    /// The server refuses it, or cannot be reached.
    pub async fn upload(
        &self,
        name: &str,
        content_type: &'static str,
        bytes: impl Into<Vec<u8>>,
    ) -> Result<File, Error> {
        let call = Call::post(&["files"]).query("name", Some(name)).raw(content_type, bytes.into());
        self.cb.one(call, false).await
    }

    /// The bytes of a file, as a stream.
    ///
    /// # Errors
    /// The server refuses it, or cannot be reached.
    pub async fn content(
        &self,
        id: &str,
    ) -> Result<impl Stream<Item = Result<Vec<u8>, Error>> + Send + use<>, Error> {
        self.cb.bytes(&Call::get(&["files", id, "content"]).of_any_type()).await
    }
}

impl System {
    /// The metrics, in the text of Prometheus.
    ///
    /// # Errors
    /// The server refuses it, or cannot be reached.
    pub async fn metrics(&self) -> Result<String, Error> {
        let call = Call::get(&["metrics"]).accepting("text/plain");
        let response = self.cb.client.stream(&call).await?;
        response.text().await.map_err(|error| self.cb.broken(&error))
    }

    /// The server's OpenAPI document.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub async fn openapi(&self) -> Result<Value, Error> {
        let call = Call::get(&["openapi.json"]).accepting("application/json");
        let response = self.cb.client.stream(&call).await?;
        let bytes = response.bytes().await.map_err(|error| self.cb.broken(&error))?;
        serde_json::from_slice(&bytes).map_err(|error| self.cb.unexpected(&error))
    }

    /// A backup of the server's data, as a stream of bytes. Requires the role admin.
    ///
    /// # Errors
    /// The server refuses it, or cannot be reached.
    pub async fn backup(
        &self,
    ) -> Result<impl Stream<Item = Result<Vec<u8>, Error>> + Send + use<>, Error> {
        self.cb.bytes(&Call::post(&["backups"]).bytes()).await
    }
}

impl Sessions {
    /// Takes new tokens for a refresh token, which counts once. A client with a login does this by itself.
    ///
    /// # Errors
    /// The server refuses the token, or cannot be reached.
    pub async fn refresh(&self, refresh_token: &str) -> Result<Session, Error> {
        let body = serde_json::json!({"refreshToken": refresh_token});
        let anonymous = Callboard::from(self.cb.client.anonymous());
        anonymous.one(Call::post(&["auth", "refresh"]).json(&body), false).await
    }
}

impl Callboard {
    /// The bytes of an open answer.
    async fn bytes(
        &self,
        call: &Call<'_>,
    ) -> Result<impl Stream<Item = Result<Vec<u8>, Error>> + Send + use<>, Error> {
        let response = self.client.stream(call).await?;
        Ok(stream::try_unfold((response, self.clone()), |(mut response, cb)| async move {
            let chunk = response.chunk().await.map_err(|error| cb.broken(&error))?;
            Ok(chunk.map(|chunk| (chunk.to_vec(), (response, cb))))
        }))
    }

    pub(super) fn broken(&self, error: &reqwest::Error) -> Error {
        let (server, reason) = (self.client.server().to_string(), error.to_string());
        Error::Unreachable { server, reason }
    }
}
