//! The events that a caller asked for, as far as the caller's role permits them.

use callboard_domain::Error;
use callboard_domain::access::{Action, Caller};
use callboard_runtime::accounts::PermissionWatch;
use callboard_runtime::events::{Cursor, StreamItem, Subscription};
use callboard_wire::events::{Wanted, action, name_of};

use super::App;

/// A subscription of a caller.
#[derive(Debug)]
pub(crate) struct Feed {
    subscription: Subscription,
    wanted: Wanted,
    right: PermissionWatch,
    is_live: bool,
}

#[derive(Debug)]
pub(crate) enum FeedItem {
    /// An event, or a gap.
    Item(StreamItem),
    /// The mark behind the events that had been stored when the feed began; returned once.
    Live,
}

impl Feed {
    /// The events after `resume`, or from now on.
    pub(crate) async fn open(
        app: &App,
        caller: &Caller,
        wanted: Wanted,
        resume: Option<Cursor>,
    ) -> Result<Self, Error> {
        let passing = wanted.passing();
        let subscription = app.handle.subscribe(caller.environment, resume, passing).await?;
        let right = app.handle.right(caller, Action::EventsRead);
        Ok(Self { subscription, wanted, right, is_live: false })
    }

    /// False if events after the cursor are no longer kept.
    pub(crate) const fn resumed(&self) -> bool {
        self.subscription.resumed()
    }

    /// The cursor after which the feed goes on.
    pub(crate) fn cursor(&self) -> Cursor {
        self.subscription.cursor()
    }

    /// The next item. `None` when the service stops, or the store cannot be read.
    pub(crate) async fn next(&mut self) -> Option<FeedItem> {
        loop {
            if !self.is_live && self.subscription.is_live() {
                self.is_live = true;
                return Some(FeedItem::Live);
            }
            let item = self.subscription.next().await.ok()??;
            if self.wanted.wants(&item) && self.right.permits(action(name_of(&item))) {
                return Some(FeedItem::Item(item));
            }
        }
    }
}
