//! A list of the server, read page by page as it is used.

use std::collections::{HashSet, VecDeque};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Callboard;
use crate::{Call, Error};

const LIMIT: u64 = 100;

/// A list: a stream of its items, read 100 at a time.
///
/// A new item comes first and moves the others on: none is seen twice. An item that leaves the list between two
/// pages (a task that ends, in a list of pending ones) moves another over the page's edge, where it is not seen;
/// read such a list whole ([`Pages::all`]) before you change its items.
#[must_use = "a list is read when its stream is"]
pub struct Pages<T> {
    cb: Callboard,
    path: Vec<String>,
    query: Vec<(&'static str, String)>,
    items: BoxStream<'static, Result<T, Error>>,
}

impl<T> std::fmt::Debug for Pages<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pages").field("path", &self.path).finish_non_exhaustive()
    }
}

impl<T: DeserializeOwned + Send + 'static> Pages<T> {
    pub(super) fn new(cb: &Callboard, path: &[&str], query: Vec<(&'static str, String)>) -> Self {
        let path: Vec<String> = path.iter().map(ToString::to_string).collect();
        let place = Place {
            cb: cb.clone(),
            path: path.clone(),
            query: query.clone(),
            offset: 0,
            seen: HashSet::new(),
            ready: VecDeque::new(),
            is_last: false,
        };
        let items = stream::try_unfold(place, |mut place| async move {
            let item = place.next().await?;
            item.map(|item| Ok((place.cb.read(item)?, place))).transpose()
        });
        Self { cb: cb.clone(), path, query, items: items.boxed() }
    }

    /// The number of items.
    ///
    /// # Errors
    /// The server refuses the list, or cannot be reached.
    pub async fn total(&self) -> Result<u64, Error> {
        let page = page(&self.cb, &self.path, &self.query, 0, 1).await?;
        Ok(page.pagination["total"].as_u64().unwrap_or_default())
    }

    /// All items.
    ///
    /// # Errors
    /// The server refuses the list, or cannot be reached.
    pub async fn all(self) -> Result<Vec<T>, Error> {
        self.items.try_collect().await
    }
}

impl<T> Stream for Pages<T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.items.poll_next_unpin(cx)
    }
}

/// The place in a list.
struct Place {
    cb: Callboard,
    path: Vec<String>,
    query: Vec<(&'static str, String)>,
    offset: u64,
    /// The identifiers of the items so far.
    seen: HashSet<String>,
    ready: VecDeque<Value>,
    is_last: bool,
}

impl Place {
    async fn next(&mut self) -> Result<Option<Value>, Error> {
        loop {
            while let Some(item) = self.ready.pop_front() {
                let id = item["id"].as_str().or_else(|| item["taskId"].as_str());
                if id.is_none_or(|id| self.seen.insert(id.to_owned())) {
                    return Ok(Some(item));
                }
            }
            if self.is_last {
                return Ok(None);
            }
            let page = page(&self.cb, &self.path, &self.query, self.offset, LIMIT).await?;
            let Value::Array(items) = page.data else {
                return Err(self.cb.unexpected(&"the list is none"));
            };
            self.offset += items.len() as u64;
            let more = page.pagination["hasMore"].as_bool().unwrap_or_default();
            self.is_last = items.is_empty() || !more;
            self.ready = items.into();
        }
    }
}

async fn page(
    cb: &Callboard,
    path: &[String],
    query: &[(&'static str, String)],
    offset: u64,
    limit: u64,
) -> Result<crate::Answer, Error> {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let call = Call::get(&path).pairs(query.to_vec());
    cb.sent(&call.query("limit", Some(limit)).query("offset", Some(offset))).await
}
