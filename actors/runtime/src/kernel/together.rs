//! Reads that run side by side.

use callboard_store::Error;
use futures_util::{StreamExt, stream};

/// The reads of one page that run side by side. A store behind a network answers those together.
pub(crate) const TOGETHER: usize = 128;

/// The items that were found by reads that run side by side, in the order of the reads.
pub(crate) async fn together<T, F>(
    most: usize,
    reads: impl IntoIterator<Item = F>,
) -> Result<Vec<T>, Error>
where
    F: Future<Output = Result<Option<T>, Error>>,
{
    // Collected first: a closure that lives across the waits would have to be valid for every lifetime.
    let reads: Vec<_> = reads.into_iter().collect();
    let mut reads = stream::iter(reads).buffered(most);
    let mut items = Vec::new();
    while let Some(found) = reads.next().await {
        match found {
            Ok(found) => items.extend(found),
            // One item never keeps a list from its others.
            Err(Error::Corrupt { path, reason }) => {
                tracing::error!(path, reason, "an item cannot be read, and is left out of a list");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(items)
}
