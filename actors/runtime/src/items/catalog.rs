//! The templates that are added, removed and chosen: one actor does, so that two versions never cross.

mod choices;
mod publisher;
mod removal;

pub use crate::messages::templates::{Author, Choosing, PublishOutcome, Published, Standing};
pub(crate) use crate::messages::templates::{ChoiceOrder, Message, Publication, Removal};
pub(crate) use publisher::Publisher;
