//! T10: T2 again, with much stored and with little. The cost of a task with 1,000 stored is the baseline.

use super::IN_FLIGHT;
use super::complete::{Crew, load};
use super::error::{Error, broken};
use super::lists::total;
use super::meter::Summary;
use super::program::{Ground, Program};
use super::report::{Bound, Row};
use super::stored::{Stored, grouped};

/// Measures on copies of the stored directories, in turns.
pub(super) async fn run(ground: &Ground, stored: Option<&mut Stored>) -> Result<Vec<Row>, Error> {
    let stored = stored.ok_or_else(|| broken("T10 needs a server of its own"))?;
    let mut sizes: Vec<_> = stored.fewer.iter().map(|(size, _)| *size).collect();
    sizes.push(stored.items);
    let mut rounds: Vec<Vec<Summary>> = vec![Vec::new(); sizes.len()];
    for _ in 0..ground.options.rounds {
        for (index, (_, directory)) in stored.fewer.iter().enumerate() {
            let server = ground.server_on(ground.copy(directory)?, &[]).await?;
            rounds[index].push(measure(ground, server).await?.0);
        }
        // The directory grows by the measured tasks, which are few beside the stored ones.
        let server = stored.open(ground, &[]).await?;
        let (summary, server) = measure(ground, server).await?;
        stored.close(server.kill().await?);
        rounds[sizes.len() - 1].push(summary);
    }
    let cost = |summary: &Summary| 1e6 / summary.rate;
    let rows = sizes.iter().zip(&rounds).skip(1).map(|(size, summaries)| {
        let what = format!("T2 with {} tasks stored", grouped(*size));
        let row = Row::of("T10", what, "µs a task").beside((summaries, cost), (&rounds[0], cost));
        let against = format!("with {} stored", grouped(sizes[0]));
        row.against(against).bound(Bound::AtMost(1.2))
    });
    Ok(stored.made().into_iter().chain(rows).collect())
}

async fn measure(ground: &Ground, server: Program) -> Result<(Summary, Program), Error> {
    let service = server.service().await?;
    // The server reads the lists in while it answers already; the measured server has read them.
    total(&service.operator.client()?, None).await?;
    let mut crew = Crew::hire(&service, IN_FLIGHT, IN_FLIGHT).await?;
    let summary = load(&service, &mut crew, IN_FLIGHT, ground.options.span).await?;
    let server = service.program.ok_or_else(|| broken("the server was not started here"))?;
    Ok((summary, server))
}
