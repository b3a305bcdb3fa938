//! The runner of batches: it takes each batch on by a turn, and then the next.
//!
//! ```text
//!   validating   the whole file is checked
//!   in_progress  some lines become tasks; once all have, the ends of the tasks are waited for
//!   cancelling   tasks are cancelled ─┐
//!   finalizing   ◀────────────────────┴ the answers are written
//!   over         the rows of the lines are removed
//! ```
//!
//! A turn that fails, or that a crash interrupts, is taken again: the row of a line is written with its task, so a line
//! is submitted once. A panic ends a turn alone.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::Error;
use callboard_domain::chat_batch::{ChatBatch, Cursor, Event, LineFault, Status};
use callboard_domain::id::{ChatBatchId, Environment};
use callboard_runtime::Owner;
use callboard_runtime::tables::chat_batches::{ChatLine, Refusal};
use callboard_wire::chat::batch_lines::{Check, body, custom_id};
use callboard_wire::chat::in_response_format;
use callboard_wire::read::Format;
use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::task::JoinSet;

use super::answers;
use super::input::{Input, InputLine, MAX_LINE};
use crate::http::chat::request;
use crate::http::error::{OpenAiError, row};
use crate::http::extract::Unread;
use crate::http::{App, names};

/// The time between two looks at batches that wait.
const TICK: Duration = Duration::from_secs(1);
/// The batches that are taken on side by side; each holds [`MAX_HELD`] bytes of lines, and one line more.
const TURNS: usize = 2;
/// The lines, and their bytes, from which a turn reads no more.
const WINDOW: usize = 256;
const MAX_HELD: usize = 4 << 20;
/// The lines that are submitted side by side.
const TOGETHER: usize = 64;
/// The longest line that is checked while others wait, in bytes.
const BRIEF: usize = 64 << 10;
/// The longest text of a refusal that is kept, in characters.
const MAX_TEXT: usize = 1_000;

/// Takes batches on, for as long as the server runs.
pub(crate) async fn run(app: Arc<App>) {
    let mut stopping = app.stopping.subscribe();
    // A sender that is gone has stopped.
    let stopped = async move { drop(stopping.wait_for(|stopping| *stopping).await) };
    tokio::select! {
        () = stopped => {}
        () = take_on(app) => {}
    }
}

async fn take_on(app: Arc<App>) {
    loop {
        let open = app.handle.open_chat_batches();
        let is_idle = open.is_empty();
        let turns = stream::iter(open).map(|at| turn(&app, at)).buffer_unordered(TURNS);
        let goes_on = turns.any(std::future::ready).await;
        if goes_on {
            continue;
        }
        tokio::select! {
            () = app.handle.chat_batch_changed() => {}
            () = tokio::time::sleep(TICK), if !is_idle => {}
        }
    }
}

/// Takes a batch on; true if there is more to do at once.
async fn turn(app: &Arc<App>, (environment, id): (Environment, ChatBatchId)) -> bool {
    let turn = BatchRun { app: Arc::clone(app), environment };
    let mut alone = JoinSet::new();
    alone.spawn(async move { turn.take(id).await });
    let ended = tokio::select! {
        ended = alone.join_next() => ended,
        // What it has begun waits with the project; others are to have their turn.
        () = app.handle.begins_to_move(environment) => return false,
    };
    match ended {
        Some(Ok(Ok(goes_on))) => goes_on,
        Some(Ok(Err(error))) => {
            tracing::debug!(batch = %id, %error, "a batch is taken on again later");
            false
        }
        Some(Err(error)) => {
            tracing::error!(batch = %id, %error, "a batch cannot be taken on");
            false
        }
        None => false,
    }
}

struct BatchRun {
    app: Arc<App>,
    environment: Environment,
}

impl BatchRun {
    async fn take(&self, id: ChatBatchId) -> Result<bool, Error> {
        let (batch, _) = self.app.handle.chat_batch(self.environment, id).await?;
        match batch.status {
            Status::Validating => self.validate(&batch).await.map(|()| true),
            Status::InProgress => self.go_on(&batch).await,
            Status::Cancelling | Status::Finalizing => self.finish(&batch).await,
            Status::Failed | Status::Completed | Status::Expired | Status::Cancelled => {
                self.app.handle.clear_chat_batch(self.environment, id).await?;
                Ok(false)
            }
        }
    }

    async fn change(&self, batch: &ChatBatch, event: Event) -> Result<(), Error> {
        match self.app.handle.change_chat_batch(self.environment, batch.id, event).await {
            // A cancellation came first.
            Ok(_) | Err(Error::InvalidState(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Checks every line of the file.
    async fn validate(&self, batch: &ChatBatch) -> Result<(), Error> {
        let handle = &self.app.handle;
        let (mut input, mut check) =
            (Input::of(handle, self.environment, batch, 0).await?, Check::default());
        'pieces: while let Some(lines) = input.next().await? {
            for InputLine { number, text, .. } in lines {
                let outline = match text {
                    None => Err(LineFault {
                        code: "line_too_long".to_owned(),
                        line: None,
                        message: format!("the line has more than {MAX_LINE} bytes"),
                        param: None,
                    }),
                    Some(text) if text.len() <= BRIEF => custom_id(&text),
                    Some(text) => {
                        handle
                            .compute(self.environment, &batch.account, None, move || {
                                custom_id(&text)
                            })
                            .await?
                    }
                };
                check.take(number, outline);
                if check.is_decided() {
                    break 'pieces;
                }
            }
        }
        let event = check.finish().map_or_else(Event::Invalid, Event::Validated);
        self.change(batch, event).await
    }

    /// Submits some lines, or looks whether the tasks have ended; true if there is more to do at once.
    async fn go_on(&self, batch: &ChatBatch) -> Result<bool, Error> {
        let handle = &self.app.handle;
        if handle.now() >= batch.expires_at() {
            return self.change(batch, Event::Expired).await.map(|()| true);
        }
        if batch.is_submitted() {
            if handle.unended_of_chat_batch(self.environment, batch.id).await? > 0 {
                return Ok(false);
            }
            return self.change(batch, Event::TasksEnded).await.map(|()| true);
        }
        let caller = match handle.caller_of_chat_batch(self.environment, batch) {
            Ok(caller) => caller,
            Err(error) => {
                let why = LineFault {
                    code: row(&error).code.to_owned(),
                    line: None,
                    message: format!(
                        "the account {} may no longer submit tasks: {error}",
                        batch.account
                    ),
                    param: None,
                };
                return self.change(batch, Event::Cancel(Some(why))).await.map(|()| true);
            }
        };
        self.submit(batch, &Owner::of(&caller, None)).await
    }

    /// Submits the next lines; true unless some are put off.
    async fn submit(&self, batch: &ChatBatch, owner: &Owner) -> Result<bool, Error> {
        let from = batch.next.offset;
        let mut input = Input::of(&self.app.handle, self.environment, batch, from).await?;
        let (mut lines, mut held) = (Vec::new(), 0);
        while lines.len() < WINDOW && held < MAX_HELD {
            let Some(read) = input.next().await? else { break };
            held += read.iter().filter_map(|line| line.text.as_ref()).map(Vec::len).sum::<usize>();
            lines.extend(read);
        }
        let mut next = batch.next;
        if lines.is_empty() {
            // The file has fewer lines than were counted.
            return Err(Error::Internal);
        }
        let submit = |(number, line): (u32, InputLine)| async move {
            (line.end, self.line(batch, owner, number, line.text).await)
        };
        let numbered = (batch.next.line..).zip(lines);
        let mut submitted = stream::iter(numbered).map(submit).buffered(TOGETHER);
        let (mut refused, mut put_off) = (0, None);
        // All of them are waited for: what is behind one that is put off is found later, by its row.
        while let Some((offset, line)) = submitted.next().await {
            match line {
                Ok(is_refused) if put_off.is_none() => {
                    next = Cursor { line: next.line + 1, offset };
                    refused += u32::from(is_refused);
                }
                Ok(_) => {}
                Err(error) => drop(put_off.get_or_insert(error)),
            }
        }
        if next != batch.next {
            self.change(batch, Event::Submitted(next, refused)).await?;
        }
        put_off.map_or(Ok(true), Err)
    }

    /// Makes the task of a line, or keeps its refusal; true if it was refused.
    async fn line(
        &self,
        batch: &ChatBatch,
        owner: &Owner,
        number: u32,
        text: Option<Vec<u8>>,
    ) -> Result<bool, Error> {
        let (handle, at) = (&self.app.handle, (batch.id, number));
        if let Some(line) = handle.chat_line(self.environment, at).await? {
            return Ok(line.refusal.is_some());
        }
        let text = text.ok_or(Error::Internal)?;
        let custom_id = custom_id(&text).map_err(|_| Error::Internal)?;
        let error = match self.task(batch, owner, at, (&custom_id, text)).await {
            Ok(()) => return Ok(false),
            Err(error) if row(&error).retryable => return Err(error),
            Err(error) => error,
        };
        let mut body = json!(OpenAiError(&error));
        for member in ["message", "param"] {
            let kept = body["error"][member].as_str().map(|it| it.chars().take(MAX_TEXT).collect());
            if let Some(kept) = kept {
                body["error"][member] = serde_json::Value::String(kept);
            }
        }
        let status = row(&error).status.as_u16();
        let refusal = Some(Refusal { status, body: body.to_string() });
        let line = ChatLine { custom_id, refusal };
        handle.refuse_chat_line(self.environment, at, &line).await?;
        Ok(true)
    }

    /// Submits the task of a line, as `POST /v1/chat/completions` does.
    async fn task(
        &self,
        batch: &ChatBatch,
        owner: &Owner,
        at: (ChatBatchId, u32),
        (custom_id, text): (&str, Vec<u8>),
    ) -> Result<(), Error> {
        let app = &self.app;
        let sender = batch.account.parse().ok().map(|account| (account, self.environment));
        let unread = Unread { bytes: text.into(), format: Format::Json };
        let reading = app.read(sender, unread, |_, line| body(line)).await?;
        let chat = names::finish(app, Some(self.environment), reading).await?;
        if chat.stream {
            let says = "stream must be false: the answers of a batch are read from its files";
            return Err(Error::invalid("stream", callboard_domain::Rule::Unknown, says));
        }
        let given = (batch.order.queue.clone(), batch.order.priority);
        let request = request(app, owner, chat, Some(custom_id), given).await?;
        let made = app.handle.submit_chat_line(owner, at, custom_id.to_owned(), request).await;
        made.map_err(in_response_format)
    }

    /// Writes the answers once every task has ended, which it sees to if the batch was stopped.
    async fn finish(&self, batch: &ChatBatch) -> Result<bool, Error> {
        let (handle, environment) = (&self.app.handle, self.environment);
        let mut left = handle.unended_of_chat_batch(environment, batch.id).await?;
        while left > 0 {
            handle.cancel_tasks_of_chat_batch(environment, batch).await?;
            let before = left;
            left = handle.unended_of_chat_batch(environment, batch.id).await?;
            if left >= before {
                return Ok(false);
            }
        }
        let written = answers::write(&self.app, environment, batch).await?;
        self.change(batch, Event::Written(written)).await.map(|()| true)
    }
}
