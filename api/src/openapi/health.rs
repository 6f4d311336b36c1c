//! For probes, and for whoever reads about the API.

use super::operation::{Access, Content, Operation};
use crate::problem::Code;
use conveyor_wire::Health;
use serde_json::json;

const METRICS: Content = Content::Raw(&[(
    "text/plain",
    "# TYPE conveyor_http_requests_total counter\n\
     conveyor_http_requests_total{route=\"/v1/jobs\",method=\"POST\",status=\"201\"} 17\n",
)]);
const DOCUMENT: Content = Content::Raw(&[(
    "application/json",
    r#"{"openapi": "3.1.0", "info": {"title": "Conveyor"}, "paths": {}}"#,
)]);
const PAGE: Content = Content::Raw(&[(
    "text/html",
    "<!DOCTYPE html><html lang=\"en\"><head><title>Conveyor API</title></head></html>",
)]);

pub(super) fn operations() -> Vec<Operation> {
    [
        Operation::get("/healthz", "health", "Whether the process runs")
            .details("It asks nobody: a store that is away is no reason to be restarted.")
            .answers::<Health>(200, "It runs."),
        Operation::get("/readyz", "ready", "Whether the process can serve")
            .details("It asks its store, on AWS also the queue and the bucket, at most once a second. 503 while it is shutting down.")
            .answers::<Health>(200, "Its backend answers.")
            .but(json!({"status": "ready"}))
            .refuses(&[Code::Unavailable]),
        Operation::get("/metrics", "metrics", "Metrics of the process")
            .details("For Prometheus. Keep it from the public: it needs no key.")
            .answers_with(200, "Prometheus text.", METRICS, &[]),
        Operation::get("/v1/openapi.json", "openapi", "This description")
            .details("Made from the code that answers, and the same for everybody.")
            .answers_with(200, "OpenAPI 3.1.", DOCUMENT, &[])
            .refuses(&[Code::Unavailable]),
        Operation::get("/v1/docs", "docs", "This description, as a page")
            .details("The same for people: one page, without a script.")
            .answers_with(200, "A page that needs nothing else.", PAGE, &["Content-Security-Policy"])
            .refuses(&[Code::Unavailable]),
    ]
    .into_iter()
    .map(|operation| operation.tag("Service").access(Access::Nothing))
    .collect()
}
