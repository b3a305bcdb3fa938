//! The rows of saved views: those of an account stand together, and so do the shared ones of a project.

use callboard_domain::access::Account;
use callboard_domain::id::{Environment, ViewId};
use callboard_domain::view::View;
use callboard_store::table::Table;
use callboard_store::{Error, Op, Store};

/// Views, by their owner and identifier.
const VIEWS: Table<(u128, u128), View> = Table::new(0x4b, 1);

/// The owner of shared views.
const ALL: u128 = 0;

const fn owner(account: Account) -> u128 {
    match account {
        Account::User(id) => id.as_u128(),
        Account::Key(id) => id.as_u128(),
    }
}

/// The place of a view.
fn key(id: ViewId, view: &View) -> (u128, u128) {
    (if view.shared { ALL } else { owner(view.created_by) }, id.as_u128())
}

/// Writes a view, which stood in the place of `before`.
pub(crate) fn put(
    environment: Environment,
    id: ViewId,
    before: Option<&View>,
    view: &View,
) -> Vec<Op> {
    let moved = before.filter(|before| key(id, before) != key(id, view));
    let mut ops: Vec<_> = moved.map(|before| delete(environment, id, before)).into_iter().collect();
    ops.push(VIEWS.put(environment.number(), &key(id, view), view, None));
    ops
}

/// Deletes a view.
pub(crate) fn delete(environment: Environment, id: ViewId, view: &View) -> Op {
    VIEWS.delete(environment.number(), &key(id, view))
}

/// A view that an account sees.
pub(crate) async fn get(
    store: &dyn Store,
    environment: Environment,
    account: Account,
    id: ViewId,
) -> Result<Option<View>, Error> {
    let number = environment.number();
    match VIEWS.get(store, number, &(owner(account), id.as_u128())).await? {
        Some(own) => Ok(Some(own)),
        None => VIEWS.get(store, number, &(ALL, id.as_u128())).await,
    }
}

/// The private views of an account; without one, the shared views.
pub(crate) async fn all(
    store: &dyn Store,
    environment: Environment,
    account: Option<Account>,
) -> Result<Vec<(ViewId, View)>, Error> {
    let owner = account.map_or(ALL, owner);
    let rows = VIEWS.range(store, environment.number(), &(owner, 0), &(owner, u128::MAX)).await?;
    Ok(rows.into_iter().map(|((_, id), view)| (ViewId::from_u128(id), view)).collect())
}
