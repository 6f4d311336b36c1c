//! What decides when a task starts, and what its answer means: budgets with permits and rates, limits per domain, retries,
//! the circuit breaker of a run, and the messages that carry tasks to workers.

pub mod breaker;
pub mod domains;
pub mod gateway_answer;
pub mod grant;
pub mod message;
pub mod rate;
pub mod retry;
pub mod shards;
pub mod unsent_refs;
