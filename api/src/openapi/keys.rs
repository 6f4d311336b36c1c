//! Keys, and what callers may have: for operators.

use super::operation::{Access, Content, Operation};
use super::parameters::{cursor, limit};
use super::schemas::Schemas;
use crate::problem::Code;
use conveyor_domain::limits;
use conveyor_wire::{ApiKey, ApiKeys, Caller};
use conveyor_wire::{ChangeQuotas, CreateKey};
use serde_json::json;

pub(super) fn operations() -> Vec<Operation> {
    let made = Content::Json(Schemas::answer::<ApiKey>);
    let caller = "/v1/admin/callers/{caller}";
    let all = [
        Operation::post("/v1/admin/keys", "createKey", "Make a key")
            .details("Of a new caller, of one that is named, or of an operator. The only answer that has the key itself.")
            .body::<CreateKey>()
            .answers_with(201, "The key.", made, &[])
            .but(json!({"key": "cvk_8c6976e5b5410415bde908bd4dee15dfb167a9c873fc4bb8a81f6f2ab448a918", "hint": "a918"}))
            .refuses(&[Code::Conflict]),
        Operation::get("/v1/admin/keys", "listKeys", "Keys that operators made")
            .details("Newest first, revoked ones too. Keys that a server was started with are not among them.")
            .parameter(limit(limits::PAGE_DEFAULT, limits::PAGE_MAX))
            .parameter(cursor())
            .answers::<ApiKeys>(200, "A page of them.")
            .refuses(&[Code::InvalidCursor]),
        Operation::delete("/v1/admin/keys/{key_id}", "revokeKey", "Revoke a key")
            .details("It opens nothing any more; other API processes may accept it for up to 5 s. It can be repeated.")
            .answers_with(204, "It is revoked.", Content::Nothing, &[]),
        Operation::get(caller, "getCaller", "What a caller may have, and has")
            .details("Every id is a caller's: there is no list of callers, only of their keys.")
            .answers::<Caller>(200, "The caller."),
        Operation::new("patch", caller, "changeQuotas", "Change what a caller may have")
            .details("What is left out stays; null goes back to what the server was started with.")
            .refuses(&[Code::StorageFull])
            .body::<ChangeQuotas>()
            .answers::<Caller>(200, "The caller."),
    ];
    all.into_iter().map(|operation| operation.tag("Operators").access(Access::OperatorKey)).collect()
}
