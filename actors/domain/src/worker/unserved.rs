//! The warning about work that no connected worker takes.
//!
//! Deliberately absent: a refusal. A worker may connect later, and the work waits for it.

use std::collections::BTreeSet;

use super::Profile;
use crate::function::Work;

/// The most names that a warning lists.
const MOST_NAMES: usize = 5;

/// The reason why none of the connected workers takes a task of this model and queue, as a sentence without a
/// full stop; `None` if one does. `profiles` are those of the connected workers.
#[must_use]
pub fn unserved(profiles: &[Profile], model: &str, queue: &str) -> Option<String> {
    if profiles.iter().any(|profile| profile.takes(model, queue)) {
        return None;
    }
    if profiles.is_empty() {
        return Some(
            "no worker is connected: the work waits until callboard worker starts one".into(),
        );
    }
    let runs = |profile: &&Profile| profile.runs(model);
    let queues = names(profiles.iter().filter(runs).flat_map(|profile| &profile.queues));
    let function = Work::of(model).function();
    if !queues.is_empty() {
        let work = function
            .map_or_else(|| format!("the model {model}"), |it| format!("the function {it}"));
        return Some(format!(
            "no connected worker serves the queue {queue} for {work}; the workers that run it serve {queues}"
        ));
    }
    if let Some(function) = function {
        return Some(format!("no connected worker runs the function {function}"));
    }
    let models = names(profiles.iter().flat_map(|profile| &profile.models));
    let others = if models.is_empty() { "none" } else { &models };
    Some(format!(
        "no connected worker runs the model {model}; models of connected workers: {others}"
    ))
}

/// Names without duplicates, in the order of the alphabet, separated by commas.
fn names<'p>(all: impl Iterator<Item = &'p String>) -> String {
    let all: BTreeSet<&str> = all.map(String::as_str).collect();
    let mut shown: Vec<&str> = all.iter().copied().take(MOST_NAMES).collect();
    if all.len() > MOST_NAMES {
        shown.push("…");
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(queues: &[&str], models: &[&str]) -> Profile {
        let texts = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Profile {
            name: "w".into(),
            version: "1".into(),
            queues: texts(queues),
            models: texts(models),
            functions: Vec::new().into(),
            concurrency: 1,
        }
    }

    #[test]
    fn a_worker_that_runs_the_model_and_serves_the_queue_is_enough() {
        let workers = [worker(&["a"], &["m"]), worker(&["b"], &["gpt-*"])];
        assert_eq!(unserved(&workers, "m", "a"), None);
        assert_eq!(unserved(&workers, "gpt-5", "b"), None);
        assert_eq!(unserved(&[worker(&["a"], &["*"])], "any", "a"), None);
    }

    #[test]
    fn a_warning_names_the_model_the_function_or_the_queue_and_the_others() {
        let workers = [worker(&["a", "c"], &["m", "n"]), worker(&["b"], &["gpt-*"])];
        let says = |model, queue| unserved(&workers, model, queue).expect("a warning");
        assert_eq!(
            says("llama", "a"),
            "no connected worker runs the model llama; models of connected workers: gpt-*, m, n"
        );
        assert_eq!(
            says("m", "b"),
            "no connected worker serves the queue b for the model m; the workers that run it serve a, c"
        );
        assert_eq!(says("function:f", "a"), "no connected worker runs the function f");
        let nobody = unserved(&[], "m", "a").expect("a warning");
        assert!(nobody.starts_with("no worker is connected"), "{nobody}");
    }

    #[test]
    fn a_warning_lists_five_names_at_most() {
        let says = unserved(&[worker(&["a"], &["1", "2", "3", "4", "5", "6"])], "m", "a");
        assert!(says.expect("a warning").ends_with(": 1, 2, 3, 4, 5, …"));
    }
}
