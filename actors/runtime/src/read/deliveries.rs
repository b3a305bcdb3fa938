//! Deliveries, by page.

use callboard_domain::delivery::Delivery;
use callboard_domain::id::{DeliveryId, Environment};
use callboard_domain::query::{Deliveries, Page};
use callboard_store::{Error, Filter, Order, Query, Store};

use super::{TOGETHER, together};
use crate::tables::deliveries::{delivery, subject_term};
use crate::tables::{delivery_list, delivery_term as term};

pub(crate) async fn deliveries(
    store: &dyn Store,
    environment: Environment,
    query: &Deliveries,
) -> Result<Page<Delivery>, Error> {
    let mut filters = Vec::new();
    if !query.statuses.is_empty() {
        let statuses = query.statuses.iter().map(|status| status.as_str().as_bytes().into());
        filters.push(Filter::AnyOf(term::STATUS, statuses.collect()));
    }
    let about = |subject| Filter::AnyOf(term::SUBJECT, vec![subject_term(subject)]);
    filters.extend(query.about.map(about));
    let page = Query {
        list: delivery_list(environment),
        filters,
        order: Order::Document,
        descending: true,
        offset: query.window.offset,
        limit: query.window.limit,
    };
    let page = store.query(&page).await?;
    let read = async |document| delivery(store, environment, DeliveryId::from_u128(document)).await;
    let items = together(TOGETHER, page.documents.into_iter().map(read)).await?;
    Ok(Page { items, total: page.total })
}
