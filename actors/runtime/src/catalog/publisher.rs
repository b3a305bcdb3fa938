//! The actor that adds and removes templates: two versions never cross.
//!
//! The system spawns one per node. Deliberately absent: the rules of authors, which are
//! [`callboard_domain::template`]'s.

use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::id::Environment;
use callboard_domain::template::{Caller, Template, Version, may_change, may_see};
use callboard_store::Outcome;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::Published;
use super::choices::ChoiceOrder;
use super::removal::{Removal, row_of};
use crate::durable;
use crate::node::Node;
use crate::tables::plans;

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

/// The actor that adds templates. The system spawns one per node.
#[derive(Debug)]
pub(crate) struct Publisher(pub(crate) Arc<Node>);

impl Publisher {
    async fn publish(&self, publication: Publication) -> Result<PublishOutcome, Error> {
        let Publication { environment, mut template, author } = publication;
        let Author { account, name, role } = author;
        let (id, version) = (template.id().to_owned(), template.version());
        let catalog = &self.0.catalog;
        let (mut author, mut owner) = (name, Some(account.clone()));
        if let Some(first) = catalog.first(environment, &id) {
            let caller = Caller { account: &account, role };
            let of_first = first.owner.as_deref();
            if !may_see(first.template.visibility(), of_first, caller) {
                return Err(Error::VersionExists { id, version: version.to_string() });
            }
            may_change(&id, &first.author, of_first, caller, "add a version to it")?;
            if of_first != Some(&account) {
                let newest = catalog.template(environment, &id, None).unwrap_or(first.clone());
                template = template.by_another(newest.template.visibility())?;
            }
            (author, owner) = (first.author.clone(), first.owner.clone());
        }
        if let Some(known) = catalog.template(environment, &id, Some(version)) {
            if known.template.same_content(&template) {
                return Ok(PublishOutcome::Known(known));
            }
            return Err(Error::VersionExists { id, version: version.to_string() });
        }
        if let Some(removed) = self.removed(environment, &id, version).await?
            && !removed.same_content(&template)
        {
            return Err(Error::VersionExists { id, version: version.to_string() });
        }
        let created_at = self.0.now();
        let published = Arc::new(Published { template, author, owner, created_at });
        let row = row_of(&published);
        let ops = plans::template_rows(environment, &row, published.template.source());
        self.0.holdings.admit(&account, 0)?;
        if let Some(owner) = &row.account {
            self.0.holdings.store(owner, &ops);
        }
        let partition = plans::template_key(&row.id, &row.version).to_be_bytes()[0];
        match durable::commit_rows(self.0.shard(partition), partition, ops).await {
            Outcome::Committed => {
                catalog.put(environment, Arc::clone(&published));
                Ok(PublishOutcome::Added(published))
            }
            Outcome::Fenced
            | Outcome::Conflict(_)
            | Outcome::NotApplied(_)
            | Outcome::Unknown(_) => Err(Error::Unavailable("the template could not be stored")),
        }
    }
}

impl Actor for Publisher {
    type Msg = Message;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Message>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Message>,
        message: Message,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        // The client may have left; the change is durable all the same.
        match message {
            Message::Publish(publication, reply) => {
                let _ = reply.send(self.publish(*publication).await);
            }
            Message::Remove(removal, reply) => {
                let _ = reply.send(self.remove(removal).await);
            }
            Message::Choose(order, reply) => {
                let _ = reply.send(self.choose(order).await);
            }
        }
        Ok(())
    }
}
