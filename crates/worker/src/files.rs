//! The files of a task: read from the server with the worker's key, and held in memory for its call.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use callboard_client::{Call, Client};
use callboard_protocol::workers::FileRef;
use sha2::{Digest, Sha256};

use crate::provider::{Code, Failure};

/// The most bytes of all files of a call: the bodies of providers' requests have at most 32 to 50 MB.
pub const MAX_BYTES: u64 = 32 << 20;

/// A file of a request.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    /// The server's identifier.
    pub id: String,
    /// The name.
    pub name: Option<String>,
    /// The media type.
    pub media_type: String,
    /// The bytes.
    pub bytes: Arc<[u8]>,
}

impl File {
    /// The name, or the identifier of a file without one.
    #[must_use]
    pub fn title(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Reads the files of a task.
pub(crate) async fn fetch(client: &Client, files: &[&FileRef]) -> Result<Vec<File>, Failure> {
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    if bytes > MAX_BYTES {
        return Err(Failure::refused(format!(
            "the files of the task have {bytes} bytes, and a call takes at most {MAX_BYTES}"
        )));
    }
    let mut read = Vec::with_capacity(files.len());
    for file in files {
        read.push(fetch_one(client, file).await?);
    }
    Ok(read)
}

async fn fetch_one(client: &Client, file: &FileRef) -> Result<File, Failure> {
    let FileRef { id, name, content_type, bytes: length, sha256 } = file;
    if sha256.is_empty() {
        return Err(Failure::refused(format!("file {id} was deleted")));
    }
    let broken = |why: &dyn fmt::Display| {
        let says = format!("file {id} could not be read from the server: {why}");
        Failure::new(Code::InternalError, says, true)
    };
    let call = Call::get(&["files", id, "content"]).of_any_type();
    let mut response = match client.stream(&call).await {
        Err(callboard_client::Error::Api(error)) if error.status == 404 => {
            return Err(Failure::refused(format!("file {id} was deleted")));
        }
        response => response.map_err(|error| broken(&error))?,
    };
    let mut bytes = Vec::with_capacity(usize::try_from(*length).unwrap_or_default());
    while let Some(piece) = response.chunk().await.map_err(|error| broken(&error))? {
        bytes.extend_from_slice(&piece);
        if bytes.len() as u64 > *length {
            break;
        }
    }
    let digest = Sha256::digest(&bytes).iter().fold(String::new(), |mut text, byte| {
        // A text takes all that is written.
        let _ = write!(text, "{byte:02x}");
        text
    });
    if digest != *sha256 {
        return Err(broken(&"its bytes have another SHA-256"));
    }
    Ok(File {
        id: id.clone(),
        name: name.clone(),
        media_type: content_type.clone(),
        bytes: bytes.into(),
    })
}
