//! The rows of files and of their contents.

use callboard_domain::digest::Digest;
use callboard_domain::file::{File, Purpose};
use callboard_domain::id::{Environment, FileId, TaskId};
use callboard_domain::query::{Keyset, Page, Window};
use callboard_store::{Entry, Error, Filter, Op, Order, Query, Store};
use serde::{Deserialize, Serialize};

use super::{CONTENTS, FILE_USES, FILES, behind, file_list, tasks};

/// A content: the bytes that files with one digest share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContentRow {
    /// The document of its chunks.
    pub(crate) place: u128,
    /// The files that have it, at least one.
    pub(crate) files: u32,
}

/// The index term of files: the beginning of the digest.
const DIGEST: u8 = 0;
/// The purpose's name.
const PURPOSE: u8 = 1;
/// The files with one digest that are looked at.
const ALIKE: usize = 100;

fn digest_term(digest: Digest) -> Box<[u8]> {
    digest.as_bytes()[..16].into()
}

fn purpose_term(purpose: Purpose) -> Box<[u8]> {
    purpose.as_str().as_bytes().into()
}

/// The row of a file.
pub(crate) fn put(environment: Environment, file: &File) -> Op {
    let purpose = purpose_term(file.purpose.unwrap_or_default());
    let terms = vec![(DIGEST, digest_term(file.digest)), (PURPOSE, purpose)];
    let entry = Entry { list: file_list(environment), terms, sort: [None; 2] };
    FILES.put(environment.number(), &file.id.as_u128(), file, Some(entry))
}

/// The content with a digest.
pub(crate) async fn content(
    store: &dyn Store,
    environment: Environment,
    digest: Digest,
) -> Result<Option<ContentRow>, Error> {
    CONTENTS.get(store, environment.number(), digest.as_bytes()).await
}

/// Files, the newest first, and their total number.
pub(crate) async fn files(
    store: &dyn Store,
    environment: Environment,
    window: Window,
) -> Result<Page<File>, Error> {
    let Window { limit, offset } = window;
    found(store, environment, Query { offset, limit, ..newest(environment, Vec::new()) }).await
}

/// Files of a purpose, or of every one, read on from a file; with the number of all that follow it.
pub(crate) async fn files_after(
    store: &dyn Store,
    environment: Environment,
    purpose: Option<Purpose>,
    Keyset { after, ascending, limit }: Keyset,
) -> Result<Page<File>, Error> {
    let mut filters = Vec::new();
    filters.extend(purpose.map(|it| Filter::AnyOf(PURPOSE, vec![purpose_term(it)])));
    filters.extend(after.map(|after| behind(after, ascending)));
    let query = Query { descending: !ascending, limit, ..newest(environment, filters) };
    found(store, environment, query).await
}

/// The newest files with a digest.
pub(crate) async fn with_digest(
    store: &dyn Store,
    environment: Environment,
    digest: Digest,
) -> Result<Vec<File>, Error> {
    let filters = vec![Filter::AnyOf(DIGEST, vec![digest_term(digest)])];
    let query = Query { limit: ALIKE, ..newest(environment, filters) };
    let page = found(store, environment, query).await?;
    Ok(page.items.into_iter().filter(|file| file.digest == digest).collect())
}

/// The query for all files that match, the newest first.
fn newest(environment: Environment, filters: Vec<Filter>) -> Query {
    let (list, order) = (file_list(environment), Order::Document);
    Query { list, filters, order, descending: true, offset: 0, limit: usize::MAX }
}

async fn found(
    store: &dyn Store,
    environment: Environment,
    query: Query,
) -> Result<Page<File>, Error> {
    let page = store.query(&query).await?;
    let mut items = Vec::with_capacity(page.documents.len());
    for id in page.documents {
        items.extend(FILES.get(store, environment.number(), &id).await?);
    }
    Ok(Page { items, total: page.total })
}

/// The first task that refers to a file and fits, and rows of tasks that refer to it no more.
pub(crate) struct Uses {
    /// The task.
    pub(crate) task: Option<TaskId>,
    /// Removals of these rows.
    pub(crate) over: Vec<Op>,
}

/// The rows of uses that are read at a time, and the most that are removed together.
const PAGE: usize = 256;

/// Looks for a task that refers to a file: any that is there with its texts, or an unfinished one.
pub(crate) async fn uses(
    store: &dyn Store,
    environment: Environment,
    file: FileId,
    is_unfinished: bool,
) -> Result<Uses, Error> {
    let (number, mut uses) = (environment.number(), Uses { task: None, over: Vec::new() });
    let mut after = (file.as_u128(), 0);
    loop {
        let page = FILE_USES.scan(store, number, Some(&after), PAGE).await?;
        for (key, ()) in &page {
            let (of, task) = (FileId::from_u128(key.0), TaskId::from_u128(key.1));
            if of != file {
                return Ok(uses);
            }
            let fits = if is_unfinished {
                tasks::unfinished_state(store, environment, task).await?.is_some()
            } else {
                tasks::has_texts(store, environment, task).await?
            };
            if fits {
                uses.task = Some(task);
                return Ok(uses);
            }
            if !is_unfinished && uses.over.len() < PAGE {
                uses.over.push(FILE_USES.delete(number, key));
            }
        }
        let Some((last, ())) = page.last() else { return Ok(uses) };
        after = *last;
    }
}

/// Removals of some of the rows that say which tasks refer to a file; none if no row is left.
pub(crate) async fn without_uses(
    store: &dyn Store,
    environment: Environment,
    file: FileId,
) -> Result<Vec<Op>, Error> {
    let (number, file) = (environment.number(), file.as_u128());
    let page = FILE_USES.scan(store, number, Some(&(file, 0)), PAGE).await?;
    let own = page.into_iter().take_while(|((of, _), ())| *of == file);
    Ok(own.map(|(key, ())| FILE_USES.delete(number, &key)).collect())
}

/// True if a task refers to a file.
pub(crate) async fn is_of(
    store: &dyn Store,
    environment: Environment,
    file: FileId,
    task: TaskId,
) -> Result<bool, Error> {
    let key = (file.as_u128(), task.as_u128());
    Ok(FILE_USES.get(store, environment.number(), &key).await?.is_some())
}

/// The tasks that refer to a file, at most `limit`, the oldest first.
pub(crate) async fn users(
    store: &dyn Store,
    environment: Environment,
    file: FileId,
    limit: usize,
) -> Result<Vec<TaskId>, Error> {
    let file = file.as_u128();
    let page = FILE_USES.scan(store, environment.number(), Some(&(file, 0)), limit).await?;
    let own = page.into_iter().take_while(|((of, _), ())| *of == file);
    Ok(own.map(|((_, task), ())| TaskId::from_u128(task)).collect())
}
