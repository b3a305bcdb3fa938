//! The search of the texts of tasks: no index holds their words, so the texts are read, the newest tasks first.
//!
//! ```text
//!   list of tasks ─▶ a lot of identifiers ─▶ their rows, as they are stored ─▶ a thread of long computations
//!       ▲                                                                          │ tasks that may have the words
//!       └── until enough are found, or the budget is used up ◀── hits ◀── read as GET /api/tasks/:id reads them
//! ```
//!
//! Only the last read decides: a hit is in a text that the task shows at this moment. Deliberately absent: words in
//! memory or in rows. Nothing is written for a search, and an erasure has nothing of it to erase.

use std::collections::HashMap;
use std::time::Duration;

use callboard_domain::Timestamp;
use callboard_domain::error::Error;
use callboard_domain::id::{Environment, TaskId, first_at};
use callboard_domain::search::texts::{Piece, Wanted};
use callboard_domain::task::Task;
use callboard_store::table::StoredText;
use callboard_store::{Filter, Order, Query, Row};
use tokio::time::Instant;

use super::{TaskDetail, unreadable};
use crate::node::Node;
use crate::tables::{self, ENDED_TASKS, Ended, TEXTS};

/// The tasks whose rows are read together.
const LOT: usize = if cfg!(test) { 3 } else { 128 };
/// The rows of texts that are read together, in about a millisecond: 1 MB at most, but for a longer text.
const ROWS: usize = if cfg!(test) { 4 } else { 256 };
/// The stored bytes that a search reads.
const BYTES: usize = if cfg!(test) { 20_000 } else { 64 << 20 };
/// The time that a search takes, besides its last lot.
const TIME: Duration = Duration::from_secs(1);

/// The question of a search.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The words that a task must have.
    pub wanted: Wanted,
    /// Only tasks of executions, or only others.
    pub of_executions: Option<bool>,
    /// Only tasks that were created at this instant or later.
    pub since: Timestamp,
    /// Only tasks before this one: where an earlier search has ended.
    pub before: Option<TaskId>,
    /// The most hits.
    pub limit: usize,
}

/// A text of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The prompt.
    Prompt,
    /// The system prompt.
    SystemPrompt,
    /// An earlier turn.
    Messages,
    /// The context.
    Context,
    /// The args of a call of a function.
    Args,
    /// The output.
    Output,
    /// The model's thinking.
    Thinking,
}

/// A task with the words.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The task.
    pub task: Task,
    /// The text with the most of the words.
    pub place: Place,
    /// The text around them.
    pub snippet: Vec<Piece>,
}

/// The answer to a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The hits, the newest task first.
    pub hits: Vec<Hit>,
    /// Everything that was created at this instant or later was searched.
    pub searched_to: Timestamp,
    /// The task before which the next search begins; `None` if nothing is left.
    pub next: Option<TaskId>,
}

/// Searches for an account. `may_read` tells the tasks that the caller may read.
pub(crate) async fn search(
    node: &Node,
    environment: Environment,
    account: &str,
    asked: &Asked,
    may_read: impl Fn(TaskId) -> bool,
) -> Result<Found, Error> {
    let (began, mut bytes, mut hits) = (Instant::now(), 0, Vec::new());
    let mut before = asked.before.map(TaskId::as_u128);
    loop {
        let lot = lot(node, environment, asked.since, before).await?;
        let Some(last) = lot.last().copied() else {
            return Ok(Found { hits, searched_to: asked.since, next: None });
        };
        let candidates = candidates(node, environment, account, asked, &lot, &mut bytes).await?;
        for id in lot.into_iter().map(TaskId::from_u128) {
            if candidates.get(&id.as_u128()) != Some(&asked.wanted.all()) || !may_read(id) {
                continue;
            }
            let task = super::task(node.store(), environment, id).await;
            let Some(detail) = task.map_err(|error| unreadable(&error))? else { continue };
            hits.extend(hit(detail, asked));
            if hits.len() >= asked.limit {
                return Ok(Found { hits, searched_to: id.created_at(), next: Some(id) });
            }
        }
        if bytes >= BYTES || began.elapsed() >= TIME {
            let next = TaskId::from_u128(last);
            return Ok(Found { hits, searched_to: next.created_at(), next: Some(next) });
        }
        before = Some(last);
    }
}

/// The next tasks to search, the newest first.
async fn lot(
    node: &Node,
    environment: Environment,
    since: Timestamp,
    before: Option<u128>,
) -> Result<Vec<u128>, Error> {
    let query = Query {
        list: tables::task_list(environment),
        filters: vec![Filter::Documents { from: Some(first_at(since)), to: before }],
        order: Order::Document,
        descending: true,
        offset: 0,
        limit: LOT,
    };
    let page = node.store().query(&query).await.map_err(|error| unreadable(&error))?;
    Ok(page.documents)
}

/// The words that the rows of each item between the first and the last task of a lot may have.
async fn candidates(
    node: &Node,
    environment: Environment,
    account: &str,
    asked: &Asked,
    lot: &[u128],
    bytes: &mut usize,
) -> Result<HashMap<u128, u8>, Error> {
    let (Some(newest), Some(oldest)) = (lot.first(), lot.last()) else { return Ok(HashMap::new()) };
    let (store, number) = (node.store(), environment.number());
    let ended = ENDED_TASKS.stored_range(store, number, oldest, newest).await;
    let mut ended = ended.map_err(|error| unreadable(&error))?;
    let (mut found, mut from) = (HashMap::new(), Some((*oldest, 0)));
    while let Some(next) = from {
        let page = TEXTS.page(store, number, next, newest.saturating_add(1), ROWS).await;
        let (texts, next) = page.map_err(|error| unreadable(&error))?;
        from = next;
        let rows = std::mem::take(&mut ended);
        let length = texts.iter().map(StoredText::length).sum::<usize>()
            + rows.iter().map(|(_, row)| row.len()).sum::<usize>();
        *bytes += length;
        let wanted = asked.wanted.clone();
        let look = move || words_of(&wanted, &texts, rows);
        for (item, words) in
            node.kernel.compute.ask(environment, account, Some(length), look).await?
        {
            *found.entry(item).or_default() |= words;
        }
    }
    Ok(found)
}

/// The words that stored texts and the short outputs of ended tasks may have, by item.
fn words_of(wanted: &Wanted, texts: &[StoredText], ended: Vec<Row>) -> Vec<(u128, u8)> {
    // A row that cannot be read was written meanwhile, or is damaged: the read of the whole task says so.
    let in_texts = texts.iter().map(|text| {
        let words = TEXTS.read_stored(text).map_or(wanted.all(), |text| wanted.may_have(&text));
        (text.document(), words)
    });
    let mut found: Vec<_> = in_texts.collect();
    let ended = ended.into_iter().filter_map(|row| ENDED_TASKS.decoded(vec![row]).ok()).flatten();
    found.extend(ended.filter_map(|(id, Ended(_, output))| Some((id, wanted.may_have(&output?)))));
    found.retain(|(_, words)| *words != 0);
    found
}

/// The hit in a task, if it has one.
fn hit(detail: TaskDetail, asked: &Asked) -> Option<Hit> {
    let TaskDetail { task, inputs, output, thinking, .. } = detail;
    if asked.of_executions.is_some_and(|asked| asked != task.spec.origin.step.is_some()) {
        return None;
    }
    let json = |map: Option<&_>| map.and_then(|map| serde_json::to_string(map).ok());
    let (context, args) = (json(inputs.context.as_ref()), json(inputs.args.as_deref()));
    let texts = [
        (Place::Output, output.as_deref()),
        (Place::Prompt, Some(inputs.prompt.as_str())),
        (Place::SystemPrompt, inputs.system_prompt.as_deref()),
        (Place::Context, context.as_deref()),
        (Place::Args, args.as_deref()),
        (Place::Thinking, thinking.as_deref()),
    ];
    let messages = inputs.messages.iter().flat_map(|message| message.content.texts());
    let messages = messages.map(|text| (Place::Messages, Some(text.as_str())));
    let texts = texts.into_iter().chain(messages);
    let texts = texts.filter_map(|(place, text)| Some((place, text?)));
    let (place, snippet) = asked.wanted.find(texts)?;
    Some(Hit { task, place, snippet })
}
