//! Saved views.

use callboard_domain::Error;
use callboard_domain::access::{Account, Caller};
use callboard_domain::id::{Environment, ViewId};
use callboard_domain::view::{Change, MAX_PRIVATE, MAX_SHARED, View};
use callboard_store::Op;

use super::Handle;
use crate::node::files::durable;
use crate::read::unreadable;
use crate::tables::views;

/// The partition of all views.
const PARTITION: u8 = 0;

impl Handle {
    /// The views that an account sees: its own, then the shared ones, each the oldest first.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn views(
        &self,
        environment: Environment,
        account: Account,
    ) -> Result<Vec<(ViewId, View)>, Error> {
        let mut all = self.views_of(environment, Some(account)).await?;
        all.extend(self.views_of(environment, None).await?);
        Ok(all)
    }

    /// Saves a view. After `Ok` the view survives a power cut.
    ///
    /// # Errors
    /// [`Error::InvalidState`] if there are too many, [`Error::Unavailable`].
    pub async fn create_view(
        &self,
        environment: Environment,
        view: &View,
    ) -> Result<ViewId, Error> {
        let _counting = self.node.limits.counting.lock().await;
        self.check_view_count(environment, view).await?;
        let id = ViewId::from_u128(self.node.fresh_id(self.node.now(), PARTITION));
        self.write_view(views::put(environment, id, None, view)).await?;
        Ok(id)
    }

    /// Changes a view that the caller sees; returns the view before and after.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Forbidden`], and those of [`Handle::create_view`].
    pub async fn change_view(
        &self,
        caller: &Caller,
        id: ViewId,
        change: Change,
    ) -> Result<(View, View), Error> {
        let _counting = self.node.limits.counting.lock().await;
        let before = self.view(caller, id).await?;
        let view = before.changed(caller, change)?;
        if view.shared != before.shared {
            self.check_view_count(caller.environment, &view).await?;
        }
        self.write_view(views::put(caller.environment, id, Some(&before), &view)).await?;
        Ok((before, view))
    }

    /// Deletes a view that the caller sees.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Forbidden`], [`Error::Unavailable`].
    pub async fn delete_view(&self, caller: &Caller, id: ViewId) -> Result<View, Error> {
        let _counting = self.node.limits.counting.lock().await;
        let view = self.view(caller, id).await?;
        self.write_view(vec![views::delete(caller.environment, id, &view)]).await?;
        Ok(view)
    }

    /// A view that the caller sees and may change.
    async fn view(&self, caller: &Caller, id: ViewId) -> Result<View, Error> {
        let found = views::get(self.node.store(), caller.environment, caller.account, id).await;
        let view = found.map_err(|error| unreadable(&error))?;
        let view = view.ok_or_else(|| Error::not_found("view", id))?;
        view.check_change(caller)?;
        Ok(view)
    }

    async fn check_view_count(&self, environment: Environment, view: &View) -> Result<(), Error> {
        let (of, kind, most) = if view.shared {
            (None, "shared views in the project", MAX_SHARED)
        } else {
            (Some(view.created_by), "private views of the account", MAX_PRIVATE)
        };
        if self.views_of(environment, of).await?.len() < most {
            return Ok(());
        }
        let says = format!("there are {most} {kind}, which is the limit: delete one");
        Err(Error::InvalidState(says))
    }

    async fn views_of(
        &self,
        environment: Environment,
        account: Option<Account>,
    ) -> Result<Vec<(ViewId, View)>, Error> {
        let all = views::all(self.node.store(), environment, account).await;
        all.map_err(|error| unreadable(&error))
    }

    async fn write_view(&self, ops: Vec<Op>) -> Result<(), Error> {
        let stored = durable(self.node.shard(PARTITION).commit_or_refuse(PARTITION, ops)).await;
        stored.map_err(|_| Error::Unavailable("the view could not be stored"))
    }
}
