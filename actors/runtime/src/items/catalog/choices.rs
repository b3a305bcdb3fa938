//! The choice among the versions of a template, durable and in memory: the latest, and retired versions.

use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::id::Environment;
use callboard_domain::template::{Caller, Choice, may_change, may_see};
use callboard_store::Outcome;

use super::Publisher;
use crate::messages::templates::{ChoiceOrder, Choosing, Published};
use crate::tables::TEMPLATE_CHOICES;
use crate::tables::plans::{ChoiceRow, template_key};

impl Publisher {
    /// Changes the choice for a template; returns the version that it is about, or the latest.
    pub(super) async fn choose(&self, order: ChoiceOrder) -> Result<Arc<Published>, Error> {
        let ChoiceOrder { environment, id, choosing, author } = order;
        let catalog = &self.0.state.catalog;
        let caller = Caller { account: &author.account, role: author.role };
        let missing = || Error::not_found("template", &id);
        let mut versions = catalog.versions(environment, &id);
        versions.retain(|one| may_see(one.template.visibility(), one.owner.as_deref(), caller));
        let any = versions.first().ok_or_else(missing)?;
        may_change(&id, &any.author, any.owner.as_deref(), caller, choosing.what())?;
        if let Some(version) = choosing.version()
            && !versions.iter().any(|one| one.template.version() == version)
        {
            return Err(Error::not_found("version", format!("{version} of template {id}")));
        }
        let before = catalog.choice(environment, &id);
        let next = match choosing {
            Choosing::Latest(version) if before.retired_at(version).is_some() => {
                let why =
                    format!("version {version} of template {id} is retired: restore it first");
                return Err(Error::InvalidState(why));
            }
            Choosing::Latest(version) => before.clone().with_latest(Some(version)),
            Choosing::Highest => before.clone().with_latest(None),
            Choosing::Retire(version) => before.clone().retire(version, self.0.now()),
            Choosing::Restore(version) => before.clone().restore(version),
        };
        if next != before {
            self.store_choice(environment, &id, next).await?;
        }
        catalog.template(environment, &id, choosing.version()).ok_or_else(missing)
    }

    /// Makes a choice durable.
    pub(super) async fn store_choice(
        &self,
        environment: Environment,
        id: &str,
        choice: Choice,
    ) -> Result<(), Error> {
        let key = template_key(id, "");
        let row = ChoiceRow { id: id.to_owned(), choice: choice.clone() };
        let ops = TEMPLATE_CHOICES.put(environment.number(), key, &row, None);
        let partition = key.to_be_bytes()[0];
        match self.0.shard(partition).commit_or_refuse(partition, ops).await {
            Outcome::Committed => {
                self.0.state.catalog.keep_choice(environment, id.to_owned(), choice);
                Ok(())
            }
            Outcome::Fenced
            | Outcome::Conflict(_)
            | Outcome::NotApplied(_)
            | Outcome::Unknown(_) => Err(Error::Unavailable("the choice could not be stored")),
        }
    }
}
