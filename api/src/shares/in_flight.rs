//! Requests of a caller that are being answered at once (SPEC 6.27): each has a place from the moment its caller is known to
//! the last byte of its answer.

use super::peer::PlaceHere;
use super::turns::Turn;
use super::{AnswerRoom, Full, Peer, Place, Places};
use crate::problem::{ApiError, Code, Result};
use crate::request_rates::Who;
use crate::state::{ApiState, Shared};
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, Method};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use conveyor_domain::limits;
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};

/// An extension of every request: its place, once it has one.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight(Arc<OnceLock<Admitted>>);

#[derive(Debug)]
struct Admitted {
    who: Who,
    _own: Turn,
    _place: Place<Who>,
    _here: Option<PlaceHere>,
    /// While a read is worked on.
    read: Mutex<Option<Turn>>,
    /// Of its answer, if that is large.
    room: OnceLock<AnswerRoom>,
}

/// Gives a request with a key its place, and a read its turn, or refuses it.
pub(crate) async fn admit_in_turn(state: &ApiState, parts: &Parts, who: Who) -> Result<()> {
    admit(state, &parts.extensions, who).await?;
    match parts.method {
        Method::GET | Method::HEAD => read_in_turn(state, &parts.extensions, who).await,
        _ => Ok(()),
    }
}

async fn read_in_turn(state: &ApiState, extensions: &Extensions, who: Who) -> Result<()> {
    if let Some(InFlight(cell)) = extensions.get()
        && let Some(admitted) = cell.get()
    {
        // All that wait have a place: no more than those can.
        let turn = state.reads.turn(who, state.config.shares.requests_of_caller_max).await?;
        *admitted.read.lock().unwrap_or_else(PoisonError::into_inner) = turn;
    }
    Ok(())
}

/// Gives a request its place, or refuses it. It may wait for others of its caller.
pub(crate) async fn admit(state: &ApiState, extensions: &Extensions, who: Who) -> Result<()> {
    match who {
        Who::Caller(_) | Who::Operator(_) | Who::Upload(_) => {
            if let Some(peer) = extensions.get::<Peer>() {
                peer.is_of(who);
            }
            take_place(state, &state.requests, extensions, who).await
        }
        // Anybody may hold such a URL, and be slow: these have places apart, and their connections are told apart by address only.
        Who::Signed(_) => {
            take_place(state, &state.signed_requests, extensions, who).await?;
            read_in_turn(state, extensions, who).await
        }
    }
}

async fn take_place(
    state: &ApiState,
    places: &Arc<Places<Who>>,
    extensions: &Extensions,
    who: Who,
) -> Result<()> {
    let own = state.own_requests.turn(who, limits::REQUESTS_WAITING_OF_CALLER_MAX);
    let own = tokio::time::timeout(limits::PLACE_WAIT, own).await.ok().transpose()?.flatten();
    let too_many = |full: Full| {
        let detail = "The caller has as many requests under way as it may; wait for one to end.";
        full.refuse(Code::TooManyInFlight, detail)
    };
    let own = own.ok_or_else(|| too_many(Full::Own))?;
    let place = places.take(who).map_err(too_many)?;
    if let Some(InFlight(cell)) = extensions.get() {
        let here = extensions.get::<Peer>().map(Peer::give_place);
        let admitted = Admitted {
            who,
            _own: own,
            _place: place,
            _here: here,
            read: Mutex::default(),
            room: OnceLock::new(),
        };
        // Set before only if one request was admitted twice; then the first place stays.
        let _ = cell.set(admitted);
    }
    Ok(())
}

/// Room for an answer of so many bytes, before it is made.
pub(crate) async fn room_for(state: &ApiState, in_flight: Option<&InFlight>, bytes: u64) -> Result<()> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let Some(admitted) = in_flight.and_then(|InFlight(cell)| cell.get()) else { return Ok(()) };
    if bytes <= limits::ANSWER_PIECE_BYTES || admitted.room.get().is_some() {
        return Ok(());
    }
    let detail = "The caller has as many bytes of answers under way as it may; read those first.";
    let room = state.answers.room(admitted.who, bytes).await;
    let room = room.map_err(|full| full.refuse(Code::TooManyBytes, detail))?;
    // Set before only if one request has two answers; then the first room stays.
    let _ = admitted.room.set(room);
    Ok(())
}

/// Takes room for the answer to a read that was made without. It has its turn still, so few are made at once.
pub(crate) async fn with_room(State(state): State<Shared>, request: Request, next: Next) -> Result<Response> {
    let in_flight = of(request.extensions()).filter(|_| request.method() == Method::GET);
    let response = next.run(request).await;
    if let Some(bytes) = response.body().size_hint().exact() {
        room_for(&state, in_flight.as_ref(), bytes).await?;
    }
    Ok(response)
}

/// Who asks, once that is known.
pub(crate) fn who(extensions: &Extensions) -> Option<Who> {
    extensions.get::<InFlight>()?.who()
}

impl InFlight {
    pub fn who(&self) -> Option<Who> {
        self.0.get().map(|admitted| admitted.who)
    }
}

/// The place of a request, to be kept longer than the request waits for its answer.
pub(crate) fn of(extensions: &Extensions) -> Option<InFlight> {
    extensions.get().cloned()
}

/// Carries out what a request asked for in a task of its own. A caller that hangs up gets its place, and what else it `held`,
/// back when that has ended: hanging up is no way to have more under way.
pub(crate) async fn to_the_end<T: Send + 'static>(
    in_flight: Option<InFlight>,
    held: impl Send + 'static,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let carried = tokio::spawn(async move {
        let outcome = work.await;
        drop((in_flight, held));
        outcome
    });
    carried.await.map_err(|error| ApiError::internal(error.to_string()))?
}

/// Keeps the place of a request until its answer is sent.
pub(crate) async fn hold(mut request: Request, next: Next) -> Response {
    let in_flight = InFlight::default();
    request.extensions_mut().insert(in_flight.clone());
    let response = next.run(request).await;
    let Some(admitted) = in_flight.0.get() else { return response };
    // The answer is ready: the next one's turn.
    drop(admitted.read.lock().unwrap_or_else(PoisonError::into_inner).take());
    response.map(|body| Body::new(Held { body, _in_flight: in_flight }))
}

/// A body with the place of its request.
struct Held {
    body: Body,
    _in_flight: InFlight,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
