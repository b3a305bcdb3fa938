//! The nodes of a cluster on the wire.

use std::str::FromStr;
use std::time::Duration;

use callboard_domain::Error;
use callboard_runtime::membership::Report;
use callboard_store::Partition;
use callboard_store::ownership::{NodeId, NodeRow, View};
use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::read::rule;
use crate::request;

/// A node of the cluster.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeBody {
    /// 32 hexadecimal digits.
    pub id: String,
    /// The address at which the other nodes reach it.
    pub address: String,
    /// The version of the node's program.
    pub version: String,
    /// active, standby, or lost once its term is over without a sign of life.
    pub status: &'static str,
    /// True if the node hands its work to another one.
    pub draining: bool,
    /// The number of partitions that it owns, of 256.
    pub partitions: usize,
    /// The milliseconds until its term ends, unless it is renewed.
    pub expires_in_ms: u64,
    /// The length of its term in milliseconds; absent before its first renewal.
    pub term_ms: Option<u64>,
    /// The milliseconds since its last renewal: how far the cluster's knowledge of the node lags behind it. Absent
    /// before the first.
    pub last_heard_ms: Option<u64>,
}

impl NodeBody {
    /// A node as in the view.
    #[must_use]
    pub fn of(view: &View, node: &NodeRow) -> Self {
        let is_active = view.owner(Partition(0)).is_some_and(|owner| owner.id == node.id);
        let status = match (node.is_alive(), is_active) {
            (false, _) => "lost",
            (true, true) => "active",
            (true, false) => "standby",
        };
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let report = Report::read(node);
        Self {
            id: node.id.to_string(),
            address: node.address.clone(),
            version: node.version.clone(),
            status,
            draining: node.is_draining,
            partitions: view.owned_by(node.id).len(),
            expires_in_ms: millis(node.expires_in),
            term_ms: report.map(|report| millis(report.term())),
            last_heard_ms: report.map(|report| millis(report.heard_ago(node))),
        }
    }
}

request! {
    /// A change of a node.
    #[derive(Debug, Clone, Copy)]
    pub struct ChangeNode as "ChangeNode" {
        /// True to have the node hand its work to another one, false to let it take work again.
        draining: bool = required("draining", rule::flag()),
    }
}

/// The identifier of a node in a path.
#[derive(Debug)]
pub struct NodeName(pub NodeId);

impl FromStr for NodeName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let number = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32);
        number.map(|number| Self(NodeId(number))).ok_or_else(|| Error::not_found("node", text))
    }
}
