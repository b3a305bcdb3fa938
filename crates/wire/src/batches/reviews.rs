//! Reviews of outputs of a batch that have passed.

use callboard_domain::approval::ReviewWay;
use callboard_domain::batch::{MAX_REVIEWS, ReviewOrder};
use callboard_runtime::handle::{ReviewsAsked, ReviewsOrder};
use serde::Serialize;
use utoipa::ToSchema;

use crate::read::rule;
use crate::request;

/// The longest name of a step or a field, in characters.
const MAX_NAME: usize = 64;

request! {
    /// The outputs of a batch to review afterwards.
    #[derive(Debug, Clone)]
    pub struct ReviewBatch as "ReviewBatch" {
        /// The step; by default the last one.
        step: Option<String> = optional("step", rule::text(rule::characters(1..=MAX_NAME))),
        /// The most reviews: 1 to 1,000.
        top: u32 = required("top", rule::whole(1..=MAX_REVIEWS)),
        /// confidence (by default): the least sure outputs first; random: a sample.
        order_by: Option<ReviewOrder> = optional("orderBy", rule::one_of(&ReviewOrder::ALL, ReviewOrder::as_str)),
        /// The member of the output that reviewers judge; by default the whole.
        field: Option<String> = optional("field", rule::text(rule::characters(1..=MAX_NAME))),
        /// true: reviewers give their own answer without seeing the output, or its field; by default false.
        blind: Option<bool> = optional("blind", rule::flag()),
    }
}

impl From<ReviewBatch> for ReviewsOrder {
    fn from(asked: ReviewBatch) -> Self {
        let ReviewBatch { step, top, order_by, field, blind } = asked;
        let order = order_by.unwrap_or(ReviewOrder::Confidence);
        let way = ReviewWay { field, blind: blind.unwrap_or_default() };
        Self { step, top, order, way }
    }
}

/// The reviews that were asked for.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BatchReviews)]
pub struct ReviewsAskedBody {
    /// The reviews that wait now.
    asked: u32,
    /// The other outputs of the step that have passed without a review.
    left: u32,
}

impl From<ReviewsAsked> for ReviewsAskedBody {
    fn from(ReviewsAsked { asked, left }: ReviewsAsked) -> Self {
        Self { asked, left }
    }
}
