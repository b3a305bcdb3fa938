//! Deleted templates. A deleted version leaves the catalog, and its row stays, marked: the plans that
//! deploys made of it are read from there, and the version never gets other content (docs/reference/templates.md).
//! A start drops the rows that nothing needs any more.

use callboard_domain::Error;
use callboard_domain::execution::Status;
use callboard_domain::id::Environment;
use callboard_domain::query::{Executions, Window};
use callboard_domain::template::{Caller, Template, Version, may_change, may_see};
use callboard_store::{Error as StoreError, Filter, Order, Outcome, Query};

use super::{Author, Published, Publisher};
use crate::durable;
use crate::handle::unreadable;
use crate::node::Node;
use crate::read::runs;
use crate::tables::plans::{self, TemplateRow};
use crate::tables::{
    TEMPLATES, TEXTS, execution_list, execution_term, plan_list, plan_term, term_of,
};

/// The number of executions that are looked at in one go.
const PAGE: usize = 100;

/// A template, or one version of it, to be deleted.
#[derive(Debug)]
pub(crate) struct Removal {
    pub(crate) environment: Environment,
    pub(crate) id: String,
    pub(crate) version: Option<Version>,
    pub(crate) author: Author,
}

impl Publisher {
    /// Deletes the template; returns the versions, the highest first.
    pub(super) async fn remove(&self, removal: Removal) -> Result<Vec<Version>, Error> {
        let Removal { environment, id, version, author } = removal;
        let catalog = &self.0.catalog;
        let caller = Caller { account: &author.account, role: author.role };
        let mut versions = catalog.versions(environment, &id);
        versions.retain(|one| {
            may_see(one.template.visibility(), one.owner.as_deref(), caller)
                && version.is_none_or(|version| version == one.template.version())
        });
        let Some(any) = versions.first() else { return Err(Error::not_found("template", &id)) };
        may_change(&id, &any.author, any.owner.as_deref(), caller, "delete it")?;
        self.refuse_if_running(environment, &id, version).await?;
        for published in &versions {
            let row = TemplateRow { removed_at: Some(self.0.now()), ..row_of(published) };
            let ops = vec![plans::template_row(environment, &row)];
            let partition = plans::template_key(&row.id, &row.version).to_be_bytes()[0];
            match durable::commit_rows(self.0.shard(partition), partition, ops).await {
                Outcome::Committed => {
                    catalog.remove(environment, &id, published.template.version());
                }
                Outcome::Fenced
                | Outcome::Conflict(_)
                | Outcome::NotApplied(_)
                | Outcome::Unknown(_) => {
                    return Err(Error::Unavailable("the deletion could not be stored"));
                }
            }
        }
        let deleted: Vec<_> = versions.iter().map(|one| one.template.version()).collect();
        let choice = catalog.choice(environment, &id);
        let left = choice.clone().without(&deleted);
        if left != choice {
            self.store_choice(environment, &id, left).await?;
        }
        Ok(deleted)
    }

    async fn refuse_if_running(
        &self,
        environment: Environment,
        id: &str,
        version: Option<Version>,
    ) -> Result<(), Error> {
        let version = version.map(|version| version.to_string());
        let mut query = Executions {
            statuses: vec![Status::Pending, Status::Running],
            template: Some(id.to_owned()),
            window: Window { limit: PAGE, offset: 0 },
            ..Executions::default()
        };
        loop {
            let page = runs::executions(&self.0, environment, &query).await;
            let page = page.map_err(|error| unreadable(&error))?;
            for running in &page.items {
                let spec = &running.execution.head.spec;
                let of = spec.template.as_ref().map(|template| &template.version);
                if version.is_none() || version.as_ref() == of {
                    let runs = "cancel the execution, or wait for its end";
                    let message = format!("template {id} is run by {}: {runs}", spec.id);
                    return Err(Error::InvalidState(message));
                }
            }
            query.window.offset += PAGE;
            if query.window.offset as u64 >= page.total {
                return Ok(());
            }
        }
    }

    /// The deleted version with this number, if there is one.
    pub(super) async fn removed(
        &self,
        environment: Environment,
        id: &str,
        version: Version,
    ) -> Result<Option<Template>, Error> {
        let found = self.0.stored_template(environment, id, &version.to_string()).await;
        found.map_err(|error| unreadable(&error))
    }
}

/// The row of a version as it was published.
pub(super) fn row_of(published: &Published) -> TemplateRow {
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
    pub(super) async fn stored_template(
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
    pub(super) async fn drop_if_unused(
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
        let _ = durable::commit_rows(self.shard(partition), partition, ops).await;
        Ok(true)
    }

    async fn count(&self, list: [u8; 2], field: u8, term: Box<[u8]>) -> Result<u64, StoreError> {
        let filters = vec![Filter::AnyOf(field, vec![term])];
        let (order, descending) = (Order::Document, false);
        let query = Query { list, filters, order, descending, offset: 0, limit: 0 };
        Ok(self.store().query(&query).await?.total)
    }
}
