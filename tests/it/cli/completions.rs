//! The program's answers to the completion script of a shell.

use serde_json::json;

use super::fake::{Fake, Told};
use super::program::{Ended, Home};
use super::terminal::{Terminal, path};
use crate::support::{ADMIN, Server};

/// Completes the last word of a line, as the script of bash asks for it.
pub(super) async fn complete(home: &Home, words: &[&str]) -> Vec<String> {
    let mut command = home.command(&["--"]);
    command
        .args(words)
        .env("_CALLBOARD_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string())
        .env("_CLAP_IFS", "\n");
    let ended = Ended::of(command.output().await.expect("it runs"));
    assert_eq!(ended.stderr, "", "a completion says nothing");
    ended.ok().lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn values_are_completed_from_the_server_and_without_one_in_silence() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    let task = home.run(&["tasks", "submit", "Say it.", "-q"]).await.ok();
    let task = task.trim_end();
    assert_eq!(complete(&home, &["callboard", "tasks", "show", "dt_task"]).await, [task]);
    let templates = complete(&home, &["callboard", "templates", "deploy", "contract"]).await;
    assert_eq!(templates, ["contract-review-v1"]);
    let users = complete(&home, &["callboard", "-o", "json", "users", "role", "a"]).await;
    assert_eq!(users, [ADMIN]);

    let nowhere = Home::new("http://127.0.0.1:1").with_key("dt_live_none");
    assert!(complete(&nowhere, &["callboard", "tasks", "show", "dt_task"]).await.is_empty());
    let roles = complete(&nowhere, &["callboard", "keys", "create", "--role", "o"]).await;
    assert_eq!(roles, ["operator"]);
}

#[tokio::test]
async fn options_may_stand_before_the_command_and_a_list_may_be_ids_alone() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    let empty = home.run(&["tasks", "list"]).await;
    assert_eq!((empty.stdout.as_str(), empty.stderr.as_str()), ("", "No tasks found.\n"));
    let task = home.run(&["tasks", "submit", "Say it.", "-q"]).await.ok();
    let listed = home.run(&["-o", "json", "tasks", "list"]).await.ok();
    assert!(listed.starts_with('{') && listed.contains(task.trim_end()), "{listed}");
    assert_eq!(home.run(&["-q", "tasks", "list"]).await.ok(), task);
    let refused = home.run(&["-o", "json", "serve"]).await.failed(2);
    assert!(refused.contains("unexpected argument '-o'"), "{refused}");
    let shown = home.run(&["tasks", "show", task.trim_end(), "--output-only"]).await.failed(1);
    assert!(shown.contains("has no output: its status is pending"), "{shown}");
}

#[tokio::test]
async fn fish_completes_from_the_script_that_it_is_given() {
    let home = Home::new("http://127.0.0.1:1");
    let script = "callboard completions fish | source; \
        complete -C 'callboard keys create --role o'; complete -C 'callboard tasks sub'";
    let mut fish = tokio::process::Command::new("fish");
    fish.args(["--no-config", "-c", script]).env_clear().envs(home.environment());
    let fish = fish.env("PATH", path()).output().await.expect("./test installs fish");
    let ended = Ended::of(fish);
    assert_eq!(ended.ok(), "operator\nsubmit\tSubmit a prompt, or the call of a function\n");
}

#[tokio::test]
async fn zsh_completes_from_the_script_that_it_is_given() {
    let home = Home::new("http://127.0.0.1:1");
    let mut zsh = Terminal::of("zsh", &home, &["-f", "-i"], 120);
    let setup = "autoload -Uz compinit; compinit -u -D; \
        source <(callboard completions zsh); print rea''dy\n";
    zsh.types(setup).await.shows("ready").await;
    zsh.types("callboard keys create --role o\t").await.shows("role operator").await;
    zsh.types("\u{15}callboard tasks sub\t").await.shows("tasks submit").await;
    zsh.types("\u{15}exit\n").await;
    zsh.ends().await;
}

#[tokio::test]
async fn bash_is_offered_no_name_that_would_run_a_program() {
    let names =
        ["nightly", "nightly;touch${IFS}pwned;#", "nightly`id`", "nightly|sh", "--server=x"];
    let fake = Fake::start(move |_, _| {
        Told::Page(names.iter().map(|name| json!({"name": name, "email": name})).collect())
    })
    .await;
    let home = Home::new(&fake.url).with_key("dt_live_any");
    for line in [["queues", "pause", "n"], ["users", "role", "n"], ["models", "limit", "n"]] {
        let words: Vec<_> = ["callboard"].into_iter().chain(line).collect();
        assert_eq!(complete(&home, &words).await, ["nightly"], "{line:?}");
    }
    assert_eq!(complete(&home, &["callboard", "queues", "pause", ""]).await[0], "nightly");
}
