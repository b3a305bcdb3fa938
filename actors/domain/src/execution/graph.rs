//! Which step stands behind which.
//!
//! ```text
//!   fetch ──▶ read ──▶ sum-up      dependencies(sum-up) = {read, check}
//!     └─────▶ check ─────▲         behind(fetch) = {read, check, sum-up}
//! ```
//!
//! Deliberately absent: the definitions of the steps, and the snapshot: a graph is made again from
//! the plan, whose version an execution pins.

use super::set::{CAPACITY, StepSet};

/// The graph of an execution, shared by all its states.
#[derive(Debug, PartialEq, Eq)]
pub struct Graph {
    names: Vec<String>,
    dependencies: Vec<StepSet>,
    dependents: Vec<StepSet>,
}

/// What no graph can be made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Faulty {
    /// No steps, or more than can be counted.
    #[error("{0} steps are not between 1 and {CAPACITY}")]
    Size(usize),
    /// A dependency on a step that is not there.
    #[error("step {0} depends on a step that does not exist")]
    Dangling(u16),
    /// Steps that wait for each other.
    #[error("the steps wait for each other in a circle")]
    Circle,
}

impl Graph {
    /// The graph of these steps: the name of each, and the numbers of those it depends on.
    ///
    /// # Errors
    /// It has no steps or too many, a dependency that does not exist, or a circle; a plan that was
    /// accepted has none of these.
    pub fn new<N: Into<String>>(
        steps: impl IntoIterator<Item = (N, Vec<u16>)>,
    ) -> Result<Self, Faulty> {
        let (names, lists): (Vec<String>, Vec<Vec<u16>>) =
            steps.into_iter().map(|(name, list)| (name.into(), list)).unzip();
        let size = names.len();
        if size == 0 || size > CAPACITY {
            return Err(Faulty::Size(size));
        }
        let mut dependents = vec![StepSet::EMPTY; size];
        for (step, list) in (0..).zip(&lists) {
            for dependency in list {
                let behind = dependents.get_mut(usize::from(*dependency));
                behind.ok_or(Faulty::Dangling(step))?.insert(step);
            }
        }
        let dependencies = lists.into_iter().map(StepSet::from_iter).collect();
        let graph = Self { names, dependencies, dependents };
        if graph.has_circle() { Err(Faulty::Circle) } else { Ok(graph) }
    }

    /// How many steps there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Never: a graph has a step.
    #[must_use]
    pub fn is_empty(&self) -> bool {
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

    /// The steps that `step` waits for.
    #[must_use]
    pub fn dependencies(&self, step: u16) -> StepSet {
        self.dependencies.get(usize::from(step)).copied().unwrap_or_default()
    }

    /// The steps that wait for `step`.
    #[must_use]
    pub fn dependents(&self, step: u16) -> StepSet {
        self.dependents.get(usize::from(step)).copied().unwrap_or_default()
    }

    /// The steps that wait for `step`, for those, and so on.
    #[must_use]
    pub fn behind(&self, step: u16) -> StepSet {
        let (mut found, mut open) = (StepSet::EMPTY, self.dependents(step));
        while let Some(next) = open.first() {
            found.insert(next);
            open = open.with(&self.dependents(next)).without(&found);
        }
        found
    }

    /// Whether taking away, again and again, what waits for nothing leaves anything.
    fn has_circle(&self) -> bool {
        let mut open: Vec<u32> = self.dependencies.iter().map(StepSet::len).collect();
        let mut free: Vec<u16> =
            self.steps().iter().filter(|step| open[usize::from(*step)] == 0).collect();
        let mut taken = 0;
        while let Some(step) = free.pop() {
            taken += 1;
            for dependent in self.dependents(step) {
                let open = &mut open[usize::from(dependent)];
                *open -= 1;
                if *open == 0 {
                    free.push(dependent);
                }
            }
        }
        taken < self.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(lists: &[&[u16]]) -> Result<Graph, Faulty> {
        Graph::new(lists.iter().enumerate().map(|(i, list)| (format!("s{i}"), list.to_vec())))
    }

    #[test]
    fn it_knows_who_stands_behind_whom() {
        let graph = graph(&[&[], &[0], &[0], &[1, 2], &[]]).expect("no circle");
        assert_eq!(graph.behind(0).iter().collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(graph.dependencies(3).iter().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(graph.dependents(0).iter().collect::<Vec<_>>(), [1, 2]);
        assert_eq!((graph.name(3), graph.name(9)), ("s3", ""));
    }

    #[test]
    fn a_circle_a_dangling_dependency_and_no_steps_make_no_graph() {
        assert_eq!(graph(&[&[1], &[0], &[]]), Err(Faulty::Circle));
        assert_eq!(graph(&[&[0]]), Err(Faulty::Circle));
        assert_eq!(graph(&[&[], &[7]]), Err(Faulty::Dangling(1)));
        assert_eq!(graph(&[]), Err(Faulty::Size(0)));
        assert_eq!(graph(&[&[][..]; 513]), Err(Faulty::Size(513)));
    }
}
