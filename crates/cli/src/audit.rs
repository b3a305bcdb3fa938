//! `callboard audit`: the log, and its chain recomputed here.
//!
//! The log is read from its newest entry back to its oldest, so that it may be longer than the
//! memory. The verification believes no hash that the server reports. Deliberately absent: a proof
//! against an intruder who can write the whole database; for that, keep the last hash that `verify`
//! shows somewhere else.

use callboard_client::{Call, Client};
use callboard_domain::audit::Entry;
use callboard_domain::chain::Fault;
use callboard_domain::digest::Digest;
use callboard_protocol::audit::AuditEntryBody;
use clap::Subcommand;
use serde_json::{Value, json};

use super::access::Remote;
use super::failure::Failure;
use super::input::Window;
use super::output::{Column, details};
use super::people;

const COLUMNS: [Column; 7] = [
    ("CELL", "cell"),
    ("AT", "at"),
    ("ACTION", "action"),
    ("ACTOR", "actor"),
    ("FROM", "address"),
    ("TARGET", "target"),
    ("DETAILS", "details"),
];
const PAGE: u64 = 100;

/// The commands on the audit log.
#[derive(Debug, Clone, Subcommand)]
pub enum Audit {
    /// List entries, the newest first.
    List {
        /// By this actor: the e-mail or id of a user, the id of a key, anonymous, or system.
        #[arg(long)]
        actor: Option<String>,
        /// Actions, separated by commas.
        #[arg(long)]
        action: Option<String>,
        /// At this instant or later, such as 2026-01-31T00:00:00Z.
        #[arg(long)]
        since: Option<String>,
        /// Before this instant.
        #[arg(long)]
        until: Option<String>,
        /// The logs of all cells as one.
        #[arg(long)]
        everywhere: bool,
        /// The page of the list.
        #[command(flatten)]
        window: Window,
    },
    /// Recompute the chain of all entries.
    Verify,
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Audit>) -> Result<(), Failure> {
    let client = access.client()?;
    match command {
        Audit::List { actor, action, since, until, everywhere, window } => {
            let actor = match actor {
                Some(actor) if actor.contains('@') => Some(people::user(&client, actor).await?),
                Some(_) | None => actor,
            };
            let call = window.of(Call::get(&["audit"]));
            let call = call.query("actor", actor).query("action", action);
            let call = call.query("since", since).query("until", until);
            let call = call.query("everywhere", everywhere.then_some(true));
            let columns = &COLUMNS[usize::from(!everywhere)..];
            access.output.list("audit entries", &client.page(call).await?, columns)
        }
        Audit::Verify => {
            let found = verify(&client).await?;
            let fields = ["result", "entries", "first", "last", "hash"].map(|name| (name, name));
            access.output.item(&found, |found| details(found, &fields, &[]))
        }
    }
}

/// Walks the chain backwards. Entries that come meanwhile push others to later pages, so some
/// entries may be seen twice, and none is missed.
async fn verify(client: &Client) -> Result<Value, Failure> {
    let mut walk = Walk::default();
    let mut offset = 0;
    loop {
        let call = Call::get(&["audit"]).query("limit", Some(PAGE)).query("offset", Some(offset));
        let page = client.page(call).await?;
        for shown in &page.data {
            walk.step(shown)?;
        }
        offset += page.data.len() as u64;
        if page.data.is_empty() || page.pagination["hasMore"] != true {
            break;
        }
    }
    walk.end()
}

/// The part of the chain that was walked.
#[derive(Debug, Default)]
struct Walk {
    last: Option<(u32, Digest)>,
    oldest: Option<Entry>,
    entries: u64,
}

impl Walk {
    fn step(&mut self, shown: &Value) -> Result<(), Failure> {
        let unreadable =
            |why: &dyn std::fmt::Display| Failure::Other(format!("entry {}: {why}", shown["id"]));
        let body: AuditEntryBody =
            serde_json::from_value(shown.clone()).map_err(|error| unreadable(&error))?;
        let entry = body.entry().map_err(|misread| unreadable(&misread))?;
        if entry.hash != entry.digest() {
            return Err(broken(entry.number, Fault::Changed));
        }
        if let Some(next) = &self.oldest {
            if entry.number >= next.number {
                return Ok(());
            }
            if entry.number + 1 != next.number {
                return Err(broken(next.number - 1, Fault::Missing));
            }
            if next.previous != entry.hash {
                return Err(broken(next.number, Fault::Unlinked));
            }
        }
        self.last.get_or_insert((entry.number, entry.hash));
        self.entries += 1;
        self.oldest = Some(entry);
        Ok(())
    }

    fn end(self) -> Result<Value, Failure> {
        let Some((oldest, (last, hash))) = self.oldest.zip(self.last) else {
            return Ok(json!({"result": "ok", "entries": 0}));
        };
        if oldest.number == 1 && oldest.previous != Digest::ZERO {
            return Err(broken(1, Fault::Unlinked));
        }
        let result = if oldest.number == 1 { "ok" } else { "ok, older entries were trimmed" };
        Ok(json!({
            "result": result, "entries": self.entries, "first": oldest.number, "last": last,
            "hash": hash.to_string(),
        }))
    }
}

fn broken(number: u32, fault: Fault) -> Failure {
    Failure::Other(format!("the audit log is broken: entry {number} {fault}"))
}

#[cfg(test)]
mod tests {
    use callboard_domain::Timestamp;
    use callboard_domain::audit::{Action, By, Ends, Record};
    use callboard_domain::id::AuditId;

    use super::*;

    /// A log of five entries, the newest first, as the server shows it.
    fn log() -> Vec<Value> {
        let mut ends = Ends::default();
        let mut shown: Vec<_> = (1..=5_u32)
            .map(|number| {
                let id = AuditId::from_u128(u128::from(number) << 10);
                let record = Record::new(Action::SignedIn, By::SYSTEM).of("ses_1");
                let entry = Entry::after(ends.whole, id, Timestamp::default(), record);
                ends.whole = ends.whole.with(&entry);
                serde_json::to_value(AuditEntryBody::of(&entry)).expect("JSON")
            })
            .collect();
        shown.reverse();
        shown
    }

    fn walk(log: &[Value]) -> Result<Value, String> {
        let mut walk = Walk::default();
        log.iter().try_for_each(|shown| walk.step(shown)).map_err(|failure| failure.words())?;
        walk.end().map_err(|failure| failure.words())
    }

    #[test]
    fn a_whole_log_holds_and_so_does_a_trimmed_one_and_entries_seen_twice() {
        let log = log();
        assert_eq!(walk(&log).expect("it holds")["result"], "ok");
        let trimmed = walk(&log[..3]).expect("it holds");
        assert_eq!(trimmed["result"], "ok, older entries were trimmed");
        let twice = [&log[..3], &log[1..]].concat();
        assert_eq!(walk(&twice).expect("it holds")["entries"], 5);
    }

    #[test]
    fn a_changed_or_missing_entry_is_named() {
        let mut changed = log();
        changed[2]["actor"] = "usr_1".into();
        assert!(walk(&changed).expect_err("changed").contains("entry 3 was changed"));
        let mut missing = log();
        missing.remove(2);
        assert!(walk(&missing).expect_err("missing").contains("entry 3 is missing"));
    }
}
