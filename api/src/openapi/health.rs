use super::operation::{Access, Content, Operation};
use crate::problem::Code;
use crate::wire::health::HealthJson;

pub(super) fn operations() -> Vec<Operation> {
    [
        Operation::get("/healthz", "health", "Whether the process runs")
            .details("It asks nobody: a store that is away is no reason to be restarted.")
            .answers::<HealthJson>(200, "It runs."),
        Operation::get("/readyz", "ready", "Whether the process can serve")
            .answers::<HealthJson>(200, "Its backend answers.")
            .refuses(&[Code::Unavailable]),
        Operation::get("/metrics", "metrics", "Metrics of the process").answers_with(
            200,
            "Prometheus text.",
            Content::Raw(&["text/plain"]),
            &[],
        ),
        Operation::get("/v1/openapi.json", "openapi", "This description")
            .answers_with(200, "OpenAPI 3.1.", Content::Raw(&["application/json"]), &[])
            .refuses(&[Code::Unavailable]),
        Operation::get("/v1/docs", "docs", "This description, as a page")
            .answers_with(200, "A page that needs nothing else.", Content::Raw(&["text/html"]), &[])
            .refuses(&[Code::Unavailable]),
    ]
    .into_iter()
    .map(|operation| operation.tag("Service").access(Access::Nothing))
    .collect()
}
