//! `callboard files`: images and documents for tasks.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write, stdout};
use std::path::{Path, PathBuf};

use callboard_client::{Call, Client};
use clap::Subcommand;
use serde_json::Value;

use super::access::Remote;
use super::failure::Failure;
use super::input::{self, Window};
use super::output::{Column, details};

const COLUMNS: [Column; 5] = [
    ("ID", "id"),
    ("NAME", "name"),
    ("TYPE", "contentType"),
    ("BYTES", "bytes"),
    ("CREATED", "createdAt"),
];

const FIELDS: [Column; 8] = [
    ("id", "id"),
    ("name", "name"),
    ("type", "contentType"),
    ("shown as", "kind"),
    ("bytes", "bytes"),
    ("SHA-256", "sha256"),
    ("uploaded by", "createdBy"),
    ("created", "createdAt"),
];

/// The commands on files.
#[derive(Debug, Clone, Subcommand)]
pub enum Files {
    /// Upload a file, and print its id.
    Upload {
        /// The file; - for standard input.
        file: PathBuf,
        /// The name, for people and models; by default that of the file.
        #[arg(long)]
        name: Option<String>,
    },
    /// List files, the newest first.
    List {
        #[command(flatten)]
        window: Window,
    },
    /// Show a file, without its bytes.
    Show {
        /// The file.
        #[arg(value_parser = input::id)]
        id: String,
    },
    /// Write the bytes of a file to standard output, or to another file.
    Download {
        /// The file.
        #[arg(value_parser = input::id)]
        id: String,
        /// The file to write to, which must not exist.
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Delete a file.
    Delete {
        /// The file.
        #[arg(value_parser = input::id)]
        id: String,
    },
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Files>) -> Result<(), Failure> {
    let client = access.client()?;
    match command {
        Files::Upload { file, name } => {
            let name = name.or_else(|| own_name(&file));
            let call = Call::post(&["files"]).query("name", name);
            let call = call.raw(media_type(&file), input::bytes(&file)?);
            access.output.item(&client.data(call).await?, shown)
        }
        Files::List { window } => {
            let page = client.page(window.of(Call::get(&["files"]))).await?;
            access.output.list("files", &page, &COLUMNS)
        }
        Files::Show { id } => {
            access.output.item(&client.data(Call::get(&["files", &id])).await?, shown)
        }
        Files::Download { id, to } => download(&client, &id, to.as_deref()).await,
        Files::Delete { id } => {
            access.output.item(&client.data(Call::delete(&["files", &id])).await?, shown)
        }
    }
}

/// A file in words.
fn shown(file: &Value) -> String {
    details(file, &FIELDS, &[])
}

/// The name of a file on the disk; none for standard input.
fn own_name(path: &Path) -> Option<String> {
    (path != Path::new("-")).then(|| path.file_name()?.to_str().map(str::to_owned))?
}

/// The media type by the file's extension, for formats that no bytes tell.
fn media_type(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => "text/csv",
        Some("md") => "text/markdown",
        Some("html" | "htm") => "text/html",
        Some("json") => "application/json",
        _ => "application/octet-stream",
    }
}

async fn download(client: &Client, id: &str, to: Option<&Path>) -> Result<(), Failure> {
    if to.is_none() && stdout().is_terminal() {
        let says =
            "a terminal cannot show the bytes of a file: use --to FILE, or redirect the output";
        return Err(Failure::Usage(says.into()));
    }
    let call = Call::get(&["files", id, "content"]).of_any_type();
    let mut response = client.stream(&call).await?;
    let unwritable = |error: io::Error| {
        let target = to.map_or_else(|| "standard output".into(), Path::to_string_lossy);
        Failure::Other(format!("{target} cannot be written: {error}"))
    };
    let mut out: Box<dyn Write> = match to {
        Some(path) => Box::new(File::create_new(path).map_err(unwritable)?),
        None => Box::new(stdout()),
    };
    loop {
        let piece = response.chunk().await;
        let piece = piece.map_err(|error| Failure::Other(format!("{id} broke off: {error}")))?;
        let Some(piece) = piece else { return out.flush().map_err(unwritable) };
        match out.write_all(&piece) {
            Err(error) if to.is_none() && error.kind() == io::ErrorKind::BrokenPipe => {
                return Err(Failure::OutputClosed);
            }
            written => written.map_err(unwritable)?,
        }
    }
}
