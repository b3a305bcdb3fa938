//! Templates by themselves: their versions, lists and estimates (docs/reference/templates.md).

use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::estimate::{self, Estimate};
use callboard_domain::id::Environment;
use callboard_domain::query::{Page, Templates};
use callboard_domain::template::{Caller, Overrides, Template, TemplateSource, Version, may_see};
use tokio::sync::oneshot;

use super::{COMMAND, Handle, within};
use crate::items::catalog::{
    self, Author, ChoiceOrder, Choosing, Publication, PublishOutcome, Published, Removal, Standing,
};
use crate::kernel::compute::Weight;
use crate::read::answers::{self, Lengths, Of};
use crate::read::unreadable;

impl Handle {
    /// Adds a version of a template; tells an added version from one that was there before.
    ///
    /// # Errors
    /// [`Error::InvalidDefinition`] with every fault, [`Error::VersionExists`],
    /// [`Error::Forbidden`], [`Error::TooMuchWaits`], [`Error::Unavailable`].
    pub async fn publish(
        &self,
        environment: Environment,
        author: Author,
        source: TemplateSource,
    ) -> Result<PublishOutcome, Error> {
        let node = Arc::clone(&self.node);
        let weight = (!source.is_brief()).then(|| Weight::new(source.size(), || source.takes()));
        let compile = move || Template::compile(source, node.env_allow(environment));
        let template = self.ask(environment, &author.account, weight, compile).await?;
        let template = template.map_err(Error::InvalidDefinition)?;
        let publication = Publication { environment, template, author };
        let (reply, answer) = oneshot::channel();
        let publisher = self.node.actors.publisher.get().ok_or(super::STOPPING)?;
        let message = catalog::Message::Publish(Box::new(publication), reply);
        publisher.cast(message).map_err(|_| super::STOPPING)?;
        within(COMMAND, answer).await?
    }

    /// Deletes a template, or one version of it; returns the versions, the highest first. Executions
    /// that ended keep their plan.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Forbidden`] if it is another account's or built in,
    /// [`Error::InvalidState`] while an execution of it runs, [`Error::Unavailable`].
    pub async fn remove_template(
        &self,
        environment: Environment,
        author: Author,
        id: &str,
        version: Option<&str>,
    ) -> Result<Vec<Version>, Error> {
        let missing = || Error::not_found("template", id);
        let version = version.map(|version| version.parse().map_err(|_| missing())).transpose()?;
        let removal = Removal { environment, id: id.to_owned(), version, author };
        let (reply, answer) = oneshot::channel();
        let publisher = self.node.actors.publisher.get().ok_or(super::STOPPING)?;
        publisher.cast(catalog::Message::Remove(removal, reply)).map_err(|_| super::STOPPING)?;
        within(COMMAND, answer).await?
    }

    /// Sets the latest version of a template, or retires or restores a version. Returns the version that it is about,
    /// or the latest. After `Ok` deploys follow the choice, also after a restart.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Forbidden`] if it is another account's or built in,
    /// [`Error::InvalidState`] if a retired version is to be the latest, [`Error::Unavailable`].
    pub async fn choose_version(
        &self,
        environment: Environment,
        author: Author,
        id: &str,
        choosing: Choosing,
    ) -> Result<Arc<Published>, Error> {
        let order = ChoiceOrder { environment, id: id.to_owned(), choosing, author };
        let (reply, answer) = oneshot::channel();
        let publisher = self.node.actors.publisher.get().ok_or(super::STOPPING)?;
        publisher.cast(catalog::Message::Choose(order, reply)).map_err(|_| super::STOPPING)?;
        within(COMMAND, answer).await?
    }

    /// The place of a version among those of its template.
    #[must_use]
    pub fn standing(&self, environment: Environment, published: &Published) -> Standing {
        self.node.state.catalog.standing(environment, published)
    }

    /// A version of a template, or the latest.
    ///
    /// # Errors
    /// [`Error::NotFound`], also for a template that `caller` may not see.
    pub fn template(
        &self,
        environment: Environment,
        caller: Caller<'_>,
        id: &str,
        version: Option<&str>,
    ) -> Result<Arc<Published>, Error> {
        let missing = || Error::not_found("template", id);
        let wanted: Option<Version> = match version {
            Some(version) => Some(version.parse().map_err(|_| missing())?),
            None => None,
        };
        let found = self.node.state.catalog.template(environment, id, wanted);
        if let (None, Some(version)) = (&found, version) {
            // Says which of the two is missing, if the caller may see the template.
            self.template(environment, caller, id, None)?;
            return Err(Error::not_found("version", format!("{version} of template {id}")));
        }
        let seen = |found: &Arc<Published>| {
            may_see(found.template.visibility(), found.owner.as_deref(), caller)
        };
        found.filter(seen).ok_or_else(missing)
    }

    /// All versions of a template that `caller` may see, the highest first.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none.
    pub fn template_versions(
        &self,
        environment: Environment,
        caller: Caller<'_>,
        id: &str,
    ) -> Result<Vec<Arc<Published>>, Error> {
        let mut versions = self.node.state.catalog.versions(environment, id);
        versions.retain(|one| may_see(one.template.visibility(), one.owner.as_deref(), caller));
        if versions.is_empty() { Err(Error::not_found("template", id)) } else { Ok(versions) }
    }

    /// Templates that `caller` may see, and their total number.
    #[must_use]
    pub fn templates(
        &self,
        environment: Environment,
        query: &Templates,
        caller: Caller<'_>,
    ) -> Page<Arc<Published>> {
        self.node.state.catalog.list(environment, query, caller)
    }

    /// The cost and the duration of a run of a template: as it declares, else by history or
    /// prices. `account` asks.
    ///
    /// # Errors
    /// [`Error::TooMuchWaits`], [`Error::Unavailable`].
    pub async fn estimate(
        &self,
        environment: Environment,
        account: &str,
        published: &Published,
    ) -> Result<(f64, u64), Error> {
        let template = &published.template;
        let declared = (template.declared_cost(), template.declared_duration_ms());
        if let (Some(cost), Some(duration)) = declared {
            return Ok((cost, duration));
        }
        let now = self.node.now();
        if let Some(known) = self.node.state.catalog.estimate(environment, template, now) {
            return Ok(known);
        }
        let bytes = (!template.source().is_brief()).then(|| template.source().size());
        let (node, deployed) = (Arc::clone(&self.node), template.clone());
        let deploy = move || deployed.deploy(&Overrides::default(), node.env_allow(environment));
        let made = self.ask(environment, account, bytes, deploy).await?;
        let plan = made.map_err(Error::InvalidDefinition)?.plan;
        let of = Of::Template(template.id());
        let past = answers::past(&self.node, environment, of, Lengths::Unread).await;
        let (past, _) = past.map_err(|error| unreadable(&error))?;
        let model = &self.node.settings.task_defaults.model;
        let Estimate { cost, duration_ms, .. } =
            estimate::of_plan(&plan, model, &past, &self.node.limits.prices.get());
        let estimate = (declared.0.unwrap_or(cost), declared.1.unwrap_or(duration_ms));
        self.node.state.catalog.keep_estimate(environment, template, now, estimate);
        Ok(estimate)
    }
}
