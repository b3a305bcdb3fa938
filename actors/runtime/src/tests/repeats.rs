//! Retries of single tasks, and batches as they are.

use callboard_domain::Error;

use super::*;

#[tokio::test]
async fn a_retry_is_a_new_task_with_the_same_request_and_with_a_key_only_one() {
    let bench = Bench::new().await;
    let asked = Request { queue: "idle".into(), tags: vec!["t".into()], ..request() };
    let id = bench.submit(asked.clone()).await;
    let refused = bench.handle.retry_task(&owner(), id, None).await;
    assert!(matches!(refused, Err(Error::InvalidState(_))), "it has not ended");
    bench.handle.cancel(Environment::LIVE, id, "usr_1").await.expect("it can be");

    let other = Owner { id: "usr_2".into(), ..owner() };
    let made = bench.handle.retry_task(&other, id, Some("once")).await.expect("it is taken");
    let task = &made.made.tasks()[0];
    assert_eq!((task.spec.origin.retry_of, task.spec.account.as_str()), (Some(id), "usr_2"));
    let detail = bench.handle.task(Environment::LIVE, task.spec.id).await.expect("it is there");
    assert_eq!(detail.task.spec.request(detail.inputs), asked);
    let again = bench.handle.retry_task(&other, id, Some("once")).await.expect("it is taken");
    assert!(again.replayed);
    assert_eq!(again.made.tasks()[0].spec.id, task.spec.id);
}

#[tokio::test]
async fn a_batch_is_read_whole_though_others_submit_at_the_same_time() {
    let bench = Bench::new().await;
    let batch = |handle: Handle| async move {
        let tasks = vec![Request { queue: "idle".into(), ..request() }; 100];
        let made = handle.submit(&owner(), tasks, true, None).await.expect("it is taken").made;
        let ids: Vec<_> = made.tasks().iter().map(|task| task.spec.id).collect();
        (made.batch().expect("a batch"), ids)
    };
    let batches: Vec<_> = (0..8).map(|_| tokio::spawn(batch(bench.handle.clone()))).collect();
    for made in batches {
        let (id, ids) = made.await.expect("no panic");
        let tasks = bench.handle.batch(Environment::LIVE, id).await.expect("it is there");
        assert_eq!(tasks.iter().map(|task| task.spec.id).collect::<Vec<_>>(), ids);
    }
    let none = callboard_domain::id::BatchId::from_u128(7 << 10);
    assert!(matches!(
        bench.handle.batch(Environment::LIVE, none).await,
        Err(Error::NotFound { .. })
    ));
}
