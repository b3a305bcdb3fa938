//! The kinds of stored data, in words that people know, and the tables of each.
//!
//! Deliberately absent: names of tables. A kind has several, and an older or newer program others.

/// The name of what stands in a table; `None` is the logs.
pub(crate) const fn kind_of(table: Option<u8>) -> &'static str {
    let Some(table) = table else { return "events" };
    match table {
        0x80 | 0x81 => "tasks",
        0x10 => "texts",
        0x82 | 0x83 => "executions",
        0x18 | 0x2a => "steps",
        0x86 | 0x87 => "approvals",
        0x1b => "reviews",
        0x1e => "histories",
        0x19 | 0x84 => "plans",
        0x1a | 0x7d => "templates",
        0x31 | 0x90 => "schedules",
        0x48 | 0x49 | 0x91 | 0x92 => "batches",
        0x60..=0x63 | 0x94 => "files",
        0x1c | 0x1d | 0x89 | 0x8a => "deliveries",
        0x46 => "events",
        0x22 | 0x88 => "audit",
        0x12..=0x14 | 0x21 | 0x47 | 0x4a | 0x6b..=0x6e => "accounts",
        0x43 | 0x44 => "budgets",
        0x11 => "idempotency",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{
        AUDIT, ENDED_EXECUTIONS, ENDED_TASKS, HISTORY, ITEMS, LIVE_TASKS, QUEUES, SESSIONS,
    };

    #[test]
    fn a_table_is_of_the_kind_that_its_rows_are() {
        let kinds = [
            (LIVE_TASKS.key(0, &1), "tasks"),
            (ENDED_TASKS.key(0, &1), "tasks"),
            (ENDED_EXECUTIONS.key(0, &1), "executions"),
            (ITEMS.key(0, &(1, 1)), "steps"),
            (HISTORY.key(0, &(1, 1)), "histories"),
            (AUDIT.key(0, &1), "audit"),
            (SESSIONS.key(0, &1), "accounts"),
            (QUEUES.key(0, &[1; 16]), "other"),
        ];
        for (key, kind) in kinds {
            assert_eq!(kind_of(key.table()), kind, "{key:?}");
        }
        assert_eq!(kind_of(None), "events");
    }
}
