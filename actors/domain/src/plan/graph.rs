//! Who waits for whom: levels, order, circles, and the path that decides how long a run takes.
//!
//! Steps are numbers, their places in the document. Deliberately absent: ids, and faults; the
//! checker names them.

use petgraph::Direction;
use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};

/// The graph of a plan, without circles.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Graph {
    dependencies: Vec<Vec<usize>>,
    dependents: Vec<Vec<usize>>,
    levels: Vec<usize>,
    order: Vec<usize>,
}

/// The steps that a run cannot be shorter than, first to last, and how long they take together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CriticalPath {
    /// The steps.
    pub steps: Vec<usize>,
    /// The sum of their durations.
    pub duration_ms: u64,
}

/// The steps that can never start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Stuck {
    /// Groups of steps that wait for each other, each ascending, in the order of their first.
    pub(super) circles: Vec<Vec<usize>>,
    /// The steps behind them, ascending.
    pub(super) behind: Vec<usize>,
}

impl Graph {
    /// The graph of steps with these dependencies, each below the number of steps.
    pub(super) fn new(dependencies: Vec<Vec<usize>>) -> Result<Self, Stuck> {
        let count = dependencies.len();
        let mut graph = DiGraph::<(), ()>::with_capacity(count, count);
        for _ in 0..count {
            graph.add_node(());
        }
        for (step, before) in dependencies.iter().enumerate() {
            for &dependency in before {
                graph.add_edge(NodeIndex::new(dependency), NodeIndex::new(step), ());
            }
        }
        // Tarjan gives the components from the last to the first: dependents before dependencies.
        let components = tarjan_scc(&graph);
        let mut circles = Vec::new();
        let mut stuck = vec![false; count];
        let mut behind = Vec::new();
        let mut levels = vec![0; count];
        for component in components.iter().rev() {
            let [step] = component.as_slice() else {
                circles.push(component.iter().map(|step| step.index()).collect::<Vec<_>>());
                for step in component {
                    stuck[step.index()] = true;
                }
                continue;
            };
            let before = &dependencies[step.index()];
            if before.contains(&step.index()) {
                circles.push(vec![step.index()]);
                stuck[step.index()] = true;
            } else if before.iter().any(|&dependency| stuck[dependency]) {
                behind.push(step.index());
                stuck[step.index()] = true;
            } else {
                let above = before.iter().map(|&dependency| levels[dependency] + 1).max();
                levels[step.index()] = above.unwrap_or(0);
            }
        }
        if circles.is_empty() {
            let dependents = |step| {
                let node = NodeIndex::new(step);
                let mut after: Vec<_> = graph
                    .neighbors_directed(node, Direction::Outgoing)
                    .map(NodeIndex::index)
                    .collect();
                after.sort_unstable();
                after
            };
            let dependents = (0..count).map(dependents).collect();
            let mut order: Vec<_> = (0..count).collect();
            order.sort_by_key(|&step| levels[step]);
            return Ok(Self { dependencies, dependents, levels, order });
        }
        for circle in &mut circles {
            circle.sort_unstable();
        }
        circles.sort_unstable();
        behind.sort_unstable();
        Err(Stuck { circles, behind })
    }

    /// What a step waits for, ascending, each once.
    #[must_use]
    pub fn dependencies(&self, step: usize) -> &[usize] {
        &self.dependencies[step]
    }

    /// What waits for a step, ascending.
    #[must_use]
    pub fn dependents(&self, step: usize) -> &[usize] {
        &self.dependents[step]
    }

    /// How many steps at least run before this one, one after the other: 0 for those that can
    /// start at once.
    #[must_use]
    pub fn level(&self, step: usize) -> usize {
        self.levels[step]
    }

    /// All steps by level, then by their place: each after all that it waits for.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// The path that takes longest. Of equally long ones, that through the earliest steps.
    #[must_use]
    pub fn critical_path(&self, duration_ms: impl Fn(usize) -> u64) -> CriticalPath {
        let mut ends = vec![0_u64; self.order.len()];
        let mut via = vec![None; self.order.len()];
        for &step in &self.order {
            let mut latest = None;
            for &dependency in &self.dependencies[step] {
                if latest.is_none_or(|latest: usize| ends[dependency] > ends[latest]) {
                    latest = Some(dependency);
                }
            }
            via[step] = latest;
            let start = latest.map_or(0, |dependency| ends[dependency]);
            ends[step] = start.saturating_add(duration_ms(step));
        }
        let mut last = None;
        for step in 0..self.order.len() {
            let longer =
                |last: usize| (ends[step], self.levels[step]) > (ends[last], self.levels[last]);
            if last.is_none_or(longer) {
                last = Some(step);
            }
        }
        let duration_ms = last.map_or(0, |step| ends[step]);
        let mut steps: Vec<_> = std::iter::successors(last, |&step| via[step]).collect();
        steps.reverse();
        CriticalPath { steps, duration_ms }
    }
}
