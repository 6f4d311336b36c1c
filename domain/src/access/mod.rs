//! Who may do what, and how much of it: keys, quotas, request rates, idempotency keys, and secrets sealed at rest.

pub mod api_key;
pub mod idempotency;
pub mod quota;
pub mod request_rate;
pub mod seal;
