//! The dependency graph of a plan's steps, shared by the plan and all its executions.
//!
//! ```text
//!   fetch ──▶ read ──▶ sum-up      dependencies(sum-up) = {read, check}
//!     └─────▶ check ─────▲         downstream(fetch) = {read, check, sum-up}
//! ```
//!
//! A step is numbered by its position in the plan. Deliberately absent: the definitions of the
//! steps, and a stored form: the graph is built again from the plan, whose version an execution
//! pins.

mod set;

use std::cmp::Reverse;

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;

pub use set::{CAPACITY, Set, StepSet};
pub(crate) use set::{ITEM_WORDS, STEP_WORDS};

/// An acyclic graph of steps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Graph {
    names: Vec<String>,
    dependencies: Vec<StepSet>,
    dependents: Vec<StepSet>,
    levels: Vec<usize>,
}

/// The longest chain of steps, first to last: a run takes at least their durations together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CriticalPath {
    /// The steps, each a dependency of the next.
    pub steps: Vec<u16>,
    /// The sum of the steps' durations.
    pub duration_ms: u64,
}

/// The steps that could never start, because the graph has cycles.
#[derive(Debug, Clone, PartialEq, Eq, Default, thiserror::Error)]
#[error("the dependencies of the steps form a cycle")]
pub struct Cyclic {
    /// The steps of each cycle in ascending order, the cycles in the order of their first steps.
    pub cycles: Vec<Vec<u16>>,
    /// The steps that depend on a cycle without being part of one.
    pub downstream: StepSet,
}

impl Graph {
    /// Builds the graph from each step's id and the numbers of the steps that it depends on.
    ///
    /// # Errors
    /// The dependencies form a cycle.
    ///
    /// # Panics
    /// There are more than [`CAPACITY`] steps, or a dependency has no step; the plan's checker
    /// reports both before it builds a graph.
    pub fn new<N: Into<String>, D: IntoIterator<Item = u16>>(
        steps: impl IntoIterator<Item = (N, D)>,
    ) -> Result<Self, Cyclic> {
        let steps = steps.into_iter();
        let (names, dependencies): (Vec<String>, Vec<StepSet>) =
            steps.map(|(name, list)| (name.into(), StepSet::from_iter(list))).unzip();
        let mut dependents = vec![StepSet::EMPTY; names.len()];
        for (step, list) in (0..).zip(&dependencies) {
            for dependency in list {
                dependents[usize::from(dependency)].insert(step);
            }
        }
        let levels = levels(&dependencies)?;
        Ok(Self { names, dependencies, dependents, levels })
    }

    /// The number of steps.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.names.len()
    }

    /// True only for the default graph: a plan has at least one step.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The numbers of all steps.
    #[must_use]
    pub fn steps(&self) -> StepSet {
        (0..).take(self.len()).collect()
    }

    /// The step's id in the plan; empty if there is no such step.
    #[must_use]
    pub fn name(&self, step: u16) -> &str {
        self.names.get(usize::from(step)).map_or("", String::as_str)
    }

    /// The steps that must end before `step` can start.
    #[must_use]
    pub fn dependencies(&self, step: u16) -> StepSet {
        self.dependencies.get(usize::from(step)).copied().unwrap_or_default()
    }

    /// The steps that name `step` as a dependency.
    #[must_use]
    pub fn dependents(&self, step: u16) -> StepSet {
        self.dependents.get(usize::from(step)).copied().unwrap_or_default()
    }

    /// The dependents of `step`, their dependents, and so on.
    #[must_use]
    pub fn downstream(&self, step: u16) -> StepSet {
        let (mut found, mut open) = (StepSet::EMPTY, self.dependents(step));
        while let Some(next) = open.first() {
            found.insert(next);
            open = open.union(&self.dependents(next)).difference(&found);
        }
        found
    }

    /// The length of the longest chain of dependencies before a step: 0 if the step can start at
    /// once.
    #[must_use]
    pub fn level(&self, step: u16) -> usize {
        self.levels.get(usize::from(step)).copied().unwrap_or_default()
    }

    /// The chain of steps with the longest total duration; of equally long ones the deepest, then
    /// the one through the earliest steps.
    #[must_use]
    pub fn critical_path(&self, duration_ms: impl Fn(u16) -> u64) -> CriticalPath {
        let mut order: Vec<u16> = self.steps().iter().collect();
        order.sort_by_key(|&step| self.level(step));
        let mut ends = vec![0_u64; self.len()];
        let mut previous = vec![None; self.len()];
        let end = |ends: &[u64], step: u16| ends[usize::from(step)];
        for step in order {
            let dependencies = self.dependencies(step).iter();
            let latest = dependencies.max_by_key(|&one| (end(&ends, one), Reverse(one)));
            let start = latest.map_or(0, |step| end(&ends, step));
            previous[usize::from(step)] = latest;
            ends[usize::from(step)] = start.saturating_add(duration_ms(step));
        }
        let last = self.steps().iter();
        let last = last.max_by_key(|&step| (end(&ends, step), self.level(step), Reverse(step)));
        let mut steps: Vec<_> =
            std::iter::successors(last, |&step| previous[usize::from(step)]).collect();
        steps.reverse();
        CriticalPath { steps, duration_ms: last.map_or(0, |step| end(&ends, step)) }
    }
}

/// The level of each step, or the cycles that leave steps without one.
fn levels(dependencies: &[StepSet]) -> Result<Vec<usize>, Cyclic> {
    let mut graph = DiGraph::<u16, ()>::new();
    let nodes: Vec<_> = (0..).zip(dependencies).map(|(step, _)| graph.add_node(step)).collect();
    for (node, list) in nodes.iter().zip(dependencies) {
        for dependency in list {
            graph.add_edge(*node, nodes[usize::from(dependency)], ());
        }
    }
    let mut levels = vec![0; dependencies.len()];
    let (mut cycles, mut stuck, mut downstream) = (Vec::new(), StepSet::EMPTY, StepSet::EMPTY);
    // Tarjan's algorithm yields a component after all components that it has edges to: dependencies
    // before dependents.
    for component in tarjan_scc(&graph) {
        let mut component: Vec<_> = component.into_iter().map(|node| graph[node]).collect();
        component.sort_unstable();
        let step = component[0];
        let list = &dependencies[usize::from(step)];
        if component.len() > 1 || list.contains(step) {
            stuck = stuck.union(&component.iter().copied().collect());
            cycles.push(component);
        } else if list.iter().any(|dependency| stuck.contains(dependency)) {
            stuck.insert(step);
            downstream.insert(step);
        } else {
            let above = list.iter().map(|dependency| levels[usize::from(dependency)] + 1);
            levels[usize::from(step)] = above.max().unwrap_or(0);
        }
    }
    cycles.sort_unstable();
    if cycles.is_empty() { Ok(levels) } else { Err(Cyclic { cycles, downstream }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(lists: &[&[u16]]) -> Result<Graph, Cyclic> {
        let names = (0..lists.len()).map(|step| format!("s{step}"));
        Graph::new(names.zip(lists.iter().map(|list| list.iter().copied())))
    }

    #[test]
    fn a_step_knows_its_neighbours_and_all_steps_downstream() {
        let graph = graph(&[&[], &[0], &[0], &[1, 2, 1], &[]]).expect("no cycle");
        assert_eq!(graph.downstream(0).iter().collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(graph.dependencies(3).iter().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(graph.dependents(0).iter().collect::<Vec<_>>(), [1, 2]);
        assert_eq!([0, 1, 2, 3, 4].map(|step| graph.level(step)), [0, 1, 1, 2, 0]);
        assert_eq!((graph.name(3), graph.name(9)), ("s3", ""));
        assert!(graph.dependents(9).is_empty());
    }

    #[test]
    fn a_cycle_is_found_with_the_steps_downstream_of_it() {
        let cyclic = |lists| graph(lists).expect_err("a cycle");
        let found = cyclic(&[&[2], &[3], &[1], &[2], &[4], &[0, 4], &[]]);
        assert_eq!(found.cycles, [vec![1, 2, 3], vec![4]]);
        assert_eq!(found.downstream.iter().collect::<Vec<_>>(), [0, 5]);
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn a_dependency_without_a_step_is_a_bug_of_the_caller() {
        let _ = graph(&[&[], &[7]]);
    }

    #[test]
    fn the_critical_path_goes_through_the_slowest_then_deepest_then_earliest_steps() {
        let graph = graph(&[&[2, 3], &[], &[1], &[1], &[]]).expect("no cycle");
        let durations = [10, 5, 20, 30, 44];
        let path = graph.critical_path(|step| durations[usize::from(step)]);
        assert_eq!(path, CriticalPath { steps: vec![1, 3, 0], duration_ms: 45 });
        let unknown = graph.critical_path(|_| 0);
        assert_eq!(unknown, CriticalPath { steps: vec![1, 2, 0], duration_ms: 0 });
        let none = Graph::default().critical_path(|_| 1);
        assert_eq!(none, CriticalPath { steps: vec![], duration_ms: 0 });
    }
}
