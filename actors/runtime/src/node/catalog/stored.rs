//! Versions of templates in the store, deleted ones among them.

use callboard_domain::id::Environment;
use callboard_domain::template::Template;
use callboard_store::{Error as StoreError, Filter, Order, Query};

use crate::messages::templates::Published;
use crate::node::Node;
use crate::tables::plans::{self, TemplateRow};
use crate::tables::{
    TEMPLATES, TEXTS, execution_list, execution_term, plan_list, plan_term, term_of,
};

/// The row of a version as it was published.
pub(crate) fn row_of(published: &Published) -> TemplateRow {
    TemplateRow {
        id: published.template.id().to_owned(),
        version: published.template.version().to_string(),
        author: published.author.clone(),
        account: published.owner.clone(),
        created_at: published.created_at,
        removed_at: None,
    }
}

impl Node {
    /// A version of a template from the store, deleted or not.
    pub(crate) async fn stored_template(
        &self,
        environment: Environment,
        id: &str,
        version: &str,
    ) -> Result<Option<Template>, StoreError> {
        let key = plans::template_key(id, version);
        let Some(row) = TEMPLATES.get(self.store(), environment.number(), &key).await? else {
            return Ok(None);
        };
        let source = plans::template_source(self.store(), environment, &row).await?;
        let restored = Template::restored(source);
        restored.map(Some).map_err(|problems| StoreError::Corrupt {
            path: format!("template {id} {version}"),
            reason: problems.to_string(),
        })
    }

    /// Drops a deleted version that no plan and no execution was made of; true if it did. Only a start may call
    /// this: later a deploy may be on its way that knew the version before its deletion.
    pub(crate) async fn drop_if_unused(
        &self,
        environment: Environment,
        row: &TemplateRow,
    ) -> Result<bool, StoreError> {
        let of_plans = plan_term::TEMPLATE;
        let version = Box::from(plans::template_key(&row.id, &row.version).to_be_bytes());
        let plans = self.count(plan_list(environment), of_plans, version).await?;
        let of_executions = execution_term::TEMPLATE;
        let template = term_of(&row.id);
        let runs = self.count(execution_list(environment), of_executions, template).await?;
        if plans + runs > 0 {
            return Ok(false);
        }
        let (key, number) = (plans::template_key(&row.id, &row.version), environment.number());
        let mut ops = TEXTS.delete_all(self.store(), number, key).await?;
        ops.push(TEMPLATES.delete(number, &key));
        let partition = key.to_be_bytes()[0];
        // If that fails, the next start drops it.
        let _ = self.shard(partition).commit(partition, ops).await;
        Ok(true)
    }

    async fn count(&self, list: [u8; 2], field: u8, term: Box<[u8]>) -> Result<u64, StoreError> {
        let filters = vec![Filter::AnyOf(field, vec![term])];
        let (order, descending) = (Order::Document, false);
        let query = Query { list, filters, order, descending, offset: 0, limit: 0 };
        Ok(self.store().query(&query).await?.total)
    }
}
