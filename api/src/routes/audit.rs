//! Everything that is stored of a run, counted, and its bodies, verified (SPEC 6.14).

use crate::cursor::Cursors;
use crate::path::OwnedRun;
use crate::problem::{ApiError, Code, Result};
use crate::query::{NoQuery, Query};
use crate::show;
use axum::Json;
use conveyor_domain::limits;
use conveyor_store::port::RunView;
use conveyor_turns::Turn;
use conveyor_wire as wire;
use tokio::time::timeout;

pub(super) async fn show(found: OwnedRun, _: NoQuery) -> Result<Json<wire::Audit>> {
    let _turn = turn(&found).await?;
    let audit = found.state.operations.audit(found.key()).await?.ok_or_else(ApiError::not_found)?;
    let view = RunView { run: audit.run.clone(), stats: audit.stats };
    Ok(Json(show::audit(audit, &view)))
}

/// One page of bodies. Its cursor is that of a list of tasks.
pub(super) async fn bodies(found: OwnedRun, query: Query) -> Result<Json<wire::BodiesAudit>> {
    let query = query.only(&["cursor"])?;
    let key = found.rows().await?;
    let list = format!("bodies|{}|{}", key.job, key.run);
    let cursors = Cursors::new(&found.state, found.caller.id, &list);
    let after = cursors.open(query.get("cursor"))?;
    let _turn = turn(&found).await?;
    let audit = found.state.operations.audit_bodies(key, after).await?;
    let next_cursor = audit.next.map(|task| cursors.seal(&task));
    Ok(Json(show::bodies_audit(audit, next_cursor)))
}

async fn turn(OwnedRun { state, caller, .. }: &OwnedRun) -> Result<Turn> {
    timeout(limits::AUDIT_WAIT, state.audits.turn(caller.id)).await.map_err(|_| {
        if state.audits.has_turn(caller.id) {
            let detail = "An audit of the caller is under way; it reads a whole run, or bodies for seconds.";
            return ApiError::new(Code::TooManyAudits, detail);
        }
        let detail = "Audits of others are under way: each reads a whole run, or bodies for seconds.";
        ApiError::new(Code::Overloaded, detail)
    })
}
