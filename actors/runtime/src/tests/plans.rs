//! The plan of an account, which bounds its running tasks.

use callboard_domain::access::Role;
use callboard_domain::audit::By;
use callboard_domain::rate::{Quota, Quotas, Tier};

use super::queues::nothing_comes;
use super::*;
use crate::items::accounts::{NewUser, UserChange};

const SECOND: Duration = Duration::from_secs(1);

/// Plans under which a free account runs one task at once, and one of the next plan three.
fn plans() -> Quotas {
    let quota = |tasks| Quota { concurrent_tasks: Some(tasks), ..Quotas::default().free };
    Quotas { free: quota(1), pro: quota(3), ..Quotas::default() }
}

async fn with_plans() -> Bench {
    let store = Arc::new(MemoryStore::new());
    let start = (Instant::now(), Arc::new(AtomicU64::new(1_800_000_000_000)));
    Bench::at(
        start,
        Settings { live: Live { quotas: plans(), ..Live::default() }, ..settings() },
        store.clone(),
        store,
    )
    .await
}

impl Bench {
    async fn account(&self, tier: Tier) -> Owner {
        let new = NewUser { tier: Some(tier), ..approvals::new_user("ann", Role::Operator) };
        let user = self.handle.create_user(new, By::SYSTEM).await.expect("a user");
        Owner { id: user.id.to_string(), ..owner() }
    }
}

#[tokio::test(start_paused = true)]
async fn an_account_runs_no_more_tasks_than_its_plan_allows() {
    let bench = with_plans().await;
    let limited = bench.account(Tier::Free).await;
    let mut worker = bench.worker(5).await;
    let both = vec![request(), request()];
    let made = bench.handle.submit(&limited, both, true, None).await.expect("taken");
    let first = worker.assignment().await;
    let waiting =
        made.made.tasks().iter().find(|task| task.spec.id != first.task.spec.id).expect("two");
    assert_eq!(bench.handle.waiting_for(Environment::LIVE, waiting), Some("limit"));
    bench.submit(request()).await;
    let other = worker.assignment().await;
    assert_ne!(other.task.spec.id, waiting.spec.id);
    worker.complete(first.lease, "x").await;
    assert_eq!(worker.assignment().await.task.spec.id, waiting.spec.id);
}

#[tokio::test(start_paused = true)]
async fn the_plan_that_an_account_has_now_bounds_its_tasks_whenever_they_were_queued() {
    let bench = with_plans().await;
    let account = bench.account(Tier::Pro).await;
    let change = async |tier| {
        let change = UserChange { tier: Some(tier), ..UserChange::default() };
        let user = account.id.parse().expect("a user");
        bench.handle.change_user(user, change, By::SYSTEM).await.expect("it is taken");
    };
    let later = Request { start_at: Some(bench.handle.now().after(SECOND)), ..request() };
    let submit = async |requests| {
        bench.handle.submit(&account, requests, true, None).await.expect("taken");
    };
    submit(vec![later, request(), request()]).await;
    change(Tier::Free).await;
    submit(vec![request(), request()]).await;
    let mut worker = bench.worker(9).await;
    let first = worker.assignment().await;
    tokio::time::sleep(2 * SECOND).await;
    assert!(
        nothing_comes(&mut worker).await,
        "the task of the time before is bound like the others"
    );
    change(Tier::Pro).await;
    worker.assignment().await;
    worker.assignment().await;
    assert!(nothing_comes(&mut worker).await);
    worker.complete(first.lease, "x").await;
    worker.assignment().await;
    assert!(nothing_comes(&mut worker).await);
}
