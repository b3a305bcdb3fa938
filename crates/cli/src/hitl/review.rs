//! `callboard hitl review`: the waiting outputs, one after the other, on the terminal.
//!
//! ```text
//! queue ─▶ item ─▶ claim ─▶ material ─▶ Dialogue ◀─▶ the reader, the editor
//!   ▲                                      │ a decision, a skip
//!   └──────────────────────────────────────┘ release, unless it was decided
//! ```
//!
//! [`dialogue`] holds the questions and the meaning of answers, [`view`] the text; this module
//! connects them with the server. Deliberately absent: keys read one by one. Answers are lines, so
//! the terminal stays as it was at any end of the program.

mod console;
mod dialogue;
mod diff;
mod gather;
mod view;

use std::collections::BTreeSet;
use std::time::Duration;

use callboard_client::{ApiError, Call, Client};
use clap::Args;

use self::console::{Console, Terminal};
use self::dialogue::{Decision, Dialogue, Next};
use self::gather::{Material, Waiting};
use super::item::{USERS, is_decided, output, over};
use super::{decide, editor};
use crate::failure::{Failure, decided};
use crate::input::Body;
use crate::output::escaped;
use crate::people::People;

/// A claim lasts five minutes; a long read renews it.
const RENEWAL: Duration = Duration::from_mins(2);
/// The lines of a change that are shown before it is sent.
const DIFF_LINES: usize = 40;

/// The filter of the review.
#[derive(Debug, Clone, Default, Args)]
pub struct Wanted {
    /// Only outputs that are assigned to you.
    #[arg(long)]
    mine: bool,
    /// The queue.
    #[arg(long)]
    queue: Option<String>,
    /// Tags, separated by commas; an output must have all of them.
    #[arg(long = "tag", value_delimiter = ',', value_name = "TAG")]
    tags: Vec<String>,
}

/// Goes through the waiting outputs.
pub(super) async fn run(client: &Client, wanted: &Wanted) -> Result<(), Failure> {
    editor::needs_terminal("hitl review")?;
    let me = gather::me(client).await;
    let people = People::known_reviewers(client).await;
    Review { client, console: Terminal, wanted, me, people, tally: Tally::default() }.run().await
}

/// A reader's way through the queue.
struct Review<'c, D> {
    client: &'c Client,
    console: D,
    wanted: &'c Wanted,
    /// The signed-in user; `None` for a key, which is not a reviewer.
    me: Option<String>,
    /// The reviewers, who are shown by e-mail.
    people: People,
    tally: Tally,
}

/// The decisions so far.
#[derive(Debug, Default)]
struct Tally {
    approved: u32,
    rejected: u32,
    skipped: u32,
}

/// The end of the dialogue about an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Decided,
    Left,
    Quit,
}

impl<D: Console> Review<'_, D> {
    async fn run(&mut self) -> Result<(), Failure> {
        let mut seen = BTreeSet::new();
        'queue: loop {
            let waiting = gather::waiting(self.client, self.wanted, self.me.as_deref()).await?;
            let Waiting { tasks, overdue } = waiting;
            if seen.is_empty() && overdue > 0 {
                let count = tasks.len();
                self.console
                    .say(&format!("{count} waiting for a reviewer, {overdue} overdue\n"))?;
            }
            let fresh: Vec<_> = tasks.into_iter().filter(|task| !seen.contains(task)).collect();
            if fresh.is_empty() {
                let else_ = if seen.is_empty() { "" } else { " else" };
                self.console.say(&format!("nothing{else_} waits for a reviewer\n"))?;
                break;
            }
            for task in fresh {
                // An item that changed while the pages were read may stand in two of them.
                if !seen.insert(task.clone()) {
                    continue;
                }
                let end = self.item(&task).await?;
                if end == End::Quit {
                    break 'queue;
                }
            }
        }
        let Tally { approved, rejected, skipped } = self.tally;
        self.console.say(&format!("{approved} approved, {rejected} rejected, {skipped} skipped\n"))
    }

    /// Claims one item, runs the dialogue about it, and releases it unless it was decided.
    async fn item(&mut self, task: &str) -> Result<End, Failure> {
        let claimed = match claim(self.client, task).await {
            Ok(()) => true,
            // Another user looks at the item, or has decided; the item shows which.
            Err(failure) if failure.is_conflict() => false,
            Err(failure) => return self.passed_over(failure),
        };
        let end = self.talk(task, claimed).await;
        if claimed && !matches!(end, Ok(End::Decided)) {
            // A claim that cannot be released ends by itself.
            let _ = self.client.data(Call::post(&["hitl", task, "release"])).await;
        }
        end
    }

    async fn talk(&mut self, task: &str, claimed: bool) -> Result<End, Failure> {
        // The item is read after the claim, so that it is as new as can be.
        let material = match Material::of(self.client, task).await {
            Ok(mut material) => {
                self.people.show(&mut material.item, &USERS);
                material
            }
            Err(failure) => return self.passed_over(failure),
        };
        if is_decided(&material.item) {
            self.console.say(&format!("{}\n", over(&material.item)))?;
            return Ok(End::Left);
        }
        self.console.say(&view::shown(&material, view::Length::Short))?;
        self.console.forget();
        let dialogue = if claimed { Dialogue::Menu } else { view::warning(&material.item) };
        let mut draft = None;
        let end = self.decides(task, claimed, &material, dialogue, &mut draft).await;
        if let (Some(text), false) = (draft, matches!(end, Ok(End::Decided))) {
            self.console.keep(task, &text);
        }
        end
    }

    /// Runs the dialogue about one item to its end; `draft` is the latest edited text.
    async fn decides(
        &mut self,
        task: &str,
        claimed: bool,
        material: &Material,
        mut dialogue: Dialogue,
        draft: &mut Option<String>,
    ) -> Result<End, Failure> {
        let (rows, columns) = self.console.size();
        loop {
            let question = dialogue.question();
            let answer = self.ask(task, claimed, &question).await?;
            let Some(answer) = answer else { return Ok(End::Quit) };
            dialogue = match dialogue.answered(&answer) {
                Next::Ask(next) => next,
                Next::ShowAll => {
                    let whole = view::shown(material, view::Length::Whole);
                    self.pages(task, claimed, &view::pages(&whole, rows, columns)).await?;
                    Dialogue::Menu
                }
                Next::Edit => {
                    let before = output(&material.item);
                    let start = draft.as_deref().unwrap_or(before).to_owned();
                    let edited = self.edit(task, claimed, &start).await;
                    let next = self.compared(before, edited)?;
                    if let Dialogue::Comment { edit: Some(edit) } = &next {
                        *draft = Some(edit.clone());
                    }
                    next
                }
                Next::Decide(decision) => match self.decide(task, decision).await? {
                    Some(end) => return Ok(end),
                    None => Dialogue::Menu,
                },
                Next::Skip => {
                    self.tally.skipped += 1;
                    return Ok(End::Left);
                }
                Next::Quit => return Ok(End::Quit),
            };
        }
    }

    /// Sends a decision. `None` if the server refused it and the reader can make another.
    async fn decide(&mut self, task: &str, decision: Decision) -> Result<Option<End>, Failure> {
        let approved = matches!(decision, Decision::Approve { .. });
        let sent = match decision {
            Decision::Approve { comment, edit } => {
                let body = Body::default().set("comment", comment).set("modifiedOutput", edit);
                decide::send(self.client, task, "approve", body).await
            }
            Decision::Reject { reason, retry } => {
                let body = Body::default().set("reason", Some(reason)).flag("retry", retry);
                decide::send(self.client, task, "reject", body).await
            }
        };
        match sent {
            Ok(decided) => {
                let count =
                    if approved { &mut self.tally.approved } else { &mut self.tally.rejected };
                *count += 1;
                self.console.say(&format!("{}\n", view::decided(&decided, approved)))?;
                Ok(Some(End::Decided))
            }
            Err(failure) if failure.is_conflict() || failure.exit_code() == 3 => {
                self.passed_over(failure).map(Some)
            }
            Err(failure) if failure.exit_code() == 4 => Err(failure),
            // An unacknowledged decision may be tried again; a second one changes nothing.
            Err(failure) => {
                self.console.say(&format!("{}\n", failure.words()))?;
                Ok(None)
            }
        }
    }

    /// The next question about an edited text.
    fn compared(
        &mut self,
        before: &str,
        edited: Result<String, Failure>,
    ) -> Result<Dialogue, Failure> {
        let edit = match edited {
            Ok(edit) => edit,
            Err(failure) => {
                self.console.say(&format!("{}\n", failure.words()))?;
                return Ok(Dialogue::Menu);
            }
        };
        if edit.is_empty() {
            self.console.say("the text is empty, so the output stays as it was\n")?;
            return Ok(Dialogue::Menu);
        }
        if edit == before {
            self.console.say("the text is unchanged: the output would pass as it is\n")?;
            return Ok(Dialogue::Comment { edit: None });
        }
        self.console.say(&diff::of(before, &edit, DIFF_LINES))?;
        Ok(Dialogue::Comment { edit: Some(edit) })
    }

    /// Skips an item that another reviewer decided first, or that is gone.
    fn passed_over(&mut self, failure: Failure) -> Result<End, Failure> {
        let Failure::Refused(refusal) = &failure else { return Err(failure) };
        if !failure.is_conflict() && refusal.status != 404 {
            return Err(failure);
        }
        let text = conflict_text(refusal).unwrap_or_else(|| failure.words());
        self.console.say(&format!("{text}\n"))?;
        Ok(End::Left)
    }

    async fn pages(&mut self, task: &str, claimed: bool, pages: &[String]) -> Result<(), Failure> {
        for (number, page) in pages.iter().enumerate() {
            self.console.say(page)?;
            if number + 1 < pages.len() {
                let question =
                    format!("[{} of {}] enter: more, q: enough", number + 1, pages.len());
                match self.ask(task, claimed, &question).await? {
                    Some(answer) if answer.trim().is_empty() => {}
                    Some(_) | None => break,
                }
            }
        }
        Ok(())
    }

    async fn ask(
        &mut self,
        task: &str,
        claimed: bool,
        question: &str,
    ) -> Result<Option<String>, Failure> {
        keeping(self.client, task, claimed, self.console.ask(question)).await
    }

    async fn edit(&mut self, task: &str, claimed: bool, text: &str) -> Result<String, Failure> {
        keeping(self.client, task, claimed, self.console.edit(task, text)).await
    }
}

/// Renews the claim while the reader thinks.
async fn keeping<T>(
    client: &Client,
    task: &str,
    claimed: bool,
    work: impl Future<Output = T>,
) -> T {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(RENEWAL), if claimed => {
                // A claim only warns others; the decision does not need it.
                let _ = claim(client, task).await;
            }
        }
    }
}

async fn claim(client: &Client, task: &str) -> Result<(), Failure> {
    client.data(Call::post(&["hitl", task, "claim"])).await?;
    Ok(())
}

/// The earlier decider, and the instant.
fn conflict_text(refusal: &ApiError) -> Option<String> {
    let (by, at) = decided(refusal)?;
    Some(format!("{} was first: decided at {}", escaped(by), escaped(at)))
}

#[cfg(test)]
mod tests;
