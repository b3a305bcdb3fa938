//! The actor that adds and removes templates: two versions never cross.
//!
//! The system spawns one per node.

use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::template::{Caller, may_change, may_see};
use callboard_store::Outcome;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::messages::templates::{Author, Message, Publication, PublishOutcome, Published};
use crate::node::Node;
use crate::node::catalog::row_of;
use crate::tables::plans;

/// The actor that adds templates. The system spawns one per node.
#[derive(Debug)]
pub(crate) struct Publisher(pub(crate) Arc<Node>);

impl Publisher {
    async fn publish(&self, publication: Publication) -> Result<PublishOutcome, Error> {
        let Publication { environment, mut template, author } = publication;
        let Author { account, name, role } = author;
        let (id, version) = (template.id().to_owned(), template.version());
        let catalog = &self.0.state.catalog;
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
        self.0.limits.holdings.admit(environment, &account, 0)?;
        if let Some(owner) = &row.account {
            self.0.limits.holdings.store(environment, owner, &ops);
        }
        let partition = plans::template_key(&row.id, &row.version).to_be_bytes()[0];
        match self.0.shard(partition).commit_or_refuse(partition, ops).await {
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
