//! The messages of the actor that adds and removes templates, and the versions that they are about.

use std::sync::Arc;

use callboard_domain::id::Environment;
use callboard_domain::template::{Caller, Template, Version, may_see};
use callboard_domain::{Error, Timestamp};
use tokio::sync::oneshot;

/// A message to the catalog's actor.
#[derive(Debug)]
pub(crate) enum Message {
    /// Add a version.
    Publish(Box<Publication>, oneshot::Sender<Result<PublishOutcome, Error>>),
    /// Delete a template, or one version of it.
    Remove(Removal, oneshot::Sender<Result<Vec<Version>, Error>>),
    /// Set the latest version, or retire or restore one.
    Choose(ChoiceOrder, oneshot::Sender<Result<Arc<Published>, Error>>),
}

/// The account that adds a version.
#[derive(Debug, Clone)]
pub struct Author {
    /// The account's identifier, by which the author is known.
    pub account: String,
    /// The name that is shown: an e-mail, or `key:<name>`.
    pub name: String,
    /// The role.
    pub role: callboard_domain::access::Role,
}

/// A version to be added.
#[derive(Debug)]
pub(crate) struct Publication {
    pub(crate) environment: Environment,
    pub(crate) template: Template,
    pub(crate) author: Author,
}

/// The outcome of a publication.
#[derive(Debug)]
pub enum PublishOutcome {
    /// The template is there now.
    Added(Arc<Published>),
    /// The same template had been there before.
    Known(Arc<Published>),
}

/// A template, or one version of it, to be deleted.
#[derive(Debug)]
pub(crate) struct Removal {
    pub(crate) environment: Environment,
    pub(crate) id: String,
    pub(crate) version: Option<Version>,
    pub(crate) author: Author,
}

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
    pub(crate) const fn version(self) -> Option<Version> {
        match self {
            Self::Latest(version) | Self::Retire(version) | Self::Restore(version) => Some(version),
            Self::Highest => None,
        }
    }

    pub(crate) const fn what(self) -> &'static str {
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

/// A version of a template.
#[derive(Debug)]
pub struct Published {
    /// The template.
    pub template: Template,
    /// The author of the first version: an e-mail, `key:<name>`, or `system`.
    pub author: String,
    /// The account of the author; `None` for `system`, and if it is not known any more.
    pub owner: Option<String>,
    /// The instant.
    pub created_at: Timestamp,
}

impl Published {
    pub(crate) fn is_visible(&self, caller: Caller<'_>) -> bool {
        may_see(self.template.visibility(), self.owner.as_deref(), caller)
    }
}
