//! The choice among the versions of a template: the one that a deploy without a version takes, and those that are
//! retired.
//!
//! ```text
//!   versions   1.0.0   1.1.0   2.0.0 (retired)      latest: the one that was set, else the highest not retired
//! ```

use serde::{Deserialize, Serialize};

use super::Version;
use crate::Timestamp;

/// A version that no deploy takes any more; its runs go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Retired {
    version: Version,
    at: Timestamp,
}

/// The choice for one template.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Choice {
    /// The version that was set as the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latest: Option<Version>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    retired: Vec<Retired>,
}

impl Choice {
    /// The latest of these versions, in ascending order: the one that was set, else the highest that is not retired,
    /// else the highest.
    #[must_use]
    pub fn latest(&self, versions: &[Version]) -> Option<Version> {
        let set = self.latest.filter(|set| versions.contains(set));
        let in_use = || versions.iter().rev().find(|it| self.retired_at(**it).is_none());
        set.or_else(|| in_use().or(versions.last()).copied())
    }

    /// True if this version was set as the latest.
    #[must_use]
    pub fn is_set(&self, version: Version) -> bool {
        self.latest == Some(version)
    }

    /// The time at which the version was retired.
    #[must_use]
    pub fn retired_at(&self, version: Version) -> Option<Timestamp> {
        self.retired.iter().find(|retired| retired.version == version).map(|retired| retired.at)
    }

    /// The choice with this version as the latest; `None` follows the highest.
    #[must_use]
    pub fn with_latest(self, latest: Option<Version>) -> Self {
        Self { latest, ..self }
    }

    /// The choice without this version in use: it is the latest no more. A version that is retired already keeps its
    /// time.
    #[must_use]
    pub fn retire(mut self, version: Version, now: Timestamp) -> Self {
        if self.retired_at(version).is_none() {
            self.retired.push(Retired { version, at: now });
        }
        Self { latest: self.latest.filter(|latest| *latest != version), ..self }
    }

    /// The choice with this version in use again.
    #[must_use]
    pub fn restore(mut self, version: Version) -> Self {
        self.retired.retain(|retired| retired.version != version);
        self
    }

    /// The choice after the deletion of these versions.
    #[must_use]
    pub fn without(mut self, deleted: &[Version]) -> Self {
        self.retired.retain(|retired| !deleted.contains(&retired.version));
        Self { latest: self.latest.filter(|latest| !deleted.contains(latest)), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1);

    fn version(text: &str) -> Version {
        text.parse().expect("a version")
    }

    #[test]
    fn the_latest_is_the_one_that_was_set_or_else_the_highest_in_use() {
        let versions = ["1.0.0", "1.1.0", "1.2.0"].map(version);
        let latest = |choice: &Choice| choice.latest(&versions).map(|it| it.to_string());
        let none = Choice::default();
        assert_eq!(latest(&none).as_deref(), Some("1.2.0"));
        let set = none.clone().with_latest(Some(versions[0]));
        assert_eq!(latest(&set).as_deref(), Some("1.0.0"));
        let retired = none.clone().retire(versions[2], NOW);
        assert_eq!(latest(&retired).as_deref(), Some("1.1.0"));
        assert_eq!(retired.clone().restore(versions[2]), none);
        let all = versions.iter().fold(none.clone(), |choice, it| choice.retire(*it, NOW));
        assert_eq!(latest(&all).as_deref(), Some("1.2.0"), "it is shown, and not deployed");
        assert_eq!(none.latest(&[]), None);
    }

    #[test]
    fn a_version_that_is_retired_or_deleted_is_the_latest_no_more() {
        let (one, two) = (version("1.0.0"), version("1.1.0"));
        let set = Choice::default().with_latest(Some(one));
        assert!(!set.clone().retire(one, NOW).is_set(one));
        assert_eq!(set.retire(two, NOW).without(&[one, two]), Choice::default());
        let twice = Choice::default().retire(one, NOW).retire(one, Timestamp::from_millis(9));
        assert_eq!(twice.retired_at(one), Some(NOW));
    }
}
