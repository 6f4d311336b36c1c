use crate::body;
use crate::idempotency::{self, Intent};
use crate::path::OwnedJob;
use crate::problem::Result;
use crate::query::Query;
use crate::rerun::{plan, start};
use crate::shares::in_flight;
use crate::warnings::Warnings;
use crate::wire::rerun::{PARAMETERS, parse_overrides, parse_selection};
use axum::extract::Request;
use axum::response::Response;
use conveyor_domain::{Params, limits};
use std::ops::ControlFlow;

pub(super) async fn rerun(
    OwnedJob { state, caller, view }: OwnedJob,
    query: Query,
    request: Request,
) -> Result<Response> {
    let query = query.only(PARAMETERS)?;
    let (selection, warnings) = (parse_selection(&query)?, Warnings::of(&request, &query)?);
    let max = limits::SUBMIT_REST_MAX_BYTES.min(state.config.max_body_bytes);
    let mut intent = Intent::of(&request, caller.id)?;
    let in_flight = in_flight::of(request.extensions());
    let body = body::read_json_if_any(request, max, &state.bodies).await?;
    if let (Some(intent), Some(body)) = (&mut intent, &body) {
        intent.pass(&body.bytes);
    }
    let mut turn = match idempotency::begin(&state, intent, warnings).await {
        ControlFlow::Continue(turn) => turn,
        ControlFlow::Break(answer) => return answer,
    };
    let planned = async {
        let mut overrides = match &body {
            Some(body) => {
                let (policy, job) = (state.config.param_policy, &view.job.spec.params);
                parse_overrides(&body.bytes, policy, job, turn.warnings())?
            }
            None => Params::new(),
        };
        state.headers().seal(&view.job.id, &mut overrides);
        plan(&state, &view, &selection, overrides).await
    };
    let planned = match planned.await {
        Ok(planned) => planned,
        Err(refused) => return turn.end(&state, Err(refused)).await,
    };
    let starting = async move {
        let started = start(&state, caller.id, &mut turn, view.job.id, planned).await;
        turn.end(&state, started).await
    };
    in_flight::to_the_end(in_flight, body, starting).await
}
