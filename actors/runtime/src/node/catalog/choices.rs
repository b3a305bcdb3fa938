//! The choices among the versions of templates, in memory: the latest, and retired versions.

use std::sync::PoisonError;

use callboard_domain::Error;
use callboard_domain::id::Environment;
use callboard_domain::template::{Choice, Version};
use callboard_store::Error as StoreError;

use super::{Catalog, PAGE};
use crate::messages::templates::{Published, Standing};
use crate::node::Node;
use crate::tables::TEMPLATE_CHOICES;
use crate::tables::plans::ChoiceRow;

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

    pub(crate) fn keep_choice(&self, environment: Environment, id: String, choice: Choice) {
        let mut choices = self.choices.write().unwrap_or_else(PoisonError::into_inner);
        if choice == Choice::default() {
            choices.remove(&(environment, id));
        } else {
            choices.insert((environment, id), choice);
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
                self.state.catalog.keep_choice(environment, id, choice);
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
        let choice = self.state.catalog.choice(environment, id);
        if choice.retired_at(version).is_none() {
            return Ok(());
        }
        let latest = self.state.catalog.template(environment, id, None);
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
