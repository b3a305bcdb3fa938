//! What an execution looks like while it runs: a board, lines, events, or nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, stderr, stdout};
use std::time::Duration;

use callboard_client::Event;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::board::Board;
use super::event::{is_end, step as step_of};
use super::step::{Step, WAITS, steps, summary, waiting};
use crate::failure::Failure;
use crate::output::{Format, escaped, note, print};

/// What an execution looks like while it runs.
#[derive(Debug)]
pub(crate) struct View {
    style: Style,
    last: Value,
    /// Steps that wait for approval, say the events.
    held: BTreeSet<String>,
    /// What was shown of each step.
    shown: BTreeMap<String, String>,
    told_waiting: u64,
    told_end: bool,
}

#[derive(Debug)]
enum Style {
    Board(Board),
    Lines,
    Notes,
    Events,
    Nothing,
}

impl View {
    /// For whoever asked to see it: on a terminal a board, else a line for every change, the
    /// events for `jsonl`; for `json` the end alone.
    pub(crate) fn watched(format: Format) -> Self {
        Self::new(match format {
            // The board is drawn on standard error; it takes both to be sure that it is seen.
            Format::Table if stdout().is_terminal() && stderr().is_terminal() => {
                Style::Board(Board::default())
            }
            Format::Table => Style::Lines,
            Format::Jsonl => Style::Events,
            Format::Json => Style::Nothing,
        })
    }

    /// For whoever waits for the end: the progress is beside the matter, on standard error.
    pub(crate) fn awaited() -> Self {
        let seen = stderr().is_terminal();
        Self::new(if seen { Style::Board(Board::default()) } else { Style::Notes })
    }

    fn new(style: Style) -> Self {
        Self {
            style,
            last: Value::Null,
            held: BTreeSet::new(),
            shown: BTreeMap::new(),
            told_waiting: 0,
            told_end: false,
        }
    }

    /// How often it changes by itself, because time passes.
    pub(super) const fn tick(&self) -> Option<Duration> {
        match self.style {
            Style::Board(_) => Some(Duration::from_secs(1)),
            Style::Lines | Style::Notes | Style::Events | Style::Nothing => None,
        }
    }

    /// Whether the event of the end is wanted and was not shown.
    pub(super) const fn lacks_the_end(&self) -> bool {
        matches!(self.style, Style::Events) && !self.told_end
    }

    /// Something happened.
    pub(super) fn event(&mut self, event: &Event) -> Result<(), Failure> {
        if let Some(step) = step_of(event) {
            if event.name == "step.awaiting_approval" {
                self.held.insert(step.to_owned());
            } else if event.name.starts_with("step.") {
                self.held.remove(step);
            }
        }
        if matches!(self.style, Style::Events) && !self.told_end {
            self.told_end = is_end(event);
            print(&format!("{}\n", event.body))?;
        }
        Ok(())
    }

    /// The state was read; `heard` says whether events tell of it as well. In doubt they do not:
    /// a change told twice does less harm than one that is not told.
    pub(super) fn state(&mut self, execution: &Value, heard: bool) -> Result<(), Failure> {
        self.last = execution.clone();
        let steps = steps(execution, &self.held, Timestamp::now());
        if matches!(self.style, Style::Board(_)) && !Board::has_room_for(steps.len()) {
            self.style = Style::Notes;
        }
        let changed: Vec<&Step> = steps
            .iter()
            .filter(|step| {
                let before = self.shown.insert(step.id.clone(), step.status.clone());
                before.unwrap_or_else(|| "pending".into()) != step.status
            })
            .collect();
        for step in changed {
            match self.style {
                Style::Lines => print(&format!("{}\n", line(step)))?,
                Style::Notes => note(&line(step)),
                // What happened before the stream opened stands in no event of it.
                Style::Events if !heard => print(&format!("{}\n", made_up(execution, step)))?,
                Style::Events | Style::Board(_) | Style::Nothing => {}
            }
        }
        self.waits(&steps)?;
        self.redraw()
    }

    /// Time passed.
    pub(super) fn redraw(&mut self) -> Result<(), Failure> {
        let Style::Board(board) = &mut self.style else { return Ok(()) };
        let steps = steps(&self.last, &self.held, Timestamp::now());
        let mut below = summary(&self.last);
        if let Some(told) = approval(&self.last, &steps) {
            below = format!("{below}; {told}");
        }
        board.draw(&steps, &below)
    }

    /// It has ended.
    pub(super) fn end(&mut self, execution: &Value) -> Result<(), Failure> {
        match self.style {
            Style::Lines => print(&format!("{}\n", escaped(&summary(execution)))),
            Style::Notes => {
                note(&summary(execution));
                Ok(())
            }
            Style::Events if !self.told_end => {
                let status = execution["status"].as_str().unwrap_or_default();
                let resource = json!({"kind": "execution", "id": execution["id"]});
                let event = format!("execution.{status}");
                let end = json!({"event": event, "resource": resource, "data": execution});
                print(&format!("{end}\n"))
            }
            Style::Events | Style::Board(_) | Style::Nothing => Ok(()),
        }
    }

    /// Says once that a reviewer is waited for where no step says so itself.
    fn waits(&mut self, steps: &[Step]) -> Result<(), Failure> {
        let count = waiting(&self.last);
        let before = std::mem::replace(&mut self.told_waiting, count);
        if count <= before || steps.iter().any(|step| step.status == WAITS) {
            return Ok(());
        }
        let Some(told) = approval(&self.last, steps) else { return Ok(()) };
        match self.style {
            Style::Lines => print(&format!("{told}\n")),
            Style::Notes => {
                note(&told);
                Ok(())
            }
            Style::Board(_) | Style::Events | Style::Nothing => Ok(()),
        }
    }
}

fn approval(execution: &Value, steps: &[Step]) -> Option<String> {
    let known = steps.iter().filter(|step| step.status == WAITS).count();
    match waiting(execution).max(known as u64) {
        0 => None,
        1 => Some("a step waits for a reviewer's approval".into()),
        count => Some(format!("{count} steps wait for a reviewer's approval")),
    }
}

fn line(step: &Step) -> String {
    let now = Timestamp::now().strftime("%H:%M:%SZ");
    let Step { id, status, duration, error } = step;
    let parts = [Some(id), Some(status), duration.as_ref(), error.as_ref()];
    let parts: Vec<_> = parts.into_iter().flatten().map(|part| escaped(part)).collect();
    format!("{now}  {}", parts.join("  "))
}

/// A change that was seen and not heard, in the form of an event without a cursor.
fn made_up(execution: &Value, step: &Step) -> Value {
    let status = if step.status == WAITS { "awaiting_approval" } else { step.status.as_str() };
    let status = if status == "running" { "started" } else { status };
    let resource = json!({"kind": "step", "id": step.id, "executionId": execution["id"]});
    json!({"event": format!("step.{status}"), "resource": resource,
           "data": execution["steps"][&step.id]})
}
