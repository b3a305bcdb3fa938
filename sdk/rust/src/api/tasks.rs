//! Tasks: a prompt, its answer, and its answer piece by piece.

use futures_util::stream::{self, BoxStream, StreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::live::Follow;
use super::text::Text;
use super::types::{CreateTask, Task};
use super::{Live, Tasks, json};
use crate::{Call, Error};

/// The pieces of an output.
pub type Pieces = BoxStream<'static, Result<String, Error>>;

impl From<&str> for CreateTask {
    fn from(prompt: &str) -> Self {
        Self::new().prompt(prompt)
    }
}

impl From<String> for CreateTask {
    fn from(prompt: String) -> Self {
        Self::new().prompt(prompt)
    }
}

impl Tasks {
    /// Submits a prompt, or the call of a function. When it returns, the task is on the server's disk.
    ///
    /// # Errors
    /// The server refuses it, or cannot be reached.
    pub async fn submit(&self, task: impl Into<CreateTask>) -> Result<Live<Task>, Error> {
        let task: CreateTask = task.into();
        self.cb.live(Call::post(&["tasks"]).json(&json(&task)), true).await
    }

    /// Submits a task, waits for it, and returns its output.
    ///
    /// # Errors
    /// [`Error::Ended`], if it has none; the server refuses it, or was away for too long.
    pub async fn run(&self, task: impl Into<CreateTask>) -> Result<String, Error> {
        let task = self.submit(task).await?.wait().await?;
        Ok(task.into_inner().output.unwrap_or_default())
    }

    /// Submits a task whose output must fit the JSON Schema, waits for it, and reads its output as a `T`.
    ///
    /// # Errors
    /// As [`Tasks::run`], and [`Error::OutputMismatch`] for an output that is no `T`.
    pub async fn run_as<T: DeserializeOwned>(
        &self,
        task: impl Into<CreateTask>,
        schema: Value,
    ) -> Result<T, Error> {
        let mut task: CreateTask = task.into();
        task.output_schema = Some(schema);
        self.submit(task).await?.wait().await?.value()
    }

    /// As [`Tasks::run_as`], with the schema of the type.
    ///
    /// # Errors
    /// As [`Tasks::run_as`].
    #[cfg(feature = "schemars")]
    pub async fn run_typed<T: DeserializeOwned + schemars::JsonSchema>(
        &self,
        task: impl Into<CreateTask>,
    ) -> Result<T, Error> {
        self.run_as(task, schemars::schema_for!(T).to_value()).await
    }

    /// Submits the call of a function, waits for it, and reads its value. A connected worker must run the function,
    /// or the task waits for one.
    ///
    /// # Errors
    /// As [`Tasks::run_as`]; [`Error::InvalidArgument`], if the args are no JSON.
    pub async fn run_function<T: DeserializeOwned>(
        &self,
        function: impl Into<String>,
        args: impl Serialize,
    ) -> Result<T, Error> {
        let args = serde_json::to_value(args);
        let args = args.map_err(|error| Error::InvalidArgument(format!("the args: {error}")))?;
        let task = CreateTask::new().function(function).args(args);
        self.submit(task).await?.wait().await?.value()
    }

    /// Submits a task at the first piece, and yields the pieces of its output ([`Live::text`]).
    pub fn stream(&self, task: impl Into<CreateTask>) -> Pieces {
        let (tasks, task) = (self.clone(), task.into());
        let begun = async move {
            match tasks.submit(task).await {
                Ok(task) => task.text(),
                Err(error) => stream::once(async { Err(error) }).boxed(),
            }
        };
        stream::once(begun).flatten().boxed()
    }

    /// Streams the output of a task that was submitted before ([`Live::text`]).
    #[must_use]
    pub fn text(&self, id: &str) -> Pieces {
        text(Follow::new::<Task>(&self.cb, id), id)
    }
}

impl Live<Task> {
    /// The output; empty if there is none.
    #[must_use]
    pub fn output_text(&self) -> &str {
        self.output.as_deref().unwrap_or_default()
    }

    /// The output as a value, such as that of a function.
    ///
    /// # Errors
    /// [`Error::OutputMismatch`], if it is no `T`.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(self.output_text())
            .map_err(|error| Error::OutputMismatch(error.to_string()))
    }

    /// The pieces of the output, as the model writes them, over broken connections and restarts of the server;
    /// together they are the output.
    ///
    /// Errors of the stream: [`Error::StreamReset`], if the pieces are void, because another attempt wrote another
    /// text; [`Error::Ended`], if the task has no output.
    #[must_use]
    pub fn text(&self) -> Pieces {
        text(Follow::new::<Task>(&self.cb, &self.id), &self.id)
    }
}

fn text(events: Follow, id: &str) -> Pieces {
    let state = (events, Text::default(), id.to_owned());
    let pieces = stream::try_unfold(state, |(mut events, mut text, id)| async move {
        while let Some(event) = events.next().await? {
            if event.name == "end" {
                events.ended::<Task>(&event)?;
            }
            let fresh = text.news(&event).ok_or_else(|| Error::StreamReset { task: id.clone() })?;
            if !fresh.is_empty() {
                return Ok(Some((fresh, (events, text, id))));
            }
        }
        Ok(None)
    });
    pieces.boxed()
}
