//! Names outside the grammar that are there already (docs/reference/api.md, Names).
//!
//! An older server took any text for the name of a model, a queue or a tag. Such a name goes on while something has
//! it: a task that is stored, settings, limits, a connected worker, a plan, a template.

use std::collections::HashSet;
use std::sync::Arc;

use callboard_domain::access::Role;
use callboard_domain::grammar::{self, Kind};
use callboard_domain::id::Environment;
use callboard_domain::query::{Plans, Tasks, Templates, Window};
use callboard_domain::template::Caller;
use callboard_domain::{Error, Rule};
use callboard_wire::read::{Reading, Unfit};

use super::App;

/// The most names of one request that are looked up; the others count as unknown.
const MOST: usize = 64;

/// The state of a router that reads bodies: the service, which knows the names that are there.
pub trait Knows: Send + Sync {
    /// The service.
    fn app(&self) -> Option<&Arc<App>>;
}

impl Knows for Arc<App> {
    fn app(&self) -> Option<&Arc<App>> {
        Some(self)
    }
}

/// A router without a service, which knows no names.
#[cfg(test)]
impl Knows for () {
    fn app(&self) -> Option<&Arc<App>> {
        None
    }
}

/// The names among these that are there already.
#[derive(Debug, Default)]
pub(crate) struct Known(HashSet<(Kind, String)>);

impl Known {
    /// Looks the unfit names of a request up.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub(super) async fn among(
        app: &App,
        environment: Environment,
        unfit: &[Unfit],
    ) -> Result<Self, Error> {
        let (mut asked, mut known) = (HashSet::new(), HashSet::new());
        for Unfit { kind, name, .. } in unfit {
            if asked.len() < MOST
                && asked.insert((*kind, name))
                && is_known(app, environment, *kind, name).await?
            {
                known.insert((*kind, name.clone()));
            }
        }
        Ok(Self(known))
    }

    pub(super) fn has(&self, unfit: &Unfit) -> bool {
        self.0.contains(&(unfit.kind, unfit.name.clone()))
    }
}

/// The value of a request whose names are all names, or known.
///
/// # Errors
/// Its faults; [`Error::Unavailable`].
pub(super) async fn finish<T>(
    state: &impl Knows,
    environment: Option<Environment>,
    reading: Reading<T>,
) -> Result<T, Error> {
    let known = match (state.app(), environment) {
        (Some(app), Some(environment)) => Known::among(app, environment, reading.unfit()).await?,
        (None, _) | (_, None) => Known::default(),
    };
    reading.finish(|unfit| known.has(unfit))
}

/// Passes if each name of the field `field` in production is a name of the grammar, or known.
///
/// # Errors
/// [`Error::Invalid`], rule `pattern`; [`Error::Unavailable`].
pub(crate) async fn check(
    app: &App,
    environment: Environment,
    kind: Kind,
    field: &str,
    names: &[&str],
) -> Result<(), Error> {
    let mut looked_up = 0;
    for name in names {
        let Some(says) = grammar::fault(name) else { continue };
        looked_up += 1;
        if looked_up > MOST || !is_known(app, environment, kind, name).await? {
            return Err(Error::invalid(field, Rule::Pattern, format!("{field} {says}")));
        }
    }
    Ok(())
}

async fn is_known(
    app: &App,
    environment: Environment,
    kind: Kind,
    name: &str,
) -> Result<bool, Error> {
    let (handle, text) = (&app.handle, name.to_owned());
    let one = Window { limit: 1, offset: 0 };
    let tasks = match kind {
        Kind::Model => Tasks { model: Some(text), window: one, ..Tasks::default() },
        Kind::Queue => Tasks { queue: Some(text), window: one, ..Tasks::default() },
        Kind::Tag => Tasks { tags: vec![text], window: one, ..Tasks::default() },
    };
    if handle.tasks(environment, &tasks).await?.total > 0 {
        return Ok(true);
    }
    Ok(match kind {
        Kind::Model => handle.models(environment).iter().any(|model| *model.name == *name),
        Kind::Queue => handle.has_queue(environment, name),
        Kind::Tag => {
            let tags = vec![name.to_owned()];
            let plans = Plans { tags: tags.clone(), window: one, ..Plans::default() };
            let templates = Templates { tags, window: one, ..Templates::default() };
            let admin = Caller { account: "", role: Role::Admin };
            handle.plans(environment, admin, &plans).await?.total > 0
                || handle.templates(environment, &templates, admin).total > 0
        }
    })
}
