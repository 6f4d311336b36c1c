//! What is known of the budget of a job: what it was told, and what came of it.

use conveyor_domain::Timestamp;
use conveyor_domain::dispatch::grant::Limits;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub struct BudgetModel {
    /// The limits of every revision that was asked for.
    pub limits: BTreeMap<u32, Limits>,
    /// The revision that it is known to go by. A process that starts knows of none: it asks the job.
    pub revision: u32,
    /// Permits that were out after the last request. Nobody can have got more since.
    pub permits_out: u32,
    /// Starts that workers were told of, under each revision.
    pub starts: BTreeMap<u32, Vec<Timestamp>>,
    /// Before this nothing starts.
    pub held_until: Option<Timestamp>,
}

impl BudgetModel {
    pub fn new(limits: Limits) -> BudgetModel {
        BudgetModel { limits: BTreeMap::from([(limits.revision, limits)]), ..BudgetModel::default() }
    }
}
