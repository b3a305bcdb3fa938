//! The search of the texts of tasks on the wire.

use callboard_domain::id::{ExecutionId, TaskId};
use callboard_domain::search::texts::{Piece, Wanted};
use callboard_domain::{Error, Rule, Timestamp};
use callboard_runtime::read::search::{Asked, Found, Hit, Place};
use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::common::{Iso, MAX_SEARCH, Text};
use crate::read::rule::{self, Parse};
use crate::request;

/// The hits of an answer, unless said otherwise, and at most.
const USUAL_HITS: usize = 20;
const MOST_HITS: u8 = 50;

/// The milliseconds of a day.
const DAY_MS: u64 = 24 * 3_600 * 1_000;

request! {
    /// The words to look for in the texts of tasks.
    #[derive(Debug, Clone)]
    pub struct SearchTexts as "SearchTexts" {
        /// Beginnings of words, in any case: the texts of a task have all of them.
        q: Wanted = required("q", words()),
        /// task for tasks on their own, step for those of executions; by default both.
        kinds: Option<Vec<Kind>> = optional("kinds", rule::commas(1..=2, rule::one_of(&Kind::ALL, Kind::as_str))),
        /// The days back that are searched; by default as many as the setting search.days says, which is also the most.
        days: Option<u16> = optional("days", rule::whole(1..=3_650)),
        /// The most hits; by default 20.
        limit: Option<usize> = optional("limit", rule::whole(1..=MOST_HITS).map(usize::from)),
        /// `next` of the answer that this one goes on from.
        cursor: Option<TaskId> = optional("cursor", cursor()),
    }
}

fn words() -> impl Parse<Wanted> {
    rule::text(rule::characters(1..=MAX_SEARCH)).then(|text| {
        let says = "must have a letter or a digit";
        Wanted::of(&text).ok_or_else(|| Error::invalid("q", Rule::Pattern, says))
    })
}

fn cursor() -> impl Parse<TaskId> {
    rule::text(rule::characters(0..=TaskId::LENGTH)).then(|text| {
        let says = "must be the next of an earlier answer";
        text.parse().map_err(|_| Error::invalid("cursor", Rule::Format, says))
    })
}

/// The kind of a hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A task on its own.
    Task,
    /// A task of an execution.
    Step,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Task, Self::Step];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Step => "step",
        }
    }
}

impl SearchTexts {
    /// The question at an instant, on a server that searches the last `most` days.
    ///
    /// # Errors
    /// [`Error::InvalidState`] if it searches none, [`Error::Invalid`] for more days than it searches.
    pub fn asked(self, now: Timestamp, most: u16) -> Result<Asked, Error> {
        if most == 0 {
            let says = "the search of texts is turned off: search.days is 0";
            return Err(Error::InvalidState(says.to_owned()));
        }
        let days = self.days.unwrap_or(most);
        if days > most {
            let says = format!("must be at most search.days, which is {most}");
            return Err(Error::invalid("days", Rule::Range, says));
        }
        let kinds = self.kinds.unwrap_or_default();
        let is_asked = |kind| kinds.is_empty() || kinds.contains(&kind);
        let of_executions = match (is_asked(Kind::Task), is_asked(Kind::Step)) {
            (true, false) => Some(false),
            (false, true) => Some(true),
            (true, true) | (false, false) => None,
        };
        Ok(Asked {
            wanted: self.q,
            of_executions,
            since: Timestamp::from_millis(now.as_millis().saturating_sub(u64::from(days) * DAY_MS)),
            before: self.cursor,
            limit: self.limit.unwrap_or(USUAL_HITS),
        })
    }
}

/// The answer to a search of texts.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchBody<'a> {
    /// The hits, the newest task first.
    hits: Vec<HitBody<'a>>,
    /// The time back to which all texts were searched.
    searched_to: Iso,
    /// The cursor of the next part; absent if all was searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    next: Option<Text<TaskId>>,
}

/// A task whose texts have the words.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HitBody<'a> {
    /// task, or step for a task of an execution.
    kind: &'static str,
    /// The id of the task.
    #[schema(value_type = String)]
    id: Text<TaskId>,
    /// The title of the task.
    title: Option<&'a str>,
    /// The status of the task.
    status: &'static str,
    /// The execution that the task is of.
    #[schema(value_type = Option<String>)]
    execution_id: Option<Text<ExecutionId>>,
    /// The step that the task is.
    step_id: Option<&'a str>,
    /// The text that is shown: prompt, systemPrompt, messages, context, args, output or thinking.
    r#where: &'static str,
    /// The text around the words, at most 160 characters, in pieces.
    snippet: Vec<PieceBody<'a>>,
    /// The time of the task's creation.
    created_at: Iso,
}

/// A piece of a snippet.
#[derive(Debug, Serialize, ToSchema)]
pub struct PieceBody<'a> {
    /// The text.
    text: &'a str,
    /// True for the beginning of a word that was asked for.
    r#match: bool,
}

impl<'a> SearchBody<'a> {
    /// The answer to a search.
    #[must_use]
    pub fn of(found: &'a Found) -> Self {
        Self {
            hits: found.hits.iter().map(HitBody::of).collect(),
            searched_to: Iso(found.searched_to),
            next: found.next.map(Text),
        }
    }
}

impl<'a> HitBody<'a> {
    fn of(Hit { task, place, snippet }: &'a Hit) -> Self {
        let step = task.spec.origin.step.as_ref();
        let piece = |Piece { text, is_match }: &'a Piece| PieceBody { text, r#match: *is_match };
        Self {
            kind: if step.is_some() { Kind::Step } else { Kind::Task }.as_str(),
            id: Text(task.spec.id),
            title: task.spec.title(),
            status: task.status().as_str(),
            execution_id: step.map(|(execution, _)| Text(*execution)),
            step_id: step.map(|(_, step)| step.as_str()),
            r#where: name(*place),
            snippet: snippet.iter().map(piece).collect(),
            created_at: Iso(task.spec.id.created_at()),
        }
    }
}

/// The member of a task that a text is.
const fn name(place: Place) -> &'static str {
    match place {
        Place::Prompt => "prompt",
        Place::SystemPrompt => "systemPrompt",
        Place::Messages => "messages",
        Place::Context => "context",
        Place::Args => "args",
        Place::Output => "output",
        Place::Thinking => "thinking",
    }
}
