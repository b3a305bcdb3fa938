//! The log of events, read on by itself over broken connections.

use futures_util::Stream;
use futures_util::stream;

use super::{Callboard, Outage};
use crate::{Call, Error, Event, EventStream};

/// A read of the log: what to read, and from where on.
#[derive(Debug, Clone)]
pub struct EventLog {
    cb: Callboard,
    query: Vec<(&'static str, String)>,
    after: Option<String>,
}

impl Callboard {
    /// The events that happen from now on, in their order. A broken connection is made good, and no event is
    /// missed, while the server keeps them.
    ///
    /// ```no_run
    /// use futures_util::TryStreamExt;
    ///
    /// # async fn example(cb: callboard_client::Callboard) -> Result<(), callboard_client::Error> {
    /// let mut events = cb.events().names(["task.completed"]).stream();
    /// while let Some(event) = events.try_next().await? {
    ///     println!("{}", event.body["taskId"]);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn events(&self) -> EventLog {
        EventLog { cb: self.clone(), query: Vec::new(), after: None }
    }

    /// The place in the log of this moment, for [`EventLog::after`].
    ///
    /// # Errors
    /// The server refuses it, or cannot be reached.
    pub async fn cursor(&self) -> Result<Option<String>, Error> {
        let call = Call::get(&["events"]).events_after(None);
        let mut events = EventStream::open(&self.client, &call).await?;
        Ok(events.place().await)
    }
}

impl EventLog {
    /// Only events of these names, such as `task.completed`.
    #[must_use]
    pub fn names(self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        self.with("events", names.join(","))
    }

    /// Only events of this task.
    #[must_use]
    pub fn task(self, id: impl Into<String>) -> Self {
        self.with("taskId", id.into())
    }

    /// Only events of this execution.
    #[must_use]
    pub fn execution(self, id: impl Into<String>) -> Self {
        self.with("executionId", id.into())
    }

    /// Only events of this queue.
    #[must_use]
    pub fn queue(self, name: impl Into<String>) -> Self {
        self.with("queue", name.into())
    }

    /// Only events of things with all of these tags.
    #[must_use]
    pub fn tags(self, tags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let tags: Vec<String> = tags.into_iter().map(Into::into).collect();
        self.with("tags", tags.join(","))
    }

    /// From the event after this cursor on: the `cursor` of an event, or [`Callboard::cursor`].
    #[must_use]
    pub fn after(self, cursor: impl Into<String>) -> Self {
        Self { after: Some(cursor.into()), ..self }
    }

    fn with(mut self, name: &'static str, value: String) -> Self {
        self.query.push((name, value));
        self
    }

    /// The events. The stream ends with an error, if the server refuses it or is away for longer than the client's
    /// patience; with [`Error::EventGap`], if it does not keep the events any more.
    pub fn stream(self) -> impl Stream<Item = Result<Event, Error>> + Send + Unpin + use<> {
        let outage = Outage::new(self.cb.patience);
        let state = Reading { log: self, open: None, outage };
        Box::pin(stream::try_unfold(state, |mut state| async move {
            state.next().await.map(|event| Some((event, state)))
        }))
    }
}

struct Reading {
    log: EventLog,
    open: Option<EventStream>,
    outage: Outage,
}

impl Reading {
    async fn next(&mut self) -> Result<Event, Error> {
        loop {
            if let Some(open) = &mut self.open {
                let event = open.next().await;
                // The caller has every event before this one, so the next connection goes on from here.
                if let Some(place) = open.last_id() {
                    self.log.after = Some(place.to_owned());
                }
                if let Some(event) = event {
                    self.outage.over();
                    if event.name == "gap" {
                        let to = event.body["to"].as_str().unwrap_or_default().to_owned();
                        return Err(Error::EventGap { to });
                    }
                    if let Some(cursor) = event.body["cursor"].as_str() {
                        self.log.after = Some(cursor.to_owned());
                    }
                    return Ok(event);
                }
                self.open = None;
                let server = self.log.cb.client.server().to_string();
                let reason = "the stream of events broke".to_owned();
                self.outage.pause(Error::Unreachable { server, reason }).await?;
            }
            let call = Call::get(&["events"]).pairs(self.log.query.clone());
            let call = call.events_after(self.log.after.as_deref()).at_once();
            match EventStream::open(&self.log.cb.client, &call).await {
                Ok(open) => self.open = Some(open),
                Err(error) => self.outage.pause(error).await?,
            }
        }
    }
}
