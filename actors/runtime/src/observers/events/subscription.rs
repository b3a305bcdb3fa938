//! One subscriber's place in the events.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use callboard_domain::id::Environment;
use callboard_store::Error;
use tokio::sync::{broadcast, watch};

use super::{Cursor, Events, LAST, PART, Piece, StreamItem, Transient, next_record};
use crate::tables::{self, Subject};

impl Events {
    /// The events after `cursor`, or from now on.
    pub(crate) async fn subscribe(
        self: &Arc<Self>,
        environment: Environment,
        cursor: Option<Cursor>,
        passing: Transient,
    ) -> Result<Subscription, Error> {
        let streams = self.streams.of(environment);
        let committed = self.committed.subscribe();
        let deltas = passing.deltas.then(|| streams.deltas.subscribe());
        let depths = passing.depths.then(|| streams.depths.subscribe());
        let (oldest, newest) = self.store.log_bounds(tables::event_log(environment)).await?;
        let now = newest << PART | LAST;
        let (after, resumed) = match cursor {
            Some(cursor)
                if next_record(cursor.place) >= oldest
                    && cursor.place <= now
                    && self.knows(environment, cursor) =>
            {
                (cursor.place, true)
            }
            Some(_) => (now, false),
            None => (now, true),
        };
        Ok(Subscription {
            events: Arc::clone(self),
            environment,
            after,
            begins: now,
            resumed,
            is_behind: true,
            committed,
            deltas,
            depths,
            pieces: Vec::new(),
            ahead: VecDeque::new(),
        })
    }
}

/// One subscriber's place in the events.
#[derive(Debug)]
pub struct Subscription {
    events: Arc<Events>,
    environment: Environment,
    after: u64,
    begins: u64,
    resumed: bool,
    /// The log may hold more than was read.
    is_behind: bool,
    committed: watch::Receiver<()>,
    deltas: Option<broadcast::Receiver<Weak<Piece>>>,
    depths: Option<broadcast::Receiver<StreamItem>>,
    /// The pieces that came, until the stored events before them were read.
    pieces: Vec<Weak<Piece>>,
    ahead: VecDeque<Ahead>,
}

/// A coming item. A piece may be dropped before it is read.
#[derive(Debug)]
enum Ahead {
    Item(StreamItem),
    Piece(Weak<Piece>),
}

impl Ahead {
    fn item(self) -> Option<StreamItem> {
        match self {
            Self::Item(item) => Some(item),
            Self::Piece(piece) => piece.upgrade().map(StreamItem::Delta),
        }
    }
}

impl Subscription {
    /// True if the subscription goes on where the cursor was; otherwise records between are gone, and the
    /// state is to be read anew.
    #[must_use]
    pub const fn resumed(&self) -> bool {
        self.resumed
    }

    /// The place that was read up to.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        self.events.cursor(self.environment, self.after)
    }

    /// True once every event was returned that had been stored when the subscription began.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.ahead.is_empty() && self.after >= self.begins
    }

    /// Leaves out the events up to now; returns the place from which it goes on.
    ///
    /// # Errors
    /// The store failed.
    pub async fn skip(&mut self) -> Result<Cursor, Error> {
        let (_, newest) = self.events.store.log_bounds(tables::event_log(self.environment)).await?;
        self.after = self.after.max(newest << PART | LAST);
        self.ahead.clear();
        Ok(self.cursor())
    }

    /// The next item; waits for it. `None` when the service stops. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The store failed.
    pub async fn next(&mut self) -> Result<Option<StreamItem>, Error> {
        loop {
            while let Some(ahead) = self.ahead.pop_front() {
                if let Some(item) = ahead.item() {
                    return Ok(Some(item));
                }
            }
            if self.is_behind {
                self.committed.borrow_and_update();
                let (reached, events) = self.events.read(self.environment, self.after).await?;
                self.pieces.extend(self.deltas.as_mut().map(waiting).unwrap_or_default());
                self.pieces.retain(|piece| piece.strong_count() > 0);
                let depths = self.depths.as_mut().map(waiting).unwrap_or_default();
                self.ahead.extend(depths.into_iter().map(Ahead::Item));
                self.is_behind = reached > self.after;
                self.after = reached;
                for event in events {
                    let pieces = earlier(&mut self.pieces, &event);
                    self.ahead.extend(pieces.into_iter().map(Ahead::Piece));
                    self.ahead.push_back(Ahead::Item(event));
                }
                if !self.is_behind {
                    self.ahead.extend(self.pieces.drain(..).map(Ahead::Piece));
                }
                continue;
            }
            tokio::select! {
                biased;
                piece = passed(&mut self.deltas) => {
                    if self.committed.has_changed().unwrap_or_default() {
                        self.pieces.push(piece);
                        self.is_behind = true;
                    } else if let Some(piece) = piece.upgrade() {
                        return Ok(Some(StreamItem::Delta(piece)));
                    }
                }
                item = passed(&mut self.depths) => return Ok(Some(item)),
                committed = self.committed.changed() => match committed {
                    Ok(()) => self.is_behind = true,
                    Err(_) => return Ok(None),
                },
            }
        }
    }
}

/// Takes the pieces that belong before a stored event: those of the same task whose attempt began earlier.
fn earlier(pieces: &mut Vec<Weak<Piece>>, event: &StreamItem) -> Vec<Weak<Piece>> {
    let StreamItem::Stored(_, row) = event else { return Vec::new() };
    let (Subject::Task(task) | Subject::TaskOfStep(_, _, task)) = &row.subject else {
        return Vec::new();
    };
    let is_earlier = |piece: &mut Weak<Piece>| {
        let is_earlier =
            |delta: Arc<Piece>| delta.task.id == task.spec.id && delta.version < task.version;
        piece.upgrade().is_some_and(is_earlier)
    };
    pieces.extract_if(.., is_earlier).collect()
}

/// The passing events that are there.
fn waiting<T: Clone>(passing: &mut broadcast::Receiver<T>) -> Vec<T> {
    let mut waiting = Vec::new();
    loop {
        match passing.try_recv() {
            Ok(item) => waiting.push(item),
            Err(broadcast::error::TryRecvError::Lagged(_)) => {}
            Err(_) => return waiting,
        }
    }
}

/// The next passing event; never ready if there is none.
async fn passed<T: Clone>(passing: &mut Option<broadcast::Receiver<T>>) -> T {
    if let Some(passing) = passing {
        loop {
            match passing.recv().await {
                Ok(item) => return item,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => break,
            }
        }
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use callboard_domain::Timestamp;
    use callboard_domain::task::Task;

    use super::super::Published;
    use super::super::tests::piece;
    use super::*;
    use crate::tables::Event;
    use crate::tables::golden::full_task;

    #[test]
    fn a_piece_comes_before_the_end_of_its_attempt_and_after_the_begin() {
        let task = Task { version: 2, ..full_task() };
        let (event, subject) = ("task.started".into(), Subject::Task(Arc::new(task)));
        let event = Event { event, at: Timestamp::from_millis(0), subject };
        let event =
            StreamItem::Stored(Cursor { place: 64, mark: None }, Arc::new(Published::new(event)));
        let kept = [1, 2].map(|version| Arc::new(Published::new(piece(version))));
        let mut pieces: Vec<_> = kept.iter().map(Arc::downgrade).collect();
        let before = earlier(&mut pieces, &event);
        let versions = |pieces: &[Weak<Piece>]| -> Vec<_> {
            pieces.iter().map(|piece| piece.upgrade().expect("it is kept").version).collect()
        };
        assert_eq!((versions(&before), versions(&pieces)), (vec![1], vec![2]));
    }
}
