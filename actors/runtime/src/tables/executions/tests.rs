use callboard_domain::execution::{Event, Report, StepDecision, Template};
use callboard_domain::id::{PlanId, TaskId};
use callboard_domain::labels::Labels;
use callboard_domain::task::{Ending, EndingCode};
use callboard_domain::usage::Usage;
use callboard_store::testing::memory::MemoryStore;
use callboard_store::{Batch, BatchId, Outcome};

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_795_000_000_000);
const LIVE: Environment = Environment::LIVE;

/// So many steps, the first half of them at once and each other one after one of these.
fn started(steps: usize) -> Step<Execution> {
    let half = steps.div_ceil(2);
    let graph = Graph::new((0..steps).map(|step| {
        let before = step.checked_sub(half).map(|before| u16::try_from(before).expect("few"));
        (format!("step-{step}"), before)
    }));
    let spec = Spec {
        id: ExecutionId::from_u128(7 << 10),
        plan: PlanId::from_u128(8 << 10),
        template: Some(Template { id: "a-template-v1".into(), version: "1.0.0".into() }),
        account: "usr_1".into(),
        tags: Vec::new(),
        callback_url: None,
        labels: None,
        fail_fast: false,
        timeout_ms: Some(60_000),
        max_cost: None,
        output_checked: None,
        start_at: None,
        forked_from: None,
        occurrence: None,
        row_of: None,
        idempotency_key: None,
        created_at: NOW,
        trace: None,
    };
    Execution::started(spec, Arc::new(graph.expect("no cycle")), NOW)
}

fn report(task: TaskId) -> Report {
    let usage = Usage { input: 80, output: 22, total_cost: 0.001, ..Usage::default() };
    Report {
        task,
        item: None,
        started_at: Some(NOW),
        attempt: 1,
        usage,
        confidence: None,
        finish_reason: None,
        fallback: None,
    }
}

/// The store, and the state that is in it.
struct Kept {
    store: MemoryStore,
    last: Option<Execution>,
    batches: u128,
}

impl Kept {
    fn new() -> Self {
        Self { store: MemoryStore::new(), last: None, batches: 0 }
    }

    /// Commits a step, and compares it with the rows that are read back. Returns how many steps stand
    /// in the head's row.
    async fn commit(&mut self, step: &Step<Execution>) -> usize {
        let ops = rows(LIVE, self.last.as_ref(), step, NOW);
        self.batches += 1;
        let batch = Batch { id: BatchId(self.batches), guards: Vec::new(), ops };
        assert!(matches!(self.store.commit(batch).await, Outcome::Committed));
        self.last = Some(step.next.clone());
        let id = step.next.head.spec.id;
        let head = head(&self.store, LIVE, id).await.expect("readable").expect("it is there");
        let beside = head.steps.len();
        assert_eq!(self.read(head).await, step.next);
        beside
    }

    async fn read(&self, mut head: HeadRow) -> Execution {
        let last = self.last.as_ref().expect("there is one");
        let (id, graph) = (last.head.spec.id, last.graph());
        let steps = steps(&self.store, LIVE, id, graph, head.take_steps()).await;
        let head = head.of(Arc::clone(&last.head.spec));
        Execution::loaded(head, Arc::clone(graph), steps.expect("readable")).expect("all steps")
    }
}

/// Every ready step is dispatched and then fails with `message`, each in a commit of its own.
async fn fail_all(
    kept: &mut Kept,
    mut step: Step<Execution>,
    message: &str,
) -> (Step<Execution>, usize) {
    let mut least = usize::MAX;
    while let Some(due) = step.next.due().first() {
        let task = TaskId::from_u128(u128::from(due + 1) << 10 | kept.batches << 80);
        let decision = StepDecision::Run { task, worst_cost: None };
        let next = step.next.transition(Event::Decided { step: due, decision }, NOW);
        least = least.min(kept.commit(next.as_ref().expect("it is due")).await);
        let ending = Ending { code: EndingCode::ProviderError, message: message.into() };
        let event = Event::StepFailed { step: due, report: report(task), ending };
        step = next.expect("it is due").next.transition(event, NOW).expect("it is out");
        least = least.min(kept.commit(&step).await);
    }
    (step, least)
}

#[tokio::test]
async fn steps_that_grow_leave_the_heads_row_and_come_back() {
    let mut kept = Kept::new();
    let first = started(12);
    assert_eq!(kept.commit(&first).await, 12);
    let (failed, least) = fail_all(&mut kept, first, &"x".repeat(500)).await;
    assert!(least < 6, "{least} steps stand beside messages of 500 bytes");
    let again = failed.next.transition(Event::RetryRequested, NOW).expect("it failed");
    assert_eq!(kept.commit(&again).await, 12, "they are short again");
    let (failed, least) = fail_all(&mut kept, again, "no").await;
    assert!(least > 5, "{least} steps stand beside messages of two bytes");
    // The leftovers in rows of their own are older than this, and count no more.
    let again = failed.next.transition(Event::RetryRequested, NOW).expect("it failed");
    kept.commit(&again).await;
    fail_all(&mut kept, again, &"y".repeat(900)).await;
}

#[tokio::test]
async fn many_steps_have_rows_of_their_own() {
    let mut kept = Kept::new();
    let first = started(FEW_STEPS + 1);
    assert_eq!(kept.commit(&first).await, 0);
    assert_eq!(fail_all(&mut kept, first, "no").await.1, 0);
}

#[tokio::test]
async fn the_fullest_head_with_steps_fits_into_a_row() {
    // The store refuses a row that is too long.
    for message in ["\u{1}", "\"", "漢", "x"] {
        for length in [1, 40, 90, 110, 150, 200, 10_000] {
            let mut kept = Kept::new();
            let mut first = started(FEW_STEPS);
            let spec = Spec {
                tags: (0..32).map(|tag| format!("{tag:02}{}", "-ä".repeat(31))).collect(),
                labels: Labels::titled(Some("a-b c".repeat(40))),
                ..Spec::clone(&first.next.head.spec)
            };
            first.next.head.spec = Arc::new(spec);
            kept.commit(&first).await;
            fail_all(&mut kept, first, &message.repeat(length)).await;
        }
    }
}

#[tokio::test]
async fn what_an_older_program_wrote_is_read_and_gone_on_with() {
    let mut kept = Kept::new();
    let first = started(4);
    let (id, task) = (first.next.head.spec.id, TaskId::from_u128(9 << 10));
    let decision = StepDecision::Run { task, worst_cost: None };
    let running = first.next.transition(Event::Decided { step: 0, decision }, NOW).expect("due");
    // As it was: the head alone, and a row for each step.
    let heads = callboard_store::table::Table::<u128, HeadRow>::new(0x82, 1);
    let entry = Some(entry(LIVE, &running.next));
    let head_alone = HeadRow::without_steps(&running.next.head);
    let mut ops = vec![heads.put(LIVE.number(), &id.as_u128(), &head_alone, entry)];
    for (number, row) in running.next.steps() {
        ops.push(STEPS.put(LIVE.number(), &(id.as_u128(), number), row, None));
    }
    kept.store.commit(Batch { id: BatchId(1), guards: Vec::new(), ops }).await;
    (kept.last, kept.batches) = (Some(running.next.clone()), 1);
    let head = head(&kept.store, LIVE, id).await.expect("readable").expect("it is there");
    assert_eq!(kept.read(head).await, running.next);

    let event = Event::StepCompleted { step: 0, report: report(task) };
    let step = running.next.transition(event, NOW).expect("it is out");
    assert_eq!(kept.commit(&step).await, 4);
}

#[tokio::test]
async fn a_long_input_stands_by_itself_and_a_short_one_does_not() {
    for length in [10, SHORT_INPUT, 100_000] {
        let store = MemoryStore::new();
        let spec = Arc::clone(&started(1).next.head.spec);
        let input = Map::from_iter([("text".to_owned(), Value::from("x".repeat(length)))]);
        let ops = first_rows(LIVE, (Arc::clone(&spec), ReviewPolicy::default()), &input);
        assert_eq!(ops.len() > 1, length >= SHORT_INPUT);
        store.commit(Batch { id: BatchId(1), guards: Vec::new(), ops }).await;
        let mut begun = begun(&store, LIVE, spec.id).await.expect("readable").expect("there");
        assert_eq!(begun.take_input(&store, LIVE).await.expect("readable"), input);
    }
}
