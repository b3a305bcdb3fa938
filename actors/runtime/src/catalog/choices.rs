//! The choice among the versions of a template, durable and in memory: the latest, and retired versions.
//!
//! Deliberately absent: the rules, which are [`callboard_domain::template::Choice`]'s.

use std::sync::{Arc, PoisonError};

use callboard_domain::id::Environment;
use callboard_domain::template::{Caller, Choice, Version, may_change, may_see};
use callboard_domain::{Error, Timestamp};
use callboard_store::{Error as StoreError, Outcome};

use super::{Author, Catalog, PAGE, Published, Publisher};
use crate::durable;
use crate::node::Node;
use crate::tables::TEMPLATE_CHOICES;
use crate::tables::plans::{ChoiceRow, template_key};

/// The change of a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choosing {
    /// This version is the latest, whatever is published later.
    Latest(Version),
    /// The highest version that is not retired is the latest.
    Highest,
    /// No deploy takes this version any more.
    Retire(Version),
    /// Deploys may take this version again.
    Restore(Version),
}

impl Choosing {
    const fn version(self) -> Option<Version> {
        match self {
            Self::Latest(version) | Self::Retire(version) | Self::Restore(version) => Some(version),
            Self::Highest => None,
        }
    }

    const fn what(self) -> &'static str {
        match self {
            Self::Latest(_) | Self::Highest => "set its latest version",
            Self::Retire(_) => "retire a version of it",
            Self::Restore(_) => "restore a version of it",
        }
    }
}

/// The place of a version among those of its template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// True if a deploy without a version takes this one.
    pub is_latest: bool,
    /// True if it was set as the latest.
    pub is_set: bool,
    /// The time at which it was retired.
    pub retired_at: Option<Timestamp>,
}

/// A change for the catalog's actor.
#[derive(Debug)]
pub(crate) struct ChoiceOrder {
    pub(crate) environment: Environment,
    pub(crate) id: String,
    pub(crate) choosing: Choosing,
    pub(crate) author: Author,
}

impl Catalog {
    /// The choice for a template.
    pub(crate) fn choice(&self, environment: Environment, id: &str) -> Choice {
        let choices = self.choices.read().unwrap_or_else(PoisonError::into_inner);
        choices.get(&(environment, id.to_owned())).cloned().unwrap_or_default()
    }

    /// The place of a version.
    pub(crate) fn standing(&self, environment: Environment, published: &Published) -> Standing {
        let (id, version) = (published.template.id(), published.template.version());
        let choice = self.choice(environment, id);
        let latest = self.template(environment, id, None);
        Standing {
            is_latest: latest.is_some_and(|latest| latest.template.version() == version),
            is_set: choice.is_set(version),
            retired_at: choice.retired_at(version),
        }
    }

    fn keep_choice(&self, environment: Environment, id: String, choice: Choice) {
        let mut choices = self.choices.write().unwrap_or_else(PoisonError::into_inner);
        if choice == Choice::default() {
            choices.remove(&(environment, id));
        } else {
            choices.insert((environment, id), choice);
        }
    }
}

impl Publisher {
    /// Changes the choice for a template; returns the version that it is about, or the latest.
    pub(super) async fn choose(&self, order: ChoiceOrder) -> Result<Arc<Published>, Error> {
        let ChoiceOrder { environment, id, choosing, author } = order;
        let catalog = &self.0.catalog;
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
        match durable::commit_rows(self.0.shard(partition), partition, ops).await {
            Outcome::Committed => {
                self.0.catalog.keep_choice(environment, id.to_owned(), choice);
                Ok(())
            }
            Outcome::Fenced
            | Outcome::Conflict(_)
            | Outcome::NotApplied(_)
            | Outcome::Unknown(_) => Err(Error::Unavailable("the choice could not be stored")),
        }
    }
}

impl Node {
    /// Reads the choices of an environment.
    pub(super) async fn load_choices(&self, environment: Environment) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let (store, number) = (self.store(), environment.number());
            let page = TEMPLATE_CHOICES.scan(store, number, after.as_ref(), PAGE).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = Some(*last);
            for (_, ChoiceRow { id, choice }) in page {
                self.catalog.keep_choice(environment, id, choice);
            }
        }
    }

    /// Passes unless the version is retired.
    ///
    /// # Errors
    /// [`Error::InvalidState`], which names a version that can be deployed.
    pub(crate) fn check_in_use(
        &self,
        environment: Environment,
        id: &str,
        version: Version,
    ) -> Result<(), Error> {
        let choice = self.catalog.choice(environment, id);
        if choice.retired_at(version).is_none() {
            return Ok(());
        }
        let latest = self.catalog.template(environment, id, None);
        let latest = latest.map(|latest| latest.template.version());
        let way_out = match latest.filter(|latest| choice.retired_at(*latest).is_none()) {
            Some(latest) => format!("version {latest} can be deployed"),
            None => "restore it, or publish another".to_owned(),
        };
        Err(Error::InvalidState(format!(
            "version {version} of template {id} is retired: {way_out}"
        )))
    }
}
