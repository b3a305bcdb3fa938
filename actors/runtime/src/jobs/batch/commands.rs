//! The commands of clients on a batch: the end of the upload, pause, resume, cancel.

use callboard_domain::Error;
use callboard_domain::batch::{Batch, Status};
use callboard_domain::event::EventName;
use tokio::sync::oneshot;

use super::{BatchItem, Loaded, Reply};
use crate::items::execution;
use crate::kernel::item::{Activation, Done};
use crate::read::batches as read;

impl Activation<BatchItem> {
    pub(super) fn own(&self) -> Result<&Loaded, Error> {
        let own = self.item.0.as_ref().filter(|own| own.batch.status != Status::Deleting);
        own.ok_or_else(|| Error::not_found("batch", self.address.batch))
    }

    /// The batch, if it is in one of these statuses.
    pub(super) fn only(&self, statuses: &[Status], what: &str) -> Result<Batch, Error> {
        let batch = &self.own()?.batch;
        if statuses.contains(&batch.status) {
            return Ok(batch.clone());
        }
        let (id, status) = (batch.id, batch.status);
        Err(Error::InvalidState(format!("batch {id} is {status}, and cannot be {what}")))
    }

    pub(super) fn answer<T>(&self, reply: Reply<T>, of: impl FnOnce(&Batch) -> T) {
        // The client may have left.
        let _ = reply.send(self.own().map(|own| of(&own.batch)));
    }

    /// The rows are durable: they may start.
    pub(super) async fn loaded(&mut self, batch: Batch, reply: Reply<Batch>) -> Done {
        match self.only(&[Status::Loading], "loaded again") {
            Ok(_) => {}
            Err(error) => {
                let _ = reply.send(Err(error));
                return Ok(());
            }
        }
        if let Some(own) = &mut self.item.0 {
            // Their number, until they are read.
            own.waiting = (batch.invalid..batch.total).collect();
        }
        let batch = batch.with(Status::Running, None, self.node.now());
        self.commit(batch, Some(EventName::BatchCreated), Vec::new()).await?;
        self.load().await?;
        self.answer(reply, Batch::clone);
        Ok(())
    }

    pub(super) async fn pause(&mut self, reply: Reply<Batch>) -> Done {
        match self.only(&[Status::Running, Status::Paused], "paused") {
            Ok(batch) if batch.status == Status::Paused => {}
            Ok(_) => self.become_(Status::Paused, None, Some(EventName::BatchPaused)).await?,
            Err(error) => {
                let _ = reply.send(Err(error));
                return Ok(());
            }
        }
        self.answer(reply, Batch::clone);
        Ok(())
    }

    pub(super) async fn resume(&mut self, reply: Reply<Batch>) -> Done {
        match self.only(&[Status::Running, Status::Paused], "resumed") {
            Ok(batch) if batch.status == Status::Running => {}
            Ok(_) => self.become_(Status::Running, None, Some(EventName::BatchResumed)).await?,
            Err(error) => {
                let _ = reply.send(Err(error));
                return Ok(());
            }
        }
        self.answer(reply, Batch::clone);
        Ok(())
    }

    pub(super) async fn cancel(&mut self, reply: Reply<Batch>) -> Done {
        let statuses = [Status::Running, Status::Paused, Status::Cancelled];
        match self.only(&statuses, "cancelled") {
            Ok(batch) if batch.status == Status::Cancelled => {}
            Ok(_) => {
                self.become_(Status::Cancelled, None, Some(EventName::BatchCancelled)).await?;
            }
            Err(error) => {
                let _ = reply.send(Err(error));
                return Ok(());
            }
        }
        self.answer(reply, Batch::clone);
        Ok(())
    }

    /// Cancels the rows that run still. A crash repeats it.
    pub(super) async fn cancel_rows(&mut self) -> Done {
        let (environment, id) = self.key();
        for execution in read::unended_rows(self.node.store(), environment, id).await? {
            // The answer has no receiver: the next look finds what runs still.
            let (reply, _) = oneshot::channel();
            let address = execution::Address { environment, execution };
            let executions = &self.node.shard(execution.partition()).executions;
            executions.send(address, execution::Message::Cancel(reply));
        }
        self.arm();
        Ok(())
    }
}
