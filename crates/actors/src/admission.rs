//! The way in: `Intake` for the house.

use cairn_core::message::Inbound;
use cairn_core::ports::{Admission, Intake, Refusal};
use futures::future::BoxFuture;

use crate::house::House;

impl Intake for House {
    fn submit(&self, inbound: Inbound) -> BoxFuture<'_, Result<Admission, Refusal>> {
        let _ = inbound;
        Box::pin(async { Err(Refusal::Unavailable("starting")) })
    }
}
