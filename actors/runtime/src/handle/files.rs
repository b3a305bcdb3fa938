//! Files.

mod upload;

pub use upload::{FileUpload, NewFile};

use std::sync::Arc;

use bytes::Bytes;
use callboard_domain::digest::Digest;
use callboard_domain::file::{File, Format, Part, Purpose};
use callboard_domain::id::{Environment, FileId, TaskId};
use callboard_domain::query::{Keyset, Page, Window};
use callboard_domain::task::Request;
use callboard_domain::{Error, Rule};
use callboard_store::table::Chunks;
use sha2::{Digest as _, Sha256};

use super::Handle;
use crate::kernel::removal_locks::UseGuard;
use crate::messages::submission::Owner;
use crate::node::Node;
use crate::read::unreadable;
use crate::tables::{FILE_CHUNKS, FILES, approvals, files};

/// The chunks that are read at a time.
const PAGE: u64 = 16;
/// The tasks that are looked at for a review.
const LOOKED_AT: usize = 1_000;

impl Handle {
    /// A file.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn file(&self, environment: Environment, id: FileId) -> Result<File, Error> {
        let found = FILES.get(self.node.store(), environment.number(), &id.as_u128()).await;
        found.map_err(|error| unreadable(&error))?.ok_or_else(|| Error::not_found("file", id))
    }

    /// Files, the newest first, and their total number.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn files(
        &self,
        environment: Environment,
        window: Window,
    ) -> Result<Page<File>, Error> {
        let page = files::files(self.node.store(), environment, window).await;
        page.map_err(|error| unreadable(&error))
    }

    /// Files of a purpose, or of every one, read on from a file; with the number of all that follow it.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn files_after(
        &self,
        environment: Environment,
        purpose: Option<Purpose>,
        page: Keyset,
    ) -> Result<Page<File>, Error> {
        let page = files::files_after(self.node.store(), environment, purpose, page).await;
        page.map_err(|error| unreadable(&error))
    }

    /// Keeps bytes as a file: the account's own one of this name with these bytes, or another.
    ///
    /// # Errors
    /// Those of an upload.
    pub async fn keep_file(
        &self,
        owner: &Owner,
        new: NewFile,
        bytes: &[u8],
    ) -> Result<FileId, Error> {
        let digest = Digest::from_bytes(Sha256::digest(bytes).into());
        let same = files::with_digest(self.node.store(), owner.environment, digest).await;
        let same = same.map_err(|error| unreadable(&error))?;
        let own = |file: &&File| file.account == owner.id && file.name == new.name;
        if let Some(file) = same.iter().find(own) {
            return Ok(file.id);
        }
        let mut upload = self.begin_file(owner, new)?;
        upload.write(bytes).await?;
        upload.finish(None).await.map(|file| file.id)
    }

    /// Reads a part of a file.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn read_file(
        &self,
        environment: Environment,
        file: &File,
        part: Part,
    ) -> Result<FileReader, Error> {
        let content = files::content(self.node.store(), environment, file.digest).await;
        let content = content.map_err(|error| unreadable(&error))?;
        let content = content.ok_or_else(|| Error::not_found("file", file.id))?;
        Ok(FileReader { node: Arc::clone(&self.node), environment, place: content.place, part })
    }

    /// Deletes a file. After `Ok` no read shows it any more, also after a power cut.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] while an unfinished task refers to it, [`Error::Unavailable`].
    pub async fn delete_file(&self, environment: Environment, id: FileId) -> Result<File, Error> {
        let file = self.file(environment, id).await?;
        let Some(_leaving) = self.node.state.files.held.leave(&(environment, id)) else {
            let says = format!(
                "file {id} is being used by a task that is being submitted: try again in a moment"
            );
            return Err(Error::InvalidState(says));
        };
        if let Some(batch) = self.node.state.chat_batches.reader_of(environment, id) {
            let says = format!(
                "batch {batch} reads file {id} and has not ended: wait for its end, or cancel it"
            );
            return Err(Error::InvalidState(says));
        }
        let uses = files::uses(self.node.store(), environment, id, true).await;
        if let Some(task) = uses.map_err(|error| unreadable(&error))?.task {
            let says = format!(
                "task {task} refers to file {id} and has not ended: wait for its end, or cancel it"
            );
            return Err(Error::InvalidState(says));
        }
        self.node.remove_file(environment, &file).await?;
        Ok(file)
    }
}

impl Handle {
    /// Keeps the files of tasks from removal, until the guards are dropped. A model sees images and documents alone; a
    /// function reads any file. `place` begins the field of the task with this index.
    pub(super) async fn hold_files(
        &self,
        environment: Environment,
        tasks: &[Request],
        place: impl Fn(usize) -> String,
    ) -> Result<Vec<UseGuard<(Environment, FileId)>>, Error> {
        let mut guards = Vec::new();
        for (index, task) in tasks.iter().enumerate() {
            for (at, kind, id) in task.inputs.placed_files() {
                let invalid = |says: &str| {
                    let field = format!("{}{at}", place(index));
                    let says = format!("{field} names {id}, which {says}");
                    Err(Error::invalid(field, Rule::Format, says))
                };
                let guard = self.node.state.files.held.keep(&(environment, id)).await;
                let found = match self.file(environment, id).await {
                    Ok(file) => Some(file),
                    Err(Error::NotFound { .. }) => None,
                    Err(error) => return Err(error),
                };
                let Some(file) = found else {
                    return invalid("does not exist: upload it first, at POST /api/files");
                };
                if task.inputs.args.is_none() && file.format.is_none() {
                    return invalid(
                        "is not a PNG, JPEG, WebP, GIF, PDF or text, by its bytes: no model can be shown it",
                    );
                }
                let is = file.format.map(Format::kind);
                if let (Some(kind), Some(is)) = (kind, is.filter(|is| kind != Some(*is))) {
                    let (kind, is) = (kind.as_str(), is.as_str());
                    return invalid(&format!(
                        "is not of the type {kind}, by its bytes: its part has the type {is}"
                    ));
                }
                guards.push(guard);
            }
        }
        Ok(guards)
    }

    /// Removes files to which nothing refers, after the texts of a task that did were erased.
    pub(super) async fn forget_files(
        &self,
        environment: Environment,
        files: Vec<FileId>,
    ) -> Result<(), Error> {
        for file in files {
            self.node.remove_unused_file(environment, file).await?;
        }
        Ok(())
    }

    /// True if one of these tasks refers to the file.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn is_file_of(
        &self,
        environment: Environment,
        file: FileId,
        tasks: impl IntoIterator<Item = TaskId> + Send,
    ) -> Result<bool, Error> {
        for task in tasks {
            let found = files::is_of(self.node.store(), environment, file, task).await;
            if found.map_err(|error| unreadable(&error))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// True if a reviewer has been asked about an output to which the file led: one of the first thousand tasks that
    /// refer to it.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn is_file_reviewed(
        &self,
        environment: Environment,
        file: FileId,
    ) -> Result<bool, Error> {
        let store = self.node.store();
        let read = |error: callboard_store::Error| unreadable(&error);
        for task in files::users(store, environment, file, LOOKED_AT).await.map_err(read)? {
            if approvals::row(store, environment, task).await.map_err(read)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The rest of a part of a file.
#[derive(Debug)]
pub struct FileReader {
    node: Arc<Node>,
    environment: Environment,
    place: u128,
    part: Part,
}

impl FileReader {
    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Unavailable`], also if the file was removed meanwhile.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let Part { from, length } = self.part;
        if length == 0 {
            return Ok(None);
        }
        let size = Chunks::SIZE as u64;
        let first = u32::try_from(from / size).map_err(|_| Error::Internal)?;
        let begins = usize::try_from(from % size).map_err(|_| Error::Internal)?;
        let count = u32::try_from(PAGE).map_err(|_| Error::Internal)?;
        let number = self.environment.number();
        let read = FILE_CHUNKS.read(self.node.store(), number, self.place, first, count).await;
        let mut read = read.map_err(|error| unreadable(&error))?;
        if read.len() <= begins {
            return Err(Error::Unavailable("the file was removed while it was read"));
        }
        let mut bytes = read.split_off(begins);
        bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        let taken = bytes.len() as u64;
        self.part = Part { from: from + taken, length: length - taken };
        Ok(Some(bytes))
    }
}
