//! The search of texts: parts of it, each within its budget, make a whole one.

use callboard_domain::search::texts::Wanted;
use callboard_domain::task::Task as DomainTask;

use super::*;
use crate::read::search::{Asked, Found};

fn asked(words: &str) -> Asked {
    Asked {
        wanted: Wanted::of(words).expect("it has letters"),
        of_executions: None,
        since: Timestamp::from_millis(0),
        before: None,
        limit: 50,
    }
}

fn with_prompt(prompt: &str) -> Request {
    let inputs = Inputs { prompt: prompt.into(), ..Inputs::default() };
    Request { queue: "idle".into(), inputs, ..request() }
}

impl Bench {
    async fn search(&self, asked: &Asked) -> Found {
        let found = self.handle.search(Environment::LIVE, "usr_1", asked, |_| true).await;
        found.expect("it is answered")
    }

    /// The tasks of all parts of a search, and the number of parts.
    async fn search_all(&self, mut asked: Asked) -> (Vec<TaskId>, usize) {
        let (mut tasks, mut parts) = (Vec::new(), 0);
        loop {
            let found = self.search(&asked).await;
            parts += 1;
            tasks.extend(found.hits.iter().map(|hit| id(&hit.task)));
            let Some(next) = found.next else { return (tasks, parts) };
            assert!(asked.before.is_none_or(|before| next < before), "each part goes on");
            asked.before = Some(next);
        }
    }
}

fn id(task: &DomainTask) -> TaskId {
    task.spec.id
}

#[tokio::test(start_paused = true)]
async fn the_parts_of_a_search_find_each_task_once() {
    let bench = Bench::new().await;
    let mut expected = Vec::new();
    for number in 0..40 {
        // Random letters, which compression hardly makes shorter.
        let mixed = (0..300).map(|at: u32| (number * 7_919 + at).wrapping_mul(2_654_435_761));
        let letters = mixed.map(|mixed| mixed.to_string()).collect::<Vec<_>>().join(" ");
        let task = bench.submit(with_prompt(&format!("{letters} quince q{number}q"))).await;
        if number % 3 != 0 {
            bench.submit(with_prompt("nothing of it")).await;
        }
        expected.insert(0, task);
    }
    let (found, parts) = bench.search_all(asked("quince")).await;
    assert_eq!(found, expected);
    assert!(parts > 2, "the budget of bytes ends a part: {parts}");
    for limit in [1, 3, 7] {
        let (found, parts) = bench.search_all(Asked { limit, ..asked("quince") }).await;
        assert_eq!((found, parts > 40 / limit), (expected.clone(), true));
    }
    let (found, parts) = bench.search_all(asked("medlar")).await;
    assert_eq!(
        (found, parts > 2),
        (Vec::new(), true),
        "what is searched in vain is searched in parts"
    );
    let one = Asked { wanted: Wanted::of("quince q17q").expect("words"), ..asked("x") };
    assert_eq!(bench.search_all(one).await.0, [expected[22]]);
}

#[tokio::test(start_paused = true)]
async fn short_and_long_outputs_are_found_and_old_tasks_are_left_out() {
    let bench = Bench::new().await;
    let mut done = Vec::new();
    for output in ["a quince".to_owned(), format!("{} a quince", "long ".repeat(1_000))] {
        let task = bench.submit(Request { queue: "default".into(), ..with_prompt("p") }).await;
        let mut worker = bench.worker(1).await;
        let assigned = worker.assignment().await;
        worker.complete(assigned.lease, &output).await;
        bench.until(task, |task| matches!(task.state, State::Completed { .. })).await;
        done.insert(0, task);
        tokio::time::sleep(Duration::from_hours(1)).await;
    }
    assert_eq!(bench.search_all(asked("quince")).await.0, done);
    let since = done[0].created_at();
    let found = bench.search(&Asked { since, ..asked("quince") }).await;
    assert_eq!((found.hits.len(), found.next, found.searched_to), (1, None, since));
}
