//! Ids and names from the server, for completions.
//!
//! Deliberately absent: words about a failure. A completion without a server, without credentials or
//! without an answer in time is silence.

use std::time::Duration;

use callboard_client::Call;
use callboard_domain::grammar::is_word;
use clap_complete::engine::CompletionCandidate;
use serde_json::Value;

use crate::access::Access;
use crate::output::{Output, escaped};

/// The longest wait for the server.
const PATIENCE: Duration = Duration::from_millis(1500);

/// A list of the server, and the members that make its candidates.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    /// The path of the list.
    pub(super) path: &'static [&'static str],
    /// The member that is completed.
    pub(super) value: &'static str,
    /// The member that explains the value.
    pub(super) help: &'static str,
}

impl List {
    /// The newest items that begin with `start`.
    pub(super) fn candidates(self, start: &str) -> Vec<CompletionCandidate> {
        let items = self.items().unwrap_or_default();
        items.iter().filter_map(|item| self.candidate(item, start)).collect()
    }

    fn items(self) -> Option<Vec<Value>> {
        let variable = |name: &str| std::env::var(name).ok();
        let access = Access {
            server: variable("CALLBOARD_SERVER"),
            api_key_file: None,
            project: variable("CALLBOARD_PROJECT"),
            cell: variable("CALLBOARD_CELL"),
            output: Output::default(),
        };
        let client = access.client().ok()?.on_retry(|_| {});
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        let call = Call::get(self.path).query("limit", Some(100));
        let page =
            runtime.block_on(async { tokio::time::timeout(PATIENCE, client.page(call)).await });
        runtime.shutdown_background();
        Some(page.ok()?.ok()?.data)
    }

    fn candidate(self, item: &Value, start: &str) -> Option<CompletionCandidate> {
        let value = item[self.value].as_str()?;
        // A shell puts the value on the command line as it is, where it would be read as commands.
        (is_word(value) && value.starts_with(start)).then(|| {
            let help = item[self.help].as_str().map(|help| escaped(help).into());
            CompletionCandidate::new(value).help(help)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_that_could_command_the_shell_is_no_candidate() {
        let list = List { path: &["queues"], value: "name", help: "" };
        let candidate = |name: &str| list.candidate(&json!({"name": name}), "n").is_some();
        assert!(candidate("nightly"));
        assert!(candidate("n.a_b-c/d:e@f+g=h"));
        assert!(!candidate("default"));
        for end in " ;&|<>()[]{}$`\"'\\*?!#~^%,\n\t\u{1b}\u{9b}\u{202e}".chars() {
            assert!(!candidate(&format!("n{end}x")), "{end:?}");
        }
        let option = list.candidate(&json!({"name": "--server=x"}), "");
        assert!(option.is_none(), "an option is no value");
    }
}
