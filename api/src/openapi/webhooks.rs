//! Who is told of the end of a run: webhooks, the keys that sign them, and what came of each.

use super::operation::{Content, Operation};
use super::parameters::{cursor, limit};
use super::schemas::Schemas;
use crate::problem::Code;
use conveyor_domain::limits;
use conveyor_wire::{Deliveries, Delivery, HmacKeyCreated, HmacKeyFinalized, HmacKeys, TestSent, Webhook};
use conveyor_wire::{PutWebhook, WebhookBody};
use serde_json::json;

/// What a webhook can be refused for.
pub(super) const REFUSED: [Code; 4] = [
    Code::CallbackUrlMustBeHttps,
    Code::CallbackUrlUnresolvable,
    Code::CallbackAddressNotAllowed,
    Code::WebhookSigningRequiresActiveKey,
];

pub(super) fn operations() -> Vec<Operation> {
    let all = of_job().into_iter().chain(keys()).chain(deliveries());
    all.map(|operation| operation.tag("Notifications")).collect()
}

fn of_job() -> Vec<Operation> {
    vec![
        Operation::get("/v1/jobs/{job}/webhook", "getWebhook", "Where the end of a run is told")
            .details("404 for a job without a webhook.")
            .answers::<Webhook>(200, "The webhook."),
        Operation::put("/v1/jobs/{job}/webhook", "putWebhook", "Set the webhook of a job")
            .details("It is replaced whole, and enabled again if it was disabled.")
            .body::<PutWebhook>()
            .answers::<Webhook>(200, "The webhook.")
            .refuses(&REFUSED),
        Operation::delete("/v1/jobs/{job}/webhook", "deleteWebhook", "Tell nobody any more")
            .details("It can be repeated.")
            .answers_with(204, "It is gone.", Content::Nothing, &[]),
        Operation::post("/v1/webhook/test", "testWebhook", "Send a webhook an event, once")
            .details("Of type `webhook.test`. What it answered is told, and nothing is kept.")
            .body::<WebhookBody>()
            .answers::<TestSent>(200, "What came of it.")
            .refuses(&REFUSED),
    ]
}

fn keys() -> Vec<Operation> {
    vec![
        Operation::get("/v1/hmac/keys", "listHmacKeys", "The keys that sign webhooks")
            .details("Without their secrets. A caller that never made one has neither.")
            .answers::<HmacKeys>(200, "The one that signs, and the one that may replace it."),
        Operation::post("/v1/hmac/keys/rotate", "rotateHmacKey", "Make a new key")
            .details("The only answer that has its secret. The first one signs at once; a later one signs nothing until it is finalized.")
            .answers_with(201, "The new key.", Content::Json(Schemas::answer::<HmacKeyCreated>), &[])
            .refuses(&[Code::CandidatePending, Code::Conflict]),
        Operation::delete("/v1/hmac/keys/rotate", "cancelHmacKey", "Give the new key up")
            .details("The one that signs goes on signing. Without a new key, nothing happens.")
            .answers_with(204, "There is no new key.", Content::Nothing, &[])
            .refuses(&[Code::Conflict]),
        Operation::post("/v1/hmac/keys/rotate/finalize", "finalizeHmacKey", "Sign with the new key")
            .details("It takes the place of the one before, from the next attempt on: receivers should know it by then.")
            .answers::<HmacKeyFinalized>(200, "The key that signs from now on.")
            .refuses(&[Code::NoCandidate, Code::Conflict]),
    ]
}

fn deliveries() -> Vec<Operation> {
    vec![
        Operation::get("/v1/jobs/{job}/deliveries", "listDeliveries", "Notifications of a job, newest first")
            .details(
                "Of the last 30 days, to webhooks and state machines alike, with what came of every attempt.",
            )
            .parameter(limit(limits::PAGE_DEFAULT, limits::PAGE_MAX))
            .parameter(cursor())
            .answers::<Deliveries>(200, "A page of them.")
            .but(json!({"deliveries": [{
                "event_id": "01KCX5W7A9B1C3D5E7F9G1H3J5", "event_type": "run.completed", "target": "webhook",
                "run_id": "01KCX5T0Q8M3Z7C9D1F5G7H9J1", "state": "pending",
                "occurred_at": "2026-01-01T00:00:05.250Z", "next_attempt_at": "2026-01-01T00:00:10.750Z",
                "attempts_made": 1,
                "attempts": [{
                    "started_at": "2026-01-01T00:00:05.400Z", "delivered": false, "status_code": 503,
                    "error": "http_5xx:503", "elapsed_ms": 84,
                }],
            }]}))
            .refuses(&[Code::InvalidCursor]),
        Operation::get("/v1/jobs/{job}/deliveries/{event}", "getDelivery", "One of them, with what is sent")
            .details("`event` is the body of every attempt, as the webhook `runEnded` describes it.")
            .answers::<Delivery>(200, "The notification."),
        Operation::post("/v1/jobs/{job}/deliveries/{event}/replay", "replayDelivery", "Send one again")
            .details("With as much time as it had at first. One that is under way is left alone.")
            .answers::<Delivery>(202, "The notification.")
            .but(json!({"state": "pending", "next_attempt_at": "2026-01-01T00:10:00.000Z"}))
            .refuses(&[Code::Conflict]),
    ]
}
