//! Files: bytes that are stored once, read in parts, and gone when nothing has them any more.

use callboard_domain::Error;
use callboard_domain::digest::Digest;
use callboard_domain::file::{File, Format, Part};
use callboard_domain::query::Window;
use callboard_store::Key;
use callboard_store::table::Chunks;

use super::*;
use crate::handle::NewFile;

/// The tables of contents, chunks, and loose chunks.
const OF_CONTENTS: [u8; 3] = [0x60, 0x61, 0x62];

fn bytes(length: usize) -> Vec<u8> {
    (0..251_u8).cycle().take(length).collect()
}

impl Bench {
    async fn upload(&self, bytes: &[u8]) -> Result<File, Error> {
        self.upload_announced(bytes, None).await
    }

    async fn upload_announced(&self, bytes: &[u8], digest: Option<Digest>) -> Result<File, Error> {
        let mut upload = self.handle.begin_file(&owner(), NewFile::default())?;
        for piece in bytes.chunks(1_500) {
            upload.write(piece).await?;
        }
        upload.finish(digest).await
    }

    async fn read(&self, file: &File, from: u64, length: u64) -> Result<Vec<u8>, Error> {
        let part = Part { from, length };
        let mut reader = self.handle.read_file(Environment::LIVE, file, part).await?;
        let mut read = Vec::new();
        while let Some(piece) = reader.next().await? {
            read.extend_from_slice(&piece);
        }
        Ok(read)
    }

    /// The rows of contents, chunks and loose chunks.
    async fn contents(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for (count, table) in counts.iter_mut().zip(OF_CONTENTS) {
            let (from, to) = (Key::new(table, 0, &[]), Key::new(table + 1, 0, &[]));
            *count = self.store.scan(from, to, usize::MAX).await.expect("a scan").len();
        }
        counts
    }

    async fn until_contents(&self, wanted: [usize; 3]) {
        let pauses = Pauses::begin();
        while self.contents().await != wanted {
            assert!(pauses.0.elapsed() < Duration::from_mins(10), "{:?}", self.contents().await);
            pauses.one().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_bytes_are_stored_once_and_read_in_parts() {
    let bench = Bench::new().await;
    let whole = bytes(Chunks::SIZE * 40 + 9);
    let first = bench.upload(&whole).await.expect("a file");
    bench.until_contents([1, 41, 0]).await;
    let second = bench.upload(&whole).await.expect("another file");
    assert_ne!(first.id, second.id);
    bench.until_contents([1, 41, 0]).await;
    let length = whole.len() as u64;
    assert_eq!(bench.read(&second, 0, length).await, Ok(whole.clone()));
    for (from, length) in [(0, 1), (3_999, 2), (4_000, 4_000), (length - 1, 1), (63_999, 90_000)] {
        let begins = usize::try_from(from).expect("it is short");
        let ends = begins + usize::try_from(length).expect("it is short");
        assert_eq!(bench.read(&first, from, length).await.as_deref(), Ok(&whole[begins..ends]));
    }
    bench.handle.delete_file(Environment::LIVE, first.id).await.expect("it is there");
    let again = bench.handle.delete_file(Environment::LIVE, first.id).await;
    assert!(matches!(again, Err(Error::NotFound { .. })), "{again:?}");
    let bench = bench.restart().await;
    assert_eq!(bench.read(&second, 0, length).await, Ok(whole));
    let other = bench.handle.file(Environment::TEST, second.id).await;
    assert!(matches!(other, Err(Error::NotFound { .. })), "{other:?}");
    bench.handle.delete_file(Environment::LIVE, second.id).await.expect("it is there");
    bench.until_contents([0, 0, 0]).await;
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_breaks_off_leaves_nothing_also_after_a_crash() {
    let bench = Bench::new().await;
    let mut upload = bench.handle.begin_file(&owner(), NewFile::default()).expect("it begins");
    upload.write(&bytes(600_000)).await.expect("it is written");
    drop(upload);
    bench.until_contents([0, 0, 0]).await;
    let empty = bench.upload(&[]).await;
    assert!(matches!(empty, Err(Error::Invalid(_))), "{empty:?}");
    let wrong = bench.upload_announced(&bytes(9_000), Some(Digest::ZERO)).await;
    assert!(matches!(wrong, Err(Error::Invalid(_))), "{wrong:?}");
    bench.until_contents([0, 0, 0]).await;
    let window = Window::default();
    let page = bench.handle.files(Environment::LIVE, window).await.expect("a list");
    assert_eq!(page.total, 0);

    let mut upload = bench.handle.begin_file(&owner(), NewFile::default()).expect("it begins");
    upload.write(&bytes(600_000)).await.expect("it is written");
    let store = bench.store.reopen();
    // The process was killed: nothing is told of the end.
    std::mem::forget(upload);
    bench.system.stop().await;
    let bench = Bench::on(store).await;
    bench.until_contents([0, 0, 0]).await;
}

#[tokio::test(start_paused = true)]
async fn a_file_that_nothing_refers_to_goes_after_a_day() {
    let bench = Bench::new().await;
    let file = bench.upload(b"%PDF-1.7").await.expect("a file");
    assert_eq!((file.format, &*file.media_type), (Some(Format::Pdf), "application/pdf"));
    tokio::time::sleep(Duration::from_hours(23)).await;
    bench.handle.file(Environment::LIVE, file.id).await.expect("it is young");
    tokio::time::sleep(Duration::from_hours(2)).await;
    let gone = bench.handle.file(Environment::LIVE, file.id).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
    bench.until_contents([0, 0, 0]).await;
}
