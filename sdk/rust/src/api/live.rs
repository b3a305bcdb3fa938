//! A task or an execution that can be waited for.

use std::ops::Deref;

use futures_util::stream::{self, BoxStream, StreamExt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::types::{Execution, Task};
use super::{Callboard, Outage};
use crate::{Call, Error, Event, EventStream};

/// The events of an item's stream.
pub type Following = BoxStream<'static, Result<Event, Error>>;

const ENDED: [&str; 4] = ["completed", "failed", "cancelled", "rejected"];

/// An item with an end: a task or an execution.
pub trait Item: DeserializeOwned + Send + Sync + 'static {
    /// The word for it.
    const KIND: &'static str;
    /// The segments of its path before its identifier.
    const PATH: &'static [&'static str];
    /// The identifier.
    fn id(&self) -> &str;
    /// The status.
    fn status(&self) -> &str;
    /// The code and the text of its failure, if it failed.
    fn failure(&self) -> Option<(String, String)>;
}

impl Item for Task {
    const KIND: &'static str = "task";
    const PATH: &'static [&'static str] = &["tasks"];

    fn id(&self) -> &str {
        &self.id
    }

    fn status(&self) -> &str {
        &self.status
    }

    fn failure(&self) -> Option<(String, String)> {
        self.error.as_ref().map(|error| (error.code.clone(), error.message.clone()))
    }
}

impl Item for Execution {
    const KIND: &'static str = "execution";
    const PATH: &'static [&'static str] = &["plans", "executions"];

    fn id(&self) -> &str {
        &self.id
    }

    fn status(&self) -> &str {
        &self.status
    }

    fn failure(&self) -> Option<(String, String)> {
        self.error.as_ref().map(|error| (error.code.clone(), error.message.clone()))
    }
}

/// An item as the server last showed it, which can be read again and waited for.
#[derive(Debug, Clone)]
pub struct Live<T> {
    pub(super) cb: Callboard,
    item: T,
}

impl<T> Deref for Live<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.item
    }
}

impl<T: Item> Live<T> {
    pub(super) fn new(cb: &Callboard, item: T) -> Self {
        Self { cb: cb.clone(), item }
    }

    /// The item alone.
    pub fn into_inner(self) -> T {
        self.item
    }

    /// Reads the item again.
    ///
    /// # Errors
    /// The server refuses it, or cannot be reached.
    pub async fn refresh(&mut self) -> Result<(), Error> {
        let path = path::<T>(self.item.id());
        self.item = self.cb.one(Call::get(&path), false).await?;
        Ok(())
    }

    /// Waits until the item has completed, over broken connections and restarts of the server. Dropping the
    /// future, as `tokio::time::timeout` does, ends the wait and not the item.
    ///
    /// # Errors
    /// [`Error::Ended`], if it ended in another way; the server refuses it, or was away for too long.
    pub async fn wait(self) -> Result<Self, Error> {
        self.wait_ended().await?.checked()
    }

    /// Waits until the item has ended, in whatever way.
    ///
    /// # Errors
    /// The server refuses it, or was away for too long.
    pub async fn wait_ended(mut self) -> Result<Self, Error> {
        let mut events = Follow::new::<T>(&self.cb, self.item.id());
        while let Some(event) = events.next().await? {
            if event.name == "end" {
                self.item = self.cb.read(event.body)?;
            }
        }
        Ok(self)
    }

    /// The events of the item's stream: `snapshot` first, `end` last; after a broken connection a `snapshot` again.
    /// See the server's page on events for their members.
    #[must_use]
    pub fn follow(&self) -> Following {
        Follow::new::<T>(&self.cb, self.item.id()).stream()
    }

    pub(super) fn checked(self) -> Result<Self, Error> {
        if self.item.status() == "completed" {
            return Ok(self);
        }
        let (code, message) = self.item.failure().unzip();
        let status = match self.item.status() {
            "failed" => "failed".to_owned(),
            other => format!("was {other}"),
        };
        let item = format!("{} {}", T::KIND, self.item.id());
        Err(Error::Ended { item, status, code, message: message.unwrap_or_default() })
    }
}

fn path<T: Item>(id: &str) -> Vec<&str> {
    T::PATH.iter().copied().chain([id]).collect()
}

/// The events of an item's stream until its `end`, over broken connections.
pub(super) struct Follow {
    cb: Callboard,
    path: Vec<String>,
    open: Option<EventStream>,
    outage: Outage,
    is_over: bool,
}

impl Follow {
    pub(super) fn new<T: Item>(cb: &Callboard, id: &str) -> Self {
        let path = path::<T>(id).into_iter().map(str::to_owned).collect();
        let outage = Outage::new(cb.patience);
        Self { cb: cb.clone(), path, open: None, outage, is_over: false }
    }

    /// The next event; `None` after the `end`.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, Error> {
        while !self.is_over {
            if let Some(open) = &mut self.open {
                if let Some(event) = open.next().await {
                    self.outage.over();
                    self.is_over = event.name == "end";
                    return Ok(Some(event));
                }
                self.open = None;
            }
            let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
            let stream: Vec<&str> = path.iter().copied().chain(["stream"]).collect();
            let call = Call::get(&stream).events_after(None).at_once();
            match EventStream::open(&self.cb.client, &call).await {
                Ok(open) => self.open = Some(open),
                Err(error) => {
                    self.outage.pause(error).await?;
                    // A server that has no stream left may yet answer a read.
                    if let Ok(body) = self.cb.client.data(Call::get(&path).at_once()).await {
                        self.outage.over();
                        if body["status"].as_str().is_some_and(|status| ENDED.contains(&status)) {
                            self.is_over = true;
                            return Ok(Some(end(body)));
                        }
                    }
                }
            }
        }
        Ok(None)
    }
}

impl Follow {
    pub(super) fn stream(self) -> Following {
        let events = stream::try_unfold(self, |mut events| async move {
            Ok(events.next().await?.map(|event| (event, events)))
        });
        events.boxed()
    }

    /// Checks the `end` of an item.
    pub(super) fn ended<T: Item>(&self, event: &Event) -> Result<(), Error> {
        Live::<T>::new(&self.cb, self.cb.read(event.body.clone())?).checked().map(drop)
    }
}

fn end(body: Value) -> Event {
    Event { name: "end".to_owned(), body }
}
