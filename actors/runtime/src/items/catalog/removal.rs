//! Deleted templates. A deleted version leaves the catalog, and its row stays, marked: the plans that
//! deploys made of it are read from there, and the version never gets other content (docs/reference/templates.md).
//! A start drops the rows that nothing needs any more.

use callboard_domain::Error;
use callboard_domain::execution::Status;
use callboard_domain::id::Environment;
use callboard_domain::query::{Executions, Window};
use callboard_domain::template::{Caller, Template, Version, may_change, may_see};
use callboard_store::Outcome;

use super::Publisher;
use crate::messages::templates::Removal;
use crate::node::catalog::row_of;
use crate::read::{runs, unreadable};
use crate::tables::plans::{self, TemplateRow};

/// The number of executions that are looked at in one go.
const PAGE: usize = 100;

impl Publisher {
    /// Deletes the template; returns the versions, the highest first.
    pub(super) async fn remove(&self, removal: Removal) -> Result<Vec<Version>, Error> {
        let Removal { environment, id, version, author } = removal;
        let catalog = &self.0.state.catalog;
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
            match self.0.shard(partition).commit_or_refuse(partition, ops).await {
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
