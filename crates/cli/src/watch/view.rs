//! The presentation of a running execution: a board, lines, events, or nothing.

use std::collections::BTreeMap;
use std::io::{IsTerminal, stderr, stdout};
use std::time::Duration;

use callboard_client::Event;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::board::Board;
use super::event::{is_end, step as step_of};
use super::step::{Held, Step, WAITS, steps, summary, waiting};
use crate::failure::Failure;
use crate::output::{Format, escaped, print, print_json, status_line};

/// The presentation of a running execution.
#[derive(Debug)]
pub(crate) struct View {
    style: Style,
    last: Value,
    /// The steps that wait for approval, according to events, and the beginning of each wait.
    held: Held,
    /// The shown state of each step.
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
    /// The view for a user who asked to watch: on a terminal a board, else a line for every change,
    /// the events for `jsonl`; for `json` the end alone.
    pub(crate) fn watched(format: Format) -> Self {
        Self::new(match format {
            // The board is drawn on standard error; both must be terminals, so that the user surely
            // sees it.
            Format::Table if stdout().is_terminal() && stderr().is_terminal() => {
                Style::Board(Board::default())
            }
            Format::Table => Style::Lines,
            Format::Jsonl | Format::Csv => Style::Events,
            Format::Json => Style::Nothing,
        })
    }

    /// The view for a user who waits for the end: only progress, on standard error.
    pub(crate) fn awaited() -> Self {
        let seen = stderr().is_terminal();
        Self::new(if seen { Style::Board(Board::default()) } else { Style::Notes })
    }

    fn new(style: Style) -> Self {
        Self {
            style,
            last: Value::Null,
            held: Held::new(),
            shown: BTreeMap::new(),
            told_waiting: 0,
            told_end: false,
        }
    }

    /// The time between two changes that follow from the clock alone.
    pub(super) const fn tick(&self) -> Option<Duration> {
        match self.style {
            Style::Board(_) => Some(Duration::from_secs(1)),
            Style::Lines | Style::Notes | Style::Events | Style::Nothing => None,
        }
    }

    /// True if the event of the end is due and was not shown.
    pub(super) const fn lacks_the_end(&self) -> bool {
        matches!(self.style, Style::Events) && !self.told_end
    }

    /// Handles an event.
    pub(super) fn event(&mut self, event: &Event) -> Result<(), Failure> {
        if let Some(step) = step_of(event) {
            if event.name == "step.awaiting_approval" {
                let at = event.body["at"].as_str().and_then(|at| at.parse().ok());
                self.held.insert(step.to_owned(), at);
            } else if event.name.starts_with("step.") {
                self.held.remove(step);
            }
        }
        if matches!(self.style, Style::Events) && !self.told_end {
            self.told_end = is_end(event);
            print_json(&format!("{}\n", event.body))?;
        }
        Ok(())
    }

    /// Forgets the held steps: events may have been missed, so that only the state knows them.
    pub(super) fn deaf(&mut self) {
        self.held.clear();
    }

    /// Shows lines above the steps when the server goes away or comes back.
    pub(super) fn interrupted(&mut self, lines: &[String]) -> Result<(), Failure> {
        if lines.is_empty() {
            return Ok(());
        }
        if let Style::Board(board) = &mut self.style {
            board.clear()?;
        }
        for line in lines {
            status_line(line);
        }
        self.redraw()
    }

    /// Handles a new state; `heard` is true if events report the same changes. In doubt it is
    /// false: a change that is reported twice does less harm than one that is missed.
    pub(super) fn state(&mut self, execution: &Value, heard: bool) -> Result<(), Failure> {
        let steps = steps(execution, &self.held, Timestamp::now());
        if matches!(self.style, Style::Board(_)) && !Board::has_room_for(steps.len()) {
            self.style = Style::Notes;
        }
        let is_first = self.last.is_null();
        self.last = execution.clone();
        let mut changed: Vec<&Step> = steps
            .iter()
            .filter(|step| {
                let before = self.shown.insert(step.id.clone(), step.status.clone());
                before.unwrap_or_else(|| "pending".into()) != step.status
            })
            .collect();
        // Earlier changes are ordered by their own time; a new one is shown as it comes.
        changed.sort_by_key(|step| step.since);
        for step in changed {
            match self.style {
                Style::Lines => print(&format!("{}\n", line(step, is_first)))?,
                Style::Notes => status_line(&line(step, is_first)),
                // The stream holds no event from before it opened.
                Style::Events if !heard => {
                    print_json(&format!("{}\n", made_up(execution, step)))?;
                }
                Style::Events | Style::Board(_) | Style::Nothing => {}
            }
        }
        self.waits(&steps)?;
        self.redraw()
    }

    /// Draws the board again after a tick.
    pub(super) fn redraw(&mut self) -> Result<(), Failure> {
        let Style::Board(board) = &mut self.style else { return Ok(()) };
        let steps = steps(&self.last, &self.held, Timestamp::now());
        let mut below = vec![summary(&self.last)];
        below.extend(approval(&self.last, &steps));
        // A terminal has few lines, and `hitl review` goes through all of them.
        below.extend(steps.iter().filter_map(|step| step.next.clone()).take(3));
        board.draw(&steps, &below)
    }

    /// Shows the end of the execution.
    pub(super) fn end(&mut self, execution: &Value) -> Result<(), Failure> {
        match self.style {
            Style::Lines => print(&format!("{}\n", escaped(&summary(execution)))),
            Style::Notes => {
                status_line(&summary(execution));
                Ok(())
            }
            Style::Events if !self.told_end => {
                let status = execution["status"].as_str().unwrap_or_default();
                let resource = json!({"kind": "execution", "id": execution["id"]});
                let event = format!("execution.{status}");
                let end = json!({"event": event, "resource": resource, "data": execution});
                print_json(&format!("{end}\n"))
            }
            Style::Events | Style::Board(_) | Style::Nothing => Ok(()),
        }
    }

    /// Reports once that the execution waits for a reviewer, if no step shows it.
    fn waits(&mut self, steps: &[Step]) -> Result<(), Failure> {
        let count = waiting(&self.last);
        let before = std::mem::replace(&mut self.told_waiting, count);
        if count <= before || steps.iter().any(|step| step.status == WAITS) {
            return Ok(());
        }
        let Some(waiting) = approval(&self.last, steps) else { return Ok(()) };
        match self.style {
            Style::Lines => print(&format!("{waiting}\n")),
            Style::Notes => {
                status_line(&waiting);
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

/// The line of a change of a step, with the time at which it happened or was seen; without a time
/// for a past change of unknown time.
fn line(step: &Step, is_past: bool) -> String {
    let seen = (!is_past).then(Timestamp::now);
    let time = step.since.or(seen).map(|time| time.strftime("%H:%M:%SZ").to_string());
    let time = time.unwrap_or_else(|| "  earlier".into());
    let Step { id, status, duration, error, next, .. } = step;
    let parts = [Some(id), Some(status), duration.as_ref(), error.as_ref(), next.as_ref()];
    let parts: Vec<_> = parts.into_iter().flatten().map(|part| escaped(part)).collect();
    format!("{time}  {}", parts.join("  "))
}

/// The event, without a cursor, of a change that only the state showed.
fn made_up(execution: &Value, step: &Step) -> Value {
    let status = if step.status == WAITS { "awaiting_approval" } else { step.status.as_str() };
    let status = if status == "running" { "started" } else { status };
    let resource = json!({"kind": "step", "id": step.id, "executionId": execution["id"]});
    let mut event = json!({"event": format!("step.{status}"), "resource": resource,
                           "data": execution["steps"][&step.id]});
    if let Some(since) = step.since {
        event["at"] = format!("{since:.3}").into();
    }
    event
}
