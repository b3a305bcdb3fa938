//! A deleted project has no rows, in whatever order the server stops and starts.

use callboard_domain::Error;
use callboard_domain::access::Role;
use callboard_domain::audit::{Action, By};
use callboard_domain::id::Slot;
use callboard_domain::project::{Change, Project};
use callboard_domain::query::AuditQuery;
use callboard_store::Key;

use super::approvals::held_request;
use super::*;
use crate::accounts::NewProject;

fn slot_of(project: &Project) -> Slot {
    project.slot.expect("it is here")
}

impl Bench {
    async fn project(&self, name: &str) -> Arc<Project> {
        let new = NewProject { name: name.into(), description: None, cell: None };
        self.handle.create_project(new, By::SYSTEM).await.expect("there is room")
    }

    /// The owner of what the same account has in a new project.
    pub(super) async fn other_project(&self, name: &str) -> Owner {
        let [environment, _] = slot_of(&*self.project(name).await).environments();
        Owner { environment, ..owner() }
    }

    async fn delete(&self, project: &Project) -> Result<(), Error> {
        let deleted = self.handle.delete_project(project.id, project.name.clone(), By::SYSTEM);
        deleted.await.map(drop)
    }

    /// A project with an ended task and its events, and an unfinished one.
    async fn filled(&self, name: &str) -> Arc<Project> {
        let project = self.project(name).await;
        let [environment, _] = slot_of(&project).environments();
        let owner = Owner { environment, ..owner() };
        for _ in 0..2 {
            self.handle.submit(&owner, vec![request()], false, None).await.expect("it is taken");
        }
        let mut worker = self.serving(&owner, "default", 1, None).await;
        let lease = worker.assignment().await.lease;
        assert_eq!(worker.complete(lease, "out").await, AckResult::Applied);
        project
    }

    /// The number of rows of the environments of a place.
    async fn rows_at(&self, slot: Slot) -> usize {
        let numbers = slot.environments().map(Environment::number);
        let all = self.store.scan(Key(Box::new([0])), Key(Box::new([u8::MAX; 64])), usize::MAX);
        let rows = all.await.expect("they are read");
        rows.iter().filter(|(key, _)| key.0.get(1).is_some_and(|at| numbers.contains(at))).count()
    }

    async fn until_purged(&self, slot: Slot) {
        let pauses = Pauses::begin();
        while self.rows_at(slot).await > 0 || !self.audited().await.contains(&Action::ProjectPurged)
        {
            pauses.one().await;
        }
    }

    async fn audited(&self) -> Vec<Action> {
        let page = self.handle.audit(&AuditQuery::default()).await.expect("it can be read");
        page.items.into_iter().map(|entry| entry.action).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_project_has_no_rows_and_its_place_is_free_after_a_start() {
    let bench = Bench::new().await;
    let project = bench.filled("search").await;
    assert!(bench.rows_at(slot_of(&project)).await > 3);
    bench.delete(&project).await.expect("it is there");
    assert!(bench.handle.slot_of("search").is_err());
    bench.until_purged(slot_of(&project)).await;
    let next = bench.project("search").await;
    assert_ne!(next.slot, project.slot, "an actor may still write there");

    let bench = bench.restart().await;
    bench.until_purged(slot_of(&project)).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let again = bench.project("again").await;
    assert_eq!(again.slot, project.slot);
    assert!(again.number > next.number, "no key of the old one names it");
    let purged = bench.audited().await.into_iter().filter(|it| *it == Action::ProjectPurged);
    assert_eq!(purged.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_crash_behind_the_deletion_leaves_no_row() {
    let bench = Bench::new().await;
    let project = bench.filled("search").await;
    bench.delete(&project).await.expect("it is there");
    let bench = bench.restart().await;
    assert!(bench.handle.slot_of("search").is_err());
    bench.until_purged(slot_of(&project)).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(bench.project("again").await.slot, project.slot);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_ends_the_work_first() {
    let bench = Bench::new().await;
    let project = bench.project("search").await;
    let [environment, _] = slot_of(&project).environments();
    let owner = Owner { environment, ..owner() };
    let mut worker = bench.serving(&owner, "default", 1, None).await;
    for _ in 0..2 {
        bench.handle.submit(&owner, vec![request()], false, None).await.expect("it is taken");
    }
    let lease = worker.assignment().await.lease;
    let named = bench.handle.delete_project(project.id, "Search".into(), By::SYSTEM).await;
    assert!(named.is_err_and(|refused| refused.to_string().contains("the name of the project")));
    bench.delete(&project).await.expect("it is there");
    let told = worker.commands.recv().await;
    assert!(matches!(told, Some(WorkerCommand::Cancel(cancelled, _)) if cancelled == lease));
    assert_eq!(worker.complete(lease, "out").await, AckResult::Stale);
    bench.until_purged(slot_of(&project)).await;
}

#[tokio::test(start_paused = true)]
async fn a_project_keeps_what_has_ended_for_its_own_time() {
    let bench = Bench::new().await;
    let project = bench.project("search").await;
    let day = Change { retention_days: Some(1), ..Change::default() };
    bench.handle.change_project(project.id, day, By::SYSTEM).await.expect("it is there");
    let [environment, _] = slot_of(&project).environments();
    let mut tasks = Vec::new();
    for environment in [Environment::LIVE, environment] {
        let owner = Owner { environment, ..owner() };
        let mut worker = bench.serving(&owner, "default", 1, None).await;
        let made = bench.handle.submit(&owner, vec![request()], false, None).await;
        tasks.push((environment, made.expect("it is taken").made.tasks()[0].spec.id));
        let lease = worker.assignment().await.lease;
        assert_eq!(worker.complete(lease, "out").await, AckResult::Applied);
    }
    bench.wall.fetch_add(25 * 3_600_000, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_mins(62)).await;
    let mut kept = Vec::new();
    for (environment, task) in tasks {
        kept.push(bench.handle.task(environment, task).await.is_ok());
    }
    assert_eq!(kept, [true, false]);
}

#[tokio::test]
async fn a_review_of_a_member_who_has_left_the_project_is_another_member_s() {
    let bench = Bench::new().await;
    let project = bench.project("search").await;
    let [environment, _] = slot_of(&project).environments();
    let ann = bench.user("ann", Role::Viewer).await;
    let set = bench.handle.set_member(project.id, ann, Role::Reviewer, By::SYSTEM);
    set.await.expect("a member");
    let owner = Owner { environment, ..owner() };
    let made = bench.handle.submit(&owner, vec![held_request()], false, None).await;
    let id = made.expect("it is taken").made.tasks()[0].spec.id;
    let mut worker = bench.serving(&owner, "default", 1, None).await;
    let lease = worker.assignment().await.lease;
    worker.complete(lease, "x").await;
    let assignee =
        async || bench.handle.approval(environment, id).await.map(|found| found.approval.assignee);
    assert_eq!(assignee().await, Ok(Some(ann)));
    let bob = bench.user("bob", Role::Viewer).await;
    let set = bench.handle.set_member(project.id, bob, Role::Reviewer, By::SYSTEM);
    set.await.expect("a member");
    bench.handle.remove_member(project.id, ann, By::SYSTEM).await.expect("a member");
    let pauses = Pauses::begin();
    while assignee().await != Ok(Some(bob)) {
        pauses.one().await;
    }
}
