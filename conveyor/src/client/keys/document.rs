//! What this client reads of keys and callers.

use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
pub struct Quotas {
    pub active_jobs: Option<u64>,
    pub scheduled_jobs: Option<u64>,
    pub queued_tasks: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub struct Key {
    pub key_id: String,
    pub name: String,
    pub kind: String,
    pub caller: Option<String>,
    pub hint: String,
    pub created_at: String,
    pub revoked_at: Option<String>,
    #[serde(default)]
    pub quotas: Quotas,
    /// Only of a key that was just made.
    pub key: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Used {
    pub active_jobs: u64,
    pub scheduled_jobs: u64,
    pub queued_tasks: u64,
}

#[derive(Debug, Deserialize)]
pub struct Caller {
    pub caller: String,
    pub quotas: Quotas,
    pub usage: Used,
    #[serde(default)]
    pub more: bool,
}
