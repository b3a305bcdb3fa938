//! The import of any number of tasks.

use std::collections::VecDeque;

use futures_util::Stream;
use futures_util::stream;
use serde_json::Value;

use super::types::CreateTask;
use super::{Callboard, Outage, Tasks, json, random_key};
use crate::{ApiError, Call, Error};

const KIND: &str = "application/x-ndjson";
/// A load of this size is answered in the buffers of a connection: the library reads only when all is sent.
const LOAD_LINES: usize = 1000;
const LOAD_BYTES: usize = 1 << 20;

/// The result of a task of an import.
#[derive(Debug)]
pub struct Imported {
    /// The place of the task among those that were given, from 0.
    pub index: usize,
    /// The identifier of the task, which is on the server's disk; or the reason why it was refused.
    pub result: Result<String, ApiError>,
}

impl Tasks {
    /// Submits any number of tasks, read as they are needed, and yields the result of each, in their order.
    ///
    /// A refused task stops no other. Each has an idempotency key, so tasks whose answer did not arrive are sent again,
    /// for as long as the client's patience lasts. With [`Callboard::keyed`], the keys are that one with the places of
    /// the tasks, such as `load-7-0`: the same import by another process submits nothing twice.
    pub fn import_lines<I>(
        &self,
        tasks: I,
    ) -> impl Stream<Item = Result<Imported, Error>> + Send + Unpin + use<I>
    where
        I: IntoIterator<Item: Into<CreateTask>, IntoIter: Send + 'static>,
    {
        let state = Import {
            cb: self.cb.clone(),
            tasks: tasks.into_iter(),
            next: 0,
            ready: VecDeque::new(),
        };
        Box::pin(stream::try_unfold(state, |mut state| async move {
            Ok(state.next().await?.map(|imported| (imported, state)))
        }))
    }
}

struct Import<I> {
    cb: Callboard,
    tasks: I,
    /// The place of the next task.
    next: usize,
    ready: VecDeque<Imported>,
}

impl<T: Into<CreateTask>, I: Iterator<Item = T>> Import<I> {
    async fn next(&mut self) -> Result<Option<Imported>, Error> {
        if self.ready.is_empty() {
            let load = self.load();
            self.ready = imported(&self.cb, load).await?.into();
        }
        Ok(self.ready.pop_front())
    }

    /// The next lines, with the places of their tasks.
    fn load(&mut self) -> Vec<(usize, Vec<u8>)> {
        let (mut load, mut bytes) = (Vec::new(), 0);
        while load.len() < LOAD_LINES && bytes < LOAD_BYTES {
            let Some(task) = self.tasks.next() else { break };
            let mut line = json(&task.into());
            if let Value::Object(members) = &mut line {
                let key = self.cb.key.as_ref();
                let key = key.map_or_else(random_key, |key| format!("{key}-{}", self.next));
                members.insert("idempotencyKey".into(), key.into());
            }
            let mut line = line.to_string().into_bytes();
            line.push(b'\n');
            bytes += line.len();
            load.push((self.next, line));
            self.next += 1;
        }
        load
    }
}

/// Sends the lines until each has its answer.
async fn imported(cb: &Callboard, mut left: Vec<(usize, Vec<u8>)>) -> Result<Vec<Imported>, Error> {
    let mut done = Vec::with_capacity(left.len());
    let mut outage = Outage::new(cb.patience);
    while !left.is_empty() {
        let before = done.len();
        let ended = send(cb, &left, &mut done).await;
        if done.len() > before {
            outage.over();
        }
        left.retain(|(index, _)| !done.iter().any(|it: &Imported| it.index == *index));
        if !left.is_empty() {
            outage.pause(ended).await?;
        }
    }
    done.sort_by_key(|it| it.index);
    Ok(done)
}

/// Sends the lines once; the reason why some have no answer yet.
async fn send(cb: &Callboard, left: &[(usize, Vec<u8>)], done: &mut Vec<Imported>) -> Error {
    let body = left.iter().flat_map(|(_, line)| line).copied().collect();
    let call = Call::post(&["tasks", "bulk"]).raw(KIND, body).accepting(KIND).at_once();
    let mut response = match cb.client.stream(&call).await {
        Ok(response) => response,
        Err(error) => return error,
    };
    let server = cb.client.server().to_string();
    let mut failure =
        Error::Unreachable { server, reason: "it has not answered every line".to_owned() };
    let mut rest = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => rest.extend_from_slice(&chunk),
            Ok(None) => return failure,
            Err(error) => return cb.broken(&error),
        }
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let Ok(answer) = serde_json::from_slice::<Value>(&line) else { continue };
            let refusal = answer.get("error").map(|_| ApiError::read(400, &answer));
            let place = answer["line"].as_u64().and_then(|line| usize::try_from(line).ok());
            let place = place.and_then(|line| left.get(line.checked_sub(1)?));
            match (place, refusal) {
                (Some((index, _)), None) => {
                    let id = answer["id"].as_str().unwrap_or_default().to_owned();
                    done.push(Imported { index: *index, result: Ok(id) });
                }
                (Some((index, _)), Some(refusal)) if !refusal.retryable => {
                    done.push(Imported { index: *index, result: Err(refusal) });
                }
                (_, Some(refusal)) => {
                    let status = if refusal.retryable { 503 } else { refusal.status };
                    failure = Error::Api(Box::new(ApiError { status, ..refusal }));
                }
                (None, None) => {}
            }
        }
    }
}
