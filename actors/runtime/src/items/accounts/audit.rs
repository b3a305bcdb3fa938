//! The audit log: one chain, written by the actor of the accounts.
//!
//! ```text
//!   a change of an account ─▶ its rows and its entries, one commit
//!   any other action ─▶ pending ─▶ all that wait, one commit ─▶ the asker is answered
//! ```

use callboard_domain::Error;
use callboard_domain::audit::{Action, By, Ends, Record};
use callboard_domain::id::{AuditId, Mode};
use callboard_store::Op;

use super::{Accounts, NUMBER, PARTITION};
use crate::node::audit::lock;
use crate::tables::{AUDIT, AUDIT_ENDS, audit_row};

/// The key of the only row of [`AUDIT_ENDS`].
const ONLY: u128 = 0;
/// The number of entries that one commit writes or trims.
const PAGE: usize = 500;

impl Accounts {
    async fn ends(&self) -> Result<Ends, Error> {
        let known = *lock(&self.0.state.audit.ends);
        if let Some(ends) = known {
            return Ok(ends);
        }
        let stored = AUDIT_ENDS.get(self.0.store(), NUMBER, &ONLY).await;
        let ends = stored.map_err(|error| unreadable(&error))?.unwrap_or_default();
        self.0.state.audit.set_ends(Some(ends));
        Ok(ends)
    }

    /// Adds the rows of `records`; returns the ends of the log once these are durable.
    pub(super) async fn append_audit(
        &self,
        ops: &mut Vec<Op>,
        records: Vec<Record>,
    ) -> Result<Option<Ends>, Error> {
        if records.is_empty() {
            return Ok(None);
        }
        let (mut ends, now) = (self.ends().await?, self.0.now());
        for mut record in records {
            if !record.by.project.is_default() {
                let environment = record.by.project.environment(Mode::Live);
                record = record.with("project", self.0.state.accounts.project_id(environment));
            }
            let id = AuditId::from_u128(self.0.fresh_id(now, PARTITION));
            ops.push(audit_row(&ends.append(id, now, record)));
        }
        ops.push(AUDIT_ENDS.put(NUMBER, &ONLY, &ends, None));
        Ok(Some(ends))
    }

    /// Writes the records that wait.
    pub(super) async fn write_audit(&self) {
        let mut pending = std::mem::take(&mut *lock(&self.0.state.audit.pending));
        while !pending.is_empty() {
            let rest = pending.split_off(pending.len().min(PAGE));
            let (records, replies): (Vec<_>, Vec<_>) = pending.into_iter().unzip();
            let stored = self.store(Vec::new(), records).await;
            for reply in replies {
                // The asker may have left.
                let _ = reply.send(stored.clone());
            }
            pending = rest;
        }
    }

    /// Writes one entry for the refused sign-ins that have none.
    pub(super) async fn summarise_refusals(&self) -> Result<(), Error> {
        let Some(count) = lock(&self.0.state.audit.refusals).take_suppressed() else {
            return Ok(());
        };
        let record = Record::new(Action::SignInsRefused, By::SYSTEM).with("count", count);
        self.store(Vec::new(), vec![record]).await
    }

    /// Trims entries that are older than `[audit] keep`.
    pub(super) async fn trim_audit(&self) -> Result<(), Error> {
        let keep = self.0.settings.keep_audit.filter(|keep| self.0.may_remove(*keep));
        let Some(keep) = keep else { return Ok(()) };
        loop {
            let (mut ends, now) = (self.ends().await?, self.0.now());
            let page = AUDIT.scan(self.0.store(), NUMBER, None, PAGE).await;
            let page = page.map_err(|error| unreadable(&error))?;
            let old: Vec<_> =
                page.into_iter().take_while(|(_, entry)| now.since(entry.at) >= keep).collect();
            let Some((_, last)) = old.last() else { return Ok(()) };
            ends.trimmed = ends.trimmed.with(last);
            let mut ops: Vec<_> = old.iter().map(|(id, _)| AUDIT.delete(NUMBER, id)).collect();
            ops.push(AUDIT_ENDS.put(NUMBER, &ONLY, &ends, None));
            self.store(ops, Vec::new()).await?;
            self.0.state.audit.set_ends(Some(ends));
        }
    }
}

fn unreadable(error: &callboard_store::Error) -> Error {
    tracing::error!(%error, "the audit log cannot be read");
    Error::Unavailable("the audit log cannot be read")
}

#[cfg(test)]
mod tests;
