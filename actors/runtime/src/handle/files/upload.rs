//! The upload of a file: its bytes are written as they come.
//!
//! ```text
//!   pieces ─▶ chunks ─▶ commits of many chunks, a few on their way ─▶ the file
//! ```
//!
//! The memory follows the commits on their way. An upload that breaks off leaves loose chunks, which are removed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::digest::Digest;
use callboard_domain::file::{File, Format, KEPT_FOR_BATCHES, Purpose, Recogniser};
use callboard_domain::id::{Environment, FileId, partition_of};
use callboard_domain::{Error, Rule};
use callboard_store::table::Chunks;
use callboard_store::{Op, Ticket};
use sha2::{Digest as _, Sha256};

use crate::handle::Handle;
use crate::kernel::finish::Finish;
use crate::messages::submission::Owner;
use crate::node::Node;
use crate::node::files::durable;
use crate::tables::{FILE_CHUNKS, LOOSE_CHUNKS};

/// The chunks of one commit.
const OPS: usize = 64;
/// The commits on their way at a time.
const COMMITS: usize = 4;

/// A file to be uploaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewFile {
    /// The name.
    pub name: Option<String>,
    /// The declared media type.
    pub media_type: Option<String>,
    /// The purpose.
    pub purpose: Option<Purpose>,
    /// The time for which the file is kept although nothing refers to it.
    pub kept: Option<Duration>,
}

/// An upload under way; dropped before its end, it leaves nothing.
#[derive(Debug)]
pub struct FileUpload {
    node: Arc<Node>,
    environment: Environment,
    account: String,
    new: NewFile,
    /// The document of the chunks.
    place: u128,
    chunks: u32,
    /// Bytes that do not fill a chunk yet.
    rest: Vec<u8>,
    ops: Vec<Op>,
    commits: VecDeque<Ticket>,
    digest: Sha256,
    recogniser: Recogniser,
    bytes: u64,
}

impl Handle {
    /// Begins the upload of a file.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`], [`Error::Unavailable`].
    pub fn begin_file(&self, owner: &Owner, new: NewFile) -> Result<FileUpload, Error> {
        self.node.limits.holdings.admit(owner.environment, &owner.id, 0)?;
        let partition = (self.node.kernel.ports.entropy.bits() & 0xff) as u8;
        let place = self.node.fresh_id(self.now(), partition);
        self.node.state.files.begin(place);
        let mut upload = FileUpload {
            node: Arc::clone(&self.node),
            environment: owner.environment,
            account: owner.id.clone(),
            new,
            place,
            chunks: 0,
            rest: Vec::new(),
            ops: Vec::with_capacity(OPS),
            commits: VecDeque::new(),
            digest: Sha256::new(),
            recogniser: Recogniser::default(),
            bytes: 0,
        };
        upload.ops.push(LOOSE_CHUNKS.put(owner.environment.number(), &place, &(), None));
        Ok(upload)
    }
}

impl FileUpload {
    /// Names the purpose, and the time for which the file is kept although nothing refers to it, of an upload whose
    /// bytes came first.
    pub const fn set_purpose(&mut self, purpose: Purpose, kept: Option<Duration>) {
        self.new.purpose = Some(purpose);
        self.new.kept = kept;
    }

    /// Adds the next bytes.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: the upload is to be dropped.
    pub async fn write(&mut self, mut piece: &[u8]) -> Result<(), Error> {
        self.digest.update(piece);
        self.recogniser.feed(piece);
        self.bytes += piece.len() as u64;
        while self.rest.len() + piece.len() >= Chunks::SIZE {
            let (head, tail) = piece.split_at(Chunks::SIZE - self.rest.len());
            self.rest.extend_from_slice(head);
            piece = tail;
            self.chunk().await?;
        }
        self.rest.extend_from_slice(piece);
        Ok(())
    }

    /// Puts a chunk in line to be committed.
    async fn chunk(&mut self) -> Result<(), Error> {
        let number = self.environment.number();
        self.ops.push(FILE_CHUNKS.put(number, self.place, self.chunks, &self.rest));
        self.rest.clear();
        self.chunks += 1;
        if self.ops.len() >= OPS { self.flush().await } else { Ok(()) }
    }

    /// Waits for the first commit, which stays until it has its outcome: a drop meanwhile hands it on.
    async fn await_first(&mut self) -> Result<(), Error> {
        let Some(first) = self.commits.front_mut() else { return Ok(()) };
        let outcome = durable(first).await;
        self.commits.pop_front();
        outcome
    }

    async fn flush(&mut self) -> Result<(), Error> {
        if self.commits.len() >= COMMITS {
            self.await_first().await?;
        }
        let partition = partition_of(self.place);
        self.node.shard(partition).room().await;
        let ops = std::mem::take(&mut self.ops);
        self.commits.push_back(self.node.shard(partition).commit(partition, ops));
        Ok(())
    }

    /// Ends the upload: after `Ok` the file survives a power cut. `expected` is the digest that the sender announced.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a file without bytes or with another digest, [`Error::Unavailable`]: nothing is kept.
    pub async fn finish(mut self, expected: Option<Digest>) -> Result<File, Error> {
        if self.bytes == 0 {
            let says = "the body is empty: it must be the bytes of the file";
            return Err(Error::invalid("body", Rule::Length, says));
        }
        let digest = std::mem::take(&mut self.digest).finalize();
        let digest = Digest::from_bytes(digest.into());
        if let Some(expected) = expected.filter(|expected| *expected != digest) {
            let says =
                format!("Digest announces the SHA-256 {expected}, and the body has {digest}");
            return Err(Error::invalid("Digest", Rule::Format, says));
        }
        if !self.rest.is_empty() {
            self.chunk().await?;
        }
        self.flush().await?;
        while !self.commits.is_empty() {
            self.await_first().await?;
        }
        let (now, format) = (self.node.now(), self.recogniser.format());
        let of_batch = self.new.purpose.is_some_and(Purpose::is_of_batch);
        let kept = self.new.kept.or(of_batch.then_some(KEPT_FOR_BATCHES));
        let file = File {
            id: FileId::from_u128(self.node.fresh_id(now, digest.as_bytes()[0])),
            account: self.account.clone(),
            name: self.new.name.take(),
            media_type: Format::media_type(format, self.new.media_type.as_deref()).to_owned(),
            format,
            bytes: self.bytes,
            digest,
            purpose: self.new.purpose,
            expires_at: kept.map(|kept| now.after(kept)),
            unused_since: Some(now),
        };
        // It must have ended before the loose chunks are removed, also if the sender has left.
        Finish::new(async move {
            self.node.keep_file(self.environment, self.place, &file).await?;
            self.node.limits.holdings.store_file(self.environment, &self.account, self.bytes);
            Ok(file)
        })
        .await
    }
}

impl Drop for FileUpload {
    fn drop(&mut self) {
        self.node.state.files.end(self.place, std::mem::take(&mut self.commits));
    }
}
