//! The commands of a page.

/// The first words of commands, in blocks that are indented.
const WORDS: [&str; 18] = [
    "callboard",
    "callboard-bench",
    "./callboard-bench",
    "curl",
    "export",
    "echo",
    "cd",
    "(cd",
    "(umask",
    "cargo",
    "npm",
    "pip",
    "python",
    "python3",
    "kubectl",
    "helm",
    "web/install",
    "./run",
];

/// The part of a page under this heading.
pub(super) fn section(text: &str, heading: &str) -> String {
    let (_, rest) = text.split_once(&format!("\n{heading}\n")).expect("the page has the heading");
    rest.split("\n## ").next().unwrap_or_default().to_owned()
}

/// The commands of a page, in order: all lines of blocks of the shell, and indented lines that begin with a command.
/// A command may go on over several lines.
pub(super) fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut block: Option<bool> = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let code = line.trim_start();
        if let Some(language) = code.strip_prefix("```") {
            block = match block {
                Some(_) => None,
                None => Some(["sh", "console", "bash"].contains(&language)),
            };
            continue;
        }
        let is_shell = match block {
            Some(is_shell) => is_shell,
            None => line.starts_with("    ") && is_command(code),
        };
        if !is_shell || code.is_empty() || code.starts_with('#') {
            continue;
        }
        let mut command = code.to_owned();
        while command.ends_with('\\') || shlex::split(&command).is_none() {
            let next = lines.next().unwrap_or_else(|| panic!("the command never ends: {command}"));
            command = format!("{command}\n{next}");
        }
        found.push(command);
    }
    found
}

fn is_command(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    WORDS.contains(&first) || first.split_once('=').is_some_and(|(name, _)| is_name(name))
}

#[test]
fn commands_are_found_in_blocks_and_in_indented_lines() {
    let page = "Text:\n\n    callboard a \\\n      b\n    KEY=$(c)\n    name: value\n\n```sh\nls 'x\ny'\n# no\n```\n\n```yaml\nexport: 1\n```\n";
    assert_eq!(commands(page), ["callboard a \\\n      b", "KEY=$(c)", "ls 'x\ny'"]);
}
