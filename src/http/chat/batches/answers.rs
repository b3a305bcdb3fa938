//! The files of answers, a line for each line of the input, in the same order.

use std::sync::Arc;

use bytes::Bytes;
use callboard_domain::Error;
use callboard_domain::access::Role;
use callboard_domain::chat_batch::{Answers, ChatBatch, Counts, Stop, task};
use callboard_domain::file::Purpose;
use callboard_domain::id::{Environment, FileId, TaskId};
use callboard_domain::task::Status;
use callboard_runtime::Owner;
use callboard_runtime::handle::{FileUpload, NewFile};
use callboard_runtime::read::TaskDetail;
use callboard_runtime::tables::chat_batches::ChatLine;
use callboard_wire::chat::ChatCompletionBody;
use callboard_wire::chat::batch_lines::{AnswerLine, custom_id};
use futures_util::{StreamExt, stream};
use serde_json::Value;

use super::input::Input;
use crate::http::App;
use crate::http::chat::{End, end_body};

/// The answers that are read side by side; each may have several megabytes.
const TOGETHER: usize = 8;

/// Writes the answers of a batch whose tasks have all ended. What an earlier attempt wrote goes after a day.
pub(super) async fn write(
    app: &Arc<App>,
    environment: Environment,
    batch: &ChatBatch,
) -> Result<Answers, Error> {
    let mut files = Files { output: File::new("output"), errors: File::new("error") };
    let writing = Writing { app, environment, batch };
    let mut from = 0;
    loop {
        let lines = app.handle.chat_lines(environment, (batch.id, from)).await?;
        let Some((last, _)) = lines.last() else { break };
        from = last + 1;
        let mut answers = stream::iter(lines).map(|line| writing.answer(line)).buffered(TOGETHER);
        while let Some(answer) = answers.next().await {
            files.take(&writing, answer?).await?;
        }
    }
    if let Some(stop) = batch.stop.filter(|_| !batch.is_submitted()) {
        writing.rest(stop, &mut files).await?;
    }
    let Files { output, errors } = files;
    let counts = Counts { completed: output.lines, failed: errors.lines };
    Ok(Answers { output: output.finish().await?, errors: errors.finish().await?, counts })
}

/// The answer to a line, as it is written.
enum Answered {
    Output(Bytes),
    Error(Bytes),
}

struct Writing<'a> {
    app: &'a Arc<App>,
    environment: Environment,
    batch: &'a ChatBatch,
}

impl Writing<'_> {
    /// The answer to a line that is durable.
    async fn answer(&self, (number, line): (u32, ChatLine)) -> Result<Answered, Error> {
        let (id, custom_id) = (task(self.batch.id, number), line.custom_id.as_str());
        if let Some(refusal) = &line.refusal {
            let body: Value = serde_json::from_str(&refusal.body).map_err(|_| Error::Internal)?;
            let answer = AnswerLine::answered(custom_id, id, refusal.status, body);
            return Ok(Answered::Error(answer.to_bytes()?.into()));
        }
        match self.app.handle.task(self.environment, id).await {
            Ok(detail) => self.of_task(custom_id, id, &detail),
            Err(Error::NotFound { .. }) => {
                Ok(Answered::Error(AnswerLine::removed(custom_id, id).to_bytes()?.into()))
            }
            Err(error) => Err(error),
        }
    }

    fn of_task(
        &self,
        custom_id: &str,
        id: TaskId,
        TaskDetail { task, output, .. }: &TaskDetail,
    ) -> Result<Answered, Error> {
        let error = match (task.status(), self.batch.stop) {
            _ if task.erased_at.is_some() => AnswerLine::removed(custom_id, id).to_bytes()?,
            (Status::Completed, _) => {
                let body = ChatCompletionBody::of(task, output.as_deref().unwrap_or_default());
                let answer = AnswerLine::answered(custom_id, id, 200, body);
                return Ok(Answered::Output(answer.to_bytes()?.into()));
            }
            (Status::Cancelled, Some(stop)) => {
                AnswerLine::stopped(custom_id, id, stop).to_bytes()?
            }
            (
                Status::Failed
                | Status::Rejected
                | Status::Cancelled
                | Status::Pending
                | Status::Running,
                _,
            ) => {
                let body = end_body(id, &End::Failed(Box::new(task.clone())));
                AnswerLine::answered(custom_id, id, 422, body).to_bytes()?
            }
        };
        Ok(Answered::Error(error.into()))
    }

    /// Writes the lines that were not submitted before the batch was stopped.
    async fn rest(&self, stop: Stop, files: &mut Files) -> Result<(), Error> {
        let Self { app, environment, batch } = self;
        let from = batch.next.offset;
        let mut input = Input::of(&app.handle, *environment, batch, from).await?;
        let mut number = batch.next.line;
        while let Some(lines) = input.next().await? {
            for line in lines {
                let at = (batch.id, number);
                let id = task(batch.id, number);
                number += 1;
                // Behind the place up to which all are durable, some are.
                if app.handle.chat_line(*environment, at).await?.is_some() {
                    continue;
                }
                let custom_id = line.text.and_then(|text| custom_id(&text).ok());
                let custom_id = custom_id.ok_or(Error::Internal)?;
                let answer = AnswerLine::stopped(&custom_id, id, stop).to_bytes()?;
                files.take(self, Answered::Error(answer.into())).await?;
            }
        }
        Ok(())
    }

    /// The owner of the files.
    fn owner(&self) -> Owner {
        Owner {
            id: self.batch.account.clone(),
            environment: self.environment,
            role: Role::Operator,
            trace: None,
            bound: Arc::default(),
        }
    }
}

struct Files {
    output: File,
    errors: File,
}

impl Files {
    async fn take(&mut self, writing: &Writing<'_>, answer: Answered) -> Result<(), Error> {
        match answer {
            Answered::Output(line) => self.output.write(writing, &line).await,
            Answered::Error(line) => self.errors.write(writing, &line).await,
        }
    }
}

/// A file that begins with its first line.
struct File {
    name: &'static str,
    upload: Option<FileUpload>,
    lines: u32,
}

impl File {
    const fn new(name: &'static str) -> Self {
        Self { name, upload: None, lines: 0 }
    }

    fn begin(&self, writing: &Writing<'_>) -> Result<FileUpload, Error> {
        let new = NewFile {
            name: Some(format!("{}_{}.jsonl", writing.batch.id, self.name)),
            media_type: Some("application/jsonl".to_owned()),
            purpose: Some(Purpose::BatchOutput),
            kept: None,
        };
        writing.app.handle.begin_file(&writing.owner(), new)
    }

    async fn write(&mut self, writing: &Writing<'_>, line: &[u8]) -> Result<(), Error> {
        let mut upload = match self.upload.take() {
            Some(upload) => upload,
            None => self.begin(writing)?,
        };
        upload.write(line).await?;
        self.upload = Some(upload);
        self.lines += 1;
        Ok(())
    }

    async fn finish(self) -> Result<Option<FileId>, Error> {
        match self.upload {
            Some(upload) => Ok(Some(upload.finish(None).await?.id)),
            None => Ok(None),
        }
    }
}
