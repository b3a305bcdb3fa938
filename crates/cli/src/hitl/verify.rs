//! `callboard hitl verify`: the chained history of an item, recomputed here.
//!
//! ```text
//! item, entries ─▶ every hash, every link, the length ─▶ every text by its hash ─▶ the decision
//! ```
//!
//! The verification believes no hash that the server reports; only the formula counts
//! ([`callboard_domain::approval::history`]). An item whose texts were erased says so; its
//! commitments then stand for texts that cannot be shown any more. A history outlives its item: the
//! entries of a removed item are checked, its texts are not. Deliberately absent: a proof against
//! an intruder who can write the whole database and compute a new chain. For that, keep the hashes
//! that `-o json` shows somewhere else.

use std::collections::BTreeSet;

use callboard_client::{Call, Client, Error};
use callboard_domain::approval::history::Version;
use callboard_domain::approval::{Action, Chain, Entry, Salt};
use callboard_domain::digest::Digest;
use callboard_domain::id::TaskId;
use callboard_protocol::history::{EntryBody, Misread};
use serde_json::{Value, json};

use super::item::{output, text};
use crate::access::Access;
use crate::failure::Failure;
use crate::output::{Column, Format, print, print_json, table};

const COLUMNS: [Column; 5] = [
    ("TASK", "taskId"),
    ("RESULT", "result"),
    ("ENTRIES", "entries"),
    ("BROKEN AT", "broken.number"),
    ("WHY", "broken.why"),
];

/// Items hold their texts, so a page is small.
const PAGE: u64 = 20;
/// The number of times that an item is read again if it changed while it was read.
const TRIES: u32 = 5;

/// The first break of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Broken {
    /// The entry, counted from 1; 0 for a fault outside of the entries.
    number: u32,
    /// The fault.
    why: String,
}

/// The result of one item.
#[derive(Debug)]
struct Finding {
    task: String,
    entries: usize,
    hash: String,
    /// The item was removed: only the entries were checked.
    removed: bool,
    broken: Option<Broken>,
}

/// Checks one item, or all.
///
/// # Errors
/// [`Failure::Other`] if a history is broken, after all were reported.
pub(super) async fn run(
    client: &Client,
    access: &Access,
    task: Option<&str>,
) -> Result<(), Failure> {
    let findings = match task {
        Some(task) => {
            let finding = examine(client, task).await?;
            tell_line(access, &finding)?;
            vec![finding]
        }
        None => all(client, access).await?,
    };
    let shown: Vec<Value> = findings.iter().map(Finding::json).collect();
    match (access.output.format(), task, shown.first()) {
        (Format::Table, _, _) => print(&table(&COLUMNS, &shown))?,
        (Format::Json, Some(_), Some(finding)) => print_json(&format!("{finding:#}\n"))?,
        (Format::Json, _, _) => print_json(&format!("{:#}\n", Value::Array(shown)))?,
        (Format::Jsonl | Format::Csv, _, _) => {}
    }
    let broken = findings.iter().filter(|finding| finding.broken.is_some()).count();
    match broken {
        0 => Ok(()),
        _ => Err(Failure::Other(format!(
            "the history of {broken} of {} items is broken",
            findings.len()
        ))),
    }
}

/// Every item that was ever held. Items that come meanwhile push others to later pages, so some may
/// be seen twice, and none is missed.
async fn all(client: &Client, access: &Access) -> Result<Vec<Finding>, Failure> {
    let (mut findings, mut seen, mut offset) = (Vec::new(), BTreeSet::new(), 0);
    loop {
        let call = Call::get(&["hitl"]).query("limit", Some(PAGE)).query("offset", Some(offset));
        let page = client.page(call).await?;
        for item in &page.data {
            let task = text(item, "taskId");
            if seen.insert(task.to_owned()) {
                let finding = examine(client, task).await?;
                tell_line(access, &finding)?;
                findings.push(finding);
            }
        }
        offset += page.data.len() as u64;
        if page.data.is_empty() || page.pagination["hasMore"] != true {
            return Ok(findings);
        }
    }
}

/// Reports one of many items at once, if the format is line by line.
fn tell_line(access: &Access, finding: &Finding) -> Result<(), Failure> {
    match access.output.format() {
        Format::Jsonl | Format::Csv => print_json(&format!("{}\n", finding.json())),
        Format::Table | Format::Json => Ok(()),
    }
}

/// Reads an item and its history; reads both again, if the item changed in between.
async fn examine(client: &Client, task: &str) -> Result<Finding, Failure> {
    let mut item = match client.data(Call::get(&["hitl", task])).await {
        Ok(item) => item,
        Err(Error::Api(refusal)) if refusal.status == 404 => {
            let entries = client.data(Call::get(&["hitl", task, "history"])).await?;
            return Ok(Finding::of_removed(task, &entries));
        }
        Err(error) => return Err(error.into()),
    };
    for _ in 1..TRIES {
        let entries = client.data(Call::get(&["hitl", task, "history"])).await?;
        let finding = Finding::of(task, &item, &entries);
        if finding.broken.is_none() {
            return Ok(finding);
        }
        let before = std::mem::replace(&mut item, client.data(Call::get(&["hitl", task])).await?);
        if before["history"] == item["history"] {
            return Ok(finding);
        }
    }
    let entries = client.data(Call::get(&["hitl", task, "history"])).await?;
    Ok(Finding::of(task, &item, &entries))
}

impl Finding {
    fn of(task: &str, item: &Value, entries: &Value) -> Self {
        let entries = entries.as_array().map_or(&[][..], Vec::as_slice);
        Self {
            task: task.to_owned(),
            entries: entries.len(),
            hash: text(&item["history"], "hash").to_owned(),
            removed: false,
            broken: check(task, item, entries).err(),
        }
    }

    /// Checks the chain of the entries of a removed item.
    fn of_removed(task: &str, entries: &Value) -> Self {
        let entries = entries.as_array().map_or(&[][..], Vec::as_slice);
        let (read, unread) = read(entries);
        let known: Vec<Entry> = read.into_iter().map(|(_, entry)| entry).collect();
        let head = known.last().map_or(Digest::ZERO, |entry| entry.hash);
        let links = |task: TaskId| {
            let chain = Chain { length: count(known.len()), head };
            let links = chain.verify(task, &known);
            links
                .err()
                .map(|broken| Broken { number: broken.number, why: broken.fault.to_string() })
        };
        let nobodys = Broken { number: 0, why: "the item has no identifier of a task".to_owned() };
        let broken = task.parse().map_or(Some(nobodys), links).or(unread);
        let (task, hash) = (task.to_owned(), head.to_string());
        Self { task, entries: entries.len(), hash, removed: true, broken }
    }

    fn json(&self) -> Value {
        let Self { task, entries, hash, removed, broken } = self;
        let mut shown = json!({"taskId": task, "ok": broken.is_none(), "entries": entries,
                               "hash": hash});
        if *removed {
            shown["removed"] = true.into();
        }
        shown["result"] = match (broken, removed) {
            (Some(_), _) => "broken",
            (None, true) => "ok, item removed",
            (None, false) => "ok",
        }
        .into();
        if let Some(Broken { number, why }) = broken {
            shown["broken"] = json!({"number": number, "why": why});
        }
        shown
    }
}

/// Passes if the entries are the item's whole history, and its shown texts match their hashes.
fn check(task: &str, item: &Value, entries: &[Value]) -> Result<(), Broken> {
    let nowhere = |why: &str| Broken { number: 0, why: why.to_owned() };
    let task: TaskId = task.parse().map_err(|_| nowhere("the item has no identifier of a task"))?;
    if item["taskId"] != task.to_string() {
        return Err(nowhere("the item is another one than was asked for"));
    }
    let chain = chain(&item["history"])
        .ok_or_else(|| nowhere("the item does not say how long its history is, and how it ends"))?;
    let (read, unread) = read(entries);
    let known: Vec<Entry> = read.iter().map(|(_, entry)| entry.clone()).collect();
    // The check ends before the first entry that cannot be read.
    let end = known.last().map_or(Digest::ZERO, |entry| entry.hash);
    let chain =
        if unread.is_some() { Chain { length: count(known.len()), head: end } } else { chain };
    let links = chain
        .verify(task, &known)
        .map_err(|broken| Broken { number: broken.number, why: broken.fault.to_string() });
    let texts = read.iter().try_for_each(|(body, entry)| texts(body, entry, item));
    let faults = [links.err(), texts.err(), unread];
    match faults.into_iter().flatten().min_by_key(|broken| broken.number) {
        Some(first) => Err(first),
        None => decision(item, &read),
    }
}

/// The entries up to the first that cannot be read, and the fault of that one.
fn read(entries: &[Value]) -> (Vec<(EntryBody, Entry)>, Option<Broken>) {
    let mut read = Vec::with_capacity(entries.len());
    for entry in entries {
        let body = serde_json::from_value::<EntryBody>(entry.clone());
        let body = body.map_err(|error| format!("cannot be read: {error}"));
        match body.and_then(|body| Ok((body.entry().map_err(|error| error.to_string())?, body))) {
            Ok((entry, body)) => read.push((body, entry)),
            Err(why) => {
                let number = count(read.len()) + 1;
                return (read, Some(Broken { number, why }));
            }
        }
    }
    (read, None)
}

fn count(entries: usize) -> u32 {
    u32::try_from(entries).unwrap_or(u32::MAX)
}

fn chain(history: &Value) -> Option<Chain> {
    let length = u32::try_from(history["length"].as_u64()?).ok()?;
    Some(Chain { length, head: history["hash"].as_str()?.parse().ok()? })
}

/// Passes if the texts of an entry are those that were hashed.
fn texts(body: &EntryBody, entry: &Entry, item: &Value) -> Result<(), Broken> {
    let unread = |error: Misread| Broken { number: entry.number, why: error.to_string() };
    let texts = body.texts().map_err(unread)?;
    let is_erased = !item["erasedAt"].is_null();
    let details = &entry.details;
    for (name, hash, text) in [
        ("output", details.shown, details.shown.map(|_| output(item))),
        ("comment", details.comment, texts.comment),
        ("edit", details.edit, texts.edit),
    ] {
        let salted = entry.version == Version::Plain || texts.salt.is_some();
        let why = match (hash, text) {
            (None, None) => continue,
            (Some(_), _) if is_erased => continue,
            (Some(_), Some(_)) if !salted => "has no salt, and its texts are not erased".to_owned(),
            (Some(hash), Some(text)) if hash == Salt::commit(texts.salt, text) => continue,
            (Some(_), Some(_)) => format!("was made for another {name}: its hash is not the same"),
            (Some(_), None) => format!("has the hash of the {name} and not the text"),
            (None, Some(_)) => format!("has the text of the {name} and no hash of it"),
        };
        return Err(Broken { number: entry.number, why });
    }
    Ok(())
}

/// Passes if the item's shown decision is the one in its history.
fn decision(item: &Value, read: &[(EntryBody, Entry)]) -> Result<(), Broken> {
    let decided = |(_, entry): &&(EntryBody, Entry)| match entry.action {
        // A decision that was taken back is not the item's any more.
        Action::Approved | Action::Rejected | Action::Reopened => true,
        Action::Pending
        | Action::Assigned
        | Action::Escalated
        | Action::Expired
        | Action::Claimed
        | Action::Released
        | Action::Extended
        | Action::Retried
        | Action::Cancelled
        | Action::NotificationSkipped => false,
    };
    let decision = &item["decision"];
    let last = read.iter().rfind(decided);
    let last = last.filter(|(_, entry)| entry.action != Action::Reopened);
    let Some((body, entry)) = last else {
        if decision.is_null() && !matches!(text(item, "status"), "approved" | "rejected") {
            return Ok(());
        }
        let why = "the item shows a decision of which its history knows nothing".into();
        return Err(Broken { number: 0, why });
    };
    let Entry { number, action, at, actor, details, .. } = entry;
    let texts = body.texts().unwrap_or_default();
    let by = details.reviewer.as_ref().unwrap_or(actor);
    let optional = |name: &str, said: Option<&str>| {
        decision[name].is_null() || decision[name].as_str() == said
    };
    let same = item["status"] == action.as_str()
        && decision["status"] == action.as_str()
        && decision["at"] == at.to_string()
        && decision["by"] == by.as_str()
        && decision["wasModified"].as_bool().unwrap_or_default() == details.edit.is_some()
        && optional("comment", texts.comment)
        && optional("modifiedOutput", texts.edit);
    if same {
        return Ok(());
    }
    Err(Broken { number: *number, why: "tells another decision than the item shows".into() })
}

#[cfg(test)]
mod tests;
