//! Whether a caller may have what it asks for (SPEC 6.24). Whatever makes a run, a schedule or tasks goes through
//! [`admitted`].

use crate::problem::{ApiError, Code, Result};
use crate::state::ApiState;
use conveyor_domain::CallerId;
use conveyor_domain::access::quota::Wanted;
use conveyor_store::admission::{Admission, Became, NotAdmitted};

impl ApiState {
    pub fn admission(&self) -> Admission<'_> {
        Admission {
            store: self.store(),
            clock: &*self.clock,
            entropy: &self.entropy,
            defaults: self.config.quotas,
        }
    }
}

/// Does what makes so much, if its caller may have it. `done` is what becomes of that: of a list that is read later, what is
/// not counted yet is held until it is.
pub(crate) async fn admitted<T>(
    state: &ApiState,
    caller: CallerId,
    wanted: Wanted,
    done: Became,
    operation: impl Future<Output = Result<T>>,
) -> Result<T> {
    let admission = state.admission();
    let turn = state.admissions.turn(caller).await;
    let admitted = admission.admit(caller, wanted).await.map_err(refused)?;
    drop(turn);
    let outcome = operation.await;
    let became = match &outcome {
        Ok(_) => done,
        Err(error) if error.is_ambiguous() => Became::Unknown,
        Err(_) => Became::Known,
    };
    admission.settle(admitted, became).await;
    outcome
}

fn refused(why: NotAdmitted) -> ApiError {
    match why {
        NotAdmitted::Exceeded(exceeded) => ApiError::quota(&exceeded.to_string()),
        NotAdmitted::Busy => busy(),
        NotAdmitted::Store(error) => error.into(),
    }
}

pub(crate) fn busy() -> ApiError {
    ApiError::new(Code::Unavailable, "Too many requests of this caller are let in right now; repeat it.")
}
