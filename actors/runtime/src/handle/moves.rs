//! Moves of projects to other cells (docs/reference/cells.md).
//!
//! ```text
//!   destination ─ question ─▶ source: it stands still, and answers with bytes
//!               ◀─ page ────
//! ```

mod question;

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use callboard_domain::audit::By;
use callboard_domain::credential::ApiKey;
use callboard_domain::id::{Environment, Mode, MoveId, ProjectId, Slot};
use callboard_domain::moving::{Part, Stage};
use callboard_domain::project::Project;
use callboard_domain::{Error, Timestamp};
use callboard_store::{Error as StoreError, ROWS as VERSION};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use self::question::hex;
pub use self::question::{NoQuestion, Question};
use super::Handle;
use crate::items::accounts::Message;
use crate::messages::accounts::MoveCommand;
use crate::node::register::moves::MOVING;
use crate::read::unreadable;
use crate::tables::copies::{self, RECORDS, appends_of, place_of, puts_of, rows_after};
use crate::tables::event_log;

/// The pages over which one digest goes.
const COMPARED: usize = 64;

/// The head of a project's copy, beside its rows.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Head {
    /// The version of the rows.
    rows: u32,
    /// The place whose number stands in the digests of idempotency keys.
    digests_of: Slot,
    /// The keys, each with the time of its last use.
    keys: Vec<(ApiKey, Option<Timestamp>)>,
}

/// The digest of a part of the rows or records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Compared<P> {
    /// The number of rows.
    rows: usize,
    digest: String,
    /// The place of the last one; `None` if the part is empty.
    last: Option<P>,
}

/// The cell that a project leaves.
pub trait Source: Sync {
    /// Asks for a part of the project.
    fn ask(&self, question: &Question) -> impl Future<Output = Result<Bytes, String>> + Send;
}

/// The reason why a project could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum NotCopied {
    /// The other cell did not answer, or refused to.
    #[error("the other cell does not answer: {0}")]
    Source(String),
    /// The rows here are not those of the other cell.
    #[error("the copy differs from the project: {0}")]
    Differs(&'static str),
    /// The move was given up, or this cell refuses it.
    #[error(transparent)]
    Refused(#[from] Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Handle {
    /// Begins to move a project to the cell of this name.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Invalid`], field `cell`, for a cell that does not exist, [`Error::InvalidState`],
    /// [`Error::Unavailable`].
    pub async fn move_project(
        &self,
        id: ProjectId,
        to: String,
        by: By,
    ) -> Result<Arc<Project>, Error> {
        self.account_command(|reply| Message::Move(MoveCommand::Begin(id, to, by, reply))).await
    }

    /// Gives up a move that has not switched: the project goes on where it is.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] if the project does not move, [`Error::Unavailable`].
    pub async fn stay_project(&self, id: ProjectId, by: By) -> Result<Arc<Project>, Error> {
        self.account_command(|reply| Message::Move(MoveCommand::Stay(id, by, reply))).await
    }

    /// Notes at home that all of a project is in its new cell: it is there from now on.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] for a move that was given up, [`Error::Unavailable`].
    pub async fn switch_project(&self, number: u32, id: MoveId) -> Result<(), Error> {
        self.account_command(|reply| Message::Move(MoveCommand::Switch(number, id, reply))).await
    }

    /// The refusal of a key that is not known, and that names a project of this number: the project may be on its way
    /// between this cell and another one.
    #[must_use]
    pub fn unless_on_its_way(&self, refusal: Error, number: u32) -> Error {
        let is_unknown = matches!(refusal, Error::InvalidToken(_));
        if is_unknown && self.node.state.accounts.is_on_its_way(number) { MOVING } else { refusal }
    }

    /// Ready once a project stands still, because it is being moved.
    pub async fn begins_to_move(&self, environment: Environment) {
        let register = &self.node.state.accounts;
        let mut changes = register.changes();
        while register.check_here(environment.slot()).is_ok() {
            // The sender lives as long as the node.
            let _ = changes.changed().await;
        }
    }

    /// True while the state of a project that has come is read.
    #[cfg(test)]
    pub(crate) fn is_opening(&self) -> bool {
        !self.node.state.accounts.opening().is_empty()
    }

    /// Notes that the rows of a part are removed.
    pub(crate) async fn cleared(&self, part: Arc<Part>) -> Result<(), Error> {
        self.account_command(|reply| Message::Move(MoveCommand::Cleared(part, reply))).await
    }

    /// The parts of this cell in moves of projects that come to it.
    #[must_use]
    pub fn coming_projects(&self) -> Vec<Arc<Part>> {
        let mut parts = self.node.state.accounts.parts();
        parts.retain(|part| matches!(part.stage, Stage::Coming | Stage::Copied));
        parts
    }

    /// Answers the destination of a move.
    ///
    /// # Errors
    /// [`Error::NotFound`] unless the project leaves this cell in that move, [`Error::Unavailable`].
    pub async fn answer_move(&self, id: MoveId, question: &Question) -> Result<Bytes, Error> {
        let part = self.node.state.accounts.part_in(id);
        let part = part.filter(|part| part.stage == Stage::Leaving);
        let slot = part.ok_or_else(|| Error::not_found("move", id))?.slot;
        let unread = |error| unreadable(&error);
        match question {
            Question::Head => self.head(slot).await,
            Question::Rows(mode, place) => {
                let rows = rows_after(self.node.store(), slot.environment(*mode), place).await;
                Ok(copies::page(&rows.map_err(unread)?).into())
            }
            Question::Events(mode, after) => {
                let log = event_log(slot.environment(*mode));
                let records = self.node.store().read_log(log, *after, RECORDS).await;
                Ok(copies::page_of_records(&records.map_err(unread)?).into())
            }
            Question::DigestOfRows(mode, place) => {
                let compared = self.compared_rows(slot.environment(*mode), place.clone()).await;
                Ok(json(&compared.map_err(unread)?))
            }
            Question::DigestOfEvents(mode, after) => {
                let compared = self.compared_events(slot.environment(*mode), *after).await;
                Ok(json(&compared.map_err(unread)?))
            }
        }
    }

    async fn head(&self, slot: Slot) -> Result<Bytes, Error> {
        self.node.drain_commits().await?;
        let register = &self.node.state.accounts;
        let project = register.project_at(slot).ok_or_else(|| Error::not_found("project", ""))?;
        let keys = register.keys_in(slot).into_iter();
        Ok(json(&Head {
            rows: VERSION,
            digests_of: project.digests_of.unwrap_or(slot),
            keys: keys.map(|known| (known.key.clone(), known.last_used_at())).collect(),
        }))
    }

    async fn compared_rows(
        &self,
        environment: Environment,
        mut place: Vec<u8>,
    ) -> Result<Compared<Vec<u8>>, StoreError> {
        let (mut digest, mut rows, mut last) = (Sha256::new(), 0, None);
        for _ in 0..COMPARED {
            let page = rows_after(self.node.store(), environment, &place).await?;
            let Some((key, ..)) = page.last() else { break };
            place = place_of(key);
            last = Some(place.clone());
            rows += page.len();
            digest.update(copies::page(&page));
            // A scan of the embedded store never waits; others are to have their turn.
            tokio::task::yield_now().await;
        }
        Ok(Compared { rows, digest: hex(&digest.finalize()), last })
    }

    async fn compared_events(
        &self,
        environment: Environment,
        mut after: u64,
    ) -> Result<Compared<u64>, StoreError> {
        let (mut digest, mut rows, mut last) = (Sha256::new(), 0, None);
        for _ in 0..COMPARED {
            let log = event_log(environment);
            let page = self.node.store().read_log(log, after, RECORDS).await?;
            let Some(record) = page.last() else { break };
            after = record.sequence;
            last = Some(after);
            rows += page.len();
            for record in page {
                digest.update((record.bytes.len() as u64).to_be_bytes());
                digest.update(&record.bytes);
            }
        }
        Ok(Compared { rows, digest: hex(&digest.finalize()), last })
    }

    /// Copies all rows of a project that comes, compares them and notes that they are here. An earlier copy is removed.
    ///
    /// # Errors
    /// [`NotCopied`]; the next attempt begins anew.
    pub async fn copy_project(&self, id: MoveId, source: &impl Source) -> Result<(), NotCopied> {
        let part = self.coming(id)?;
        let head: Head = read(&ask(source, &Question::Head).await?)?;
        if head.rows > VERSION {
            let message = "a newer program runs in the other cell: upgrade this one first";
            return Err(Error::InvalidState(message.to_owned()).into());
        }
        for environment in part.slot.environments() {
            self.node.remove_rows(environment).await?;
        }
        for mode in Mode::ALL {
            let environment = part.slot.environment(mode);
            self.copy_rows(id, source, environment).await?;
            self.copy_events(id, source, environment).await?;
        }
        for mode in Mode::ALL {
            let environment = part.slot.environment(mode);
            self.compare_rows(source, environment).await?;
            self.compare_events(source, environment).await?;
        }
        let here = |(key, used_at): (ApiKey, _)| {
            let environment = part.slot.environment(key.environment.mode());
            (ApiKey { environment, ..key }, used_at)
        };
        let keys = head.keys.into_iter().map(here).collect();
        let part = Part { keys, digests_of: Some(head.digests_of), ..(*part).clone() };
        let copied = self
            .account_command(|reply| Message::Move(MoveCommand::Copied(Box::new(part), reply)))
            .await;
        Ok(copied?)
    }

    /// The part in a move whose project is still to come.
    fn coming(&self, id: MoveId) -> Result<Arc<Part>, Error> {
        let part = self.node.state.accounts.part_in(id);
        let part = part.filter(|part| part.stage == Stage::Coming);
        part.ok_or_else(|| Error::not_found("move", id))
    }

    async fn copy_rows(
        &self,
        id: MoveId,
        source: &impl Source,
        environment: Environment,
    ) -> Result<(), NotCopied> {
        let (mode, mut place) = (environment.mode(), Vec::new());
        loop {
            let page = ask(source, &Question::Rows(mode, place)).await?;
            let (ops, last) = puts_of(&page, environment).ok_or_else(broken)?;
            if ops.is_empty() {
                return Ok(());
            }
            self.coming(id)?;
            self.node.commit_rows(ops).await?;
            place = last;
        }
    }

    async fn copy_events(
        &self,
        id: MoveId,
        source: &impl Source,
        environment: Environment,
    ) -> Result<(), NotCopied> {
        let (mode, mut after) = (environment.mode(), 0);
        loop {
            let page = ask(source, &Question::Events(mode, after)).await?;
            let (ops, last) = appends_of(&page, environment).ok_or_else(broken)?;
            if ops.is_empty() {
                return Ok(());
            }
            self.coming(id)?;
            self.node.commit_rows(ops).await?;
            after = last;
        }
    }

    async fn compare_rows(
        &self,
        source: &impl Source,
        environment: Environment,
    ) -> Result<(), NotCopied> {
        let (mode, mut place) = (environment.mode(), Vec::new());
        loop {
            let question = Question::DigestOfRows(mode, place.clone());
            let there: Compared<Vec<u8>> = read(&ask(source, &question).await?)?;
            let here = self.compared_rows(environment, place).await?;
            if here != there {
                return Err(NotCopied::Differs("rows"));
            }
            let Some(last) = here.last else { return Ok(()) };
            place = last;
        }
    }

    async fn compare_events(
        &self,
        source: &impl Source,
        environment: Environment,
    ) -> Result<(), NotCopied> {
        // The numbers of one log mean nothing in the other one.
        let (mut there, mut here) = (0, 0);
        loop {
            let question = Question::DigestOfEvents(environment.mode(), there);
            let asked: Compared<u64> = read(&ask(source, &question).await?)?;
            let own = self.compared_events(environment, here).await?;
            if (asked.rows, &asked.digest) != (own.rows, &own.digest) {
                return Err(NotCopied::Differs("events"));
            }
            let (Some(last), Some(own)) = (asked.last, own.last) else { return Ok(()) };
            (there, here) = (last, own);
        }
    }
}

async fn ask(source: &impl Source, question: &Question) -> Result<Bytes, NotCopied> {
    source.ask(question).await.map_err(NotCopied::Source)
}

fn read<'b, T: Deserialize<'b>>(bytes: &'b Bytes) -> Result<T, NotCopied> {
    serde_json::from_slice(bytes).map_err(|error| NotCopied::Source(error.to_string()))
}

fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("it has a JSON form").into()
}

fn broken() -> NotCopied {
    NotCopied::Source("its answer is cut short".to_owned())
}
