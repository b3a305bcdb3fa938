//! The settings file of `callboard serve --init`: the shipped file with each default in a comment.
//!
//! A setting in a comment keeps following the program's default over upgrades. Deliberately absent: secrets,
//! which stand in files of their own.

use super::source::SHIPPED;
use super::{Config, Flags};

const HEAD: &str = "\
# Settings of Callboard. A setting in a comment has the default that is shown, or none where the comment above it says
# so. Remove the `# ` before a setting to change it. The server reads the file at its start; after SIGHUP it reads the
# settings again that may change while it runs (docs/how-to/operate.md).
#
";

impl Config {
    /// A settings file that says what the defaults and `flags` say.
    #[must_use]
    pub fn template(flags: Flags) -> String {
        let given = [
            ("server", "listen", flags.listen),
            ("server", "data_dir", flags.data_dir),
            ("store", "url", flags.store),
        ];
        let mut text = HEAD.to_owned();
        let mut section = "";
        for line in SHIPPED.lines() {
            if let Some(name) = line.strip_prefix('[') {
                section = name.trim_end_matches(']');
            }
            let name = line.trim_start_matches("# ").split(" = ").next().unwrap_or_default();
            let mut of_line = given.iter().filter(|(of, it, _)| (*of, *it) == (section, name));
            let value = of_line.find_map(|(.., value)| value.as_ref());
            // A string of JSON is one of TOML.
            let value = value.map(|value| format!("{name} = {}", serde_json::json!(value)));
            let is_default = !line.is_empty() && !line.starts_with(['[', '#']);
            let comment = if value.is_none() && is_default { "# " } else { "" };
            text = format!("{text}{comment}{}\n", value.as_deref().unwrap_or(line));
        }
        text
    }
}
