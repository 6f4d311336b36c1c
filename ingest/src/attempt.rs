//! One try at an ingest: from wherever its log says it is, to its end or to what keeps it from there.

use crate::IngestConfig;
use crate::chunk::Headers;
use crate::count::Counted;
use crate::source::{self, Reader};
use crate::{Ingester, count, read, replay};
use conveyor_domain::ingest::Source;
use conveyor_domain::{IngestEvent, IngestState, ListFault, LogOutOfOrder, NextStep, Origin};
use conveyor_lists::ListError;
use conveyor_store::Error;
use conveyor_store::port;
use conveyor_store::port::{Appended, Ingest, RunKey};
use std::io;
use tokio_util::sync::CancellationToken;

/// How a try ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The log is at its end; there is nothing left to do.
    Over,
    /// There is no such ingest any more.
    Gone,
    /// Somebody else took the step first, and goes on.
    Lost,
    /// We were asked to stop, between two steps.
    Stopped,
}

/// What keeps an ingest from going on.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The list itself. It fails the run.
    #[error("{detail} ({fault})")]
    List { fault: ListFault, detail: String, line: Option<u64>, report: Option<String>, rejected: u32 },
    /// May pass: try again.
    #[error("{0}")]
    Passing(String),
}

/// Callers read it: what the store says in its own words goes to the log of the process instead.
impl From<conveyor_store::Error> for Trouble {
    fn from(error: conveyor_store::Error) -> Trouble {
        tracing::warn!(%error, "an ingest met an error of the store");
        let shown = match error {
            Error::Full(_) => "there is no room in the store",
            Error::Unavailable(_) => "the store does not answer",
            Error::Missing(_) => "the storage is not set up",
            Error::NotFound => "something of the ingest is not there",
            Error::Corrupt(_) | Error::Conflict(_) | Error::Refused(_) | Error::Changed => {
                "the store does not hold what it should"
            }
        };
        Trouble::Passing(shown.to_owned())
    }
}

impl From<LogOutOfOrder> for Trouble {
    fn from(error: LogOutOfOrder) -> Trouble {
        Trouble::Passing(error.to_string())
    }
}

impl From<ListError> for Trouble {
    fn from(error: ListError) -> Trouble {
        match error {
            ListError::Fault { fault, line, detail } => {
                Trouble::List { fault, detail, line, report: None, rejected: 0 }
            }
            ListError::Read(e) => match e.downcast::<Error>() {
                Ok(error) => error.into(),
                Err(e) if e.kind() == io::ErrorKind::NotFound => Trouble::Passing(e.to_string()),
                Err(e) => {
                    tracing::warn!(error = %e, "a list could not be read");
                    Trouble::Passing("the list could not be read".to_owned())
                }
            },
        }
    }
}

/// An ingest as it stands, and whether a step of it was taken by us.
pub struct Work<'a> {
    pub ingester: &'a Ingester,
    pub key: RunKey,
    pub ingest: Ingest,
    pub state: IngestState,
}

impl Work<'_> {
    /// What this process was told, except for what the list was accepted under: another ingester's rows must be valid here.
    pub fn config(&self) -> IngestConfig {
        let own = self.ingester.config;
        let rules = self.state.list().map_or(own.rules, |list| list.rules(own.rules.params));
        IngestConfig { rules, ..own }
    }

    /// The list that is read.
    pub fn list(&self) -> Result<&Source, Trouble> {
        self.state.list().ok_or_else(|| Trouble::Passing("there is no list to read".to_owned()))
    }

    pub fn headers(&self) -> Result<Headers, Trouble> {
        let (seal, list) = (self.ingester.headers.clone(), self.list()?.upload);
        Ok(Headers { seal, list, job: self.key.job })
    }

    /// Appends an event; the state moves with it if it was won.
    pub async fn append(&mut self, event: IngestEvent) -> Result<Appended, Trouble> {
        let entry = self.state.entry(event)?;
        let (number, event) = (entry.number(), entry.event().clone());
        let store = &self.ingester.backend.store;
        let appended = store.append(self.key, entry, self.ingester.clock.now()).await?;
        if appended == Appended::Done {
            self.state.apply(number, &event)?;
        }
        Ok(appended)
    }
}

impl Ingester {
    /// The ingest of a run as its log has it; `None` if there is none.
    pub(crate) async fn load(&self, key: RunKey) -> Result<Option<Work<'_>>, Trouble> {
        let Some(ingest) = self.backend.store.ingest(key, port::Reader::Role).await? else { return Ok(None) };
        let state = IngestState::fold(&ingest.log)?;
        Ok(Some(Work { ingester: self, key, ingest, state }))
    }

    /// Goes on with an ingest until it is over, or cannot go on.
    pub async fn ingest(&self, key: RunKey, stop: &CancellationToken) -> Result<End, Trouble> {
        // What was opened to find out what it is, is read on.
        let mut opened = None;
        loop {
            if stop.is_cancelled() {
                return Ok(End::Stopped);
            }
            let Some(mut work) = self.load(key).await? else { return Ok(End::Gone) };
            let appended = match self.step(&mut work, &mut opened, stop).await {
                Ok(Step::Appended(appended)) => appended,
                Ok(Step::End(end)) => return Ok(end),
                Err(Trouble::List { fault, detail, line, report, rejected }) => {
                    tracing::info!(run = %key.run, %fault, detail, "a list cannot be taken");
                    let named = report.clone();
                    let failed = IngestEvent::Failed { fault, detail, line, report, rejected };
                    let appended = work.append(failed).await?;
                    read::forget_report(&work, named, appended).await;
                    appended
                }
                Err(passing) => return Err(passing),
            };
            match appended {
                // The run ended: what is left to do is found out anew.
                Appended::Done | Appended::Ended => {}
                Appended::Lost => match self.load(key).await?.map(|now| now.state) {
                    // Nobody has the number, and still it was refused: the run and its log do not agree. Trying on at once
                    // would never end.
                    Some(now) if now.events == work.state.events => {
                        return Err(Trouble::Passing(
                            "the run does not take what its log asks for".to_owned(),
                        ));
                    }
                    // A note in the log, of a failure or of a call, is not somebody who goes on.
                    Some(now) if now.progress == work.state.progress => {}
                    Some(_) => return Ok(End::Lost),
                    None => return Ok(End::Gone),
                },
                Appended::Gone => return Ok(End::Gone),
            }
        }
    }

    async fn step(
        &self,
        work: &mut Work<'_>,
        opened: &mut Option<Reader>,
        stop: &CancellationToken,
    ) -> Result<Step, Trouble> {
        match work.state.next_step(&work.ingest.run) {
            NextStep::Open => {
                let list = work.list()?.clone();
                let (compression, reader) = source::open(&self.backend, &list, &self.config).await?;
                let layout = reader.layout().clone();
                *opened = Some(reader);
                Ok(Step::Appended(work.append(IngestEvent::SourcePinned { compression, layout }).await?))
            }
            NextStep::Validate => match count::count_all(work, opened.take(), stop).await? {
                Some(Counted { rows, .. }) => {
                    Ok(Step::Appended(work.append(IngestEvent::Validated { rows }).await?))
                }
                None => Ok(Step::End(End::Stopped)),
            },
            NextStep::Count => match count::count_all(work, opened.take(), stop).await? {
                Some(Counted { records, rows }) => {
                    Ok(Step::Appended(work.append(IngestEvent::Counted { records, rows }).await?))
                }
                None => Ok(Step::End(End::Stopped)),
            },
            NextStep::Read { .. } => match work.state.origin.clone() {
                Origin::List(_) => read::read(work, opened.take(), stop).await,
                Origin::Run(earlier) => replay::replay(work, &earlier, stop).await,
            },
            NextStep::Latch => Ok(Step::Appended(work.append(IngestEvent::Latched).await?)),
            NextStep::Cut { total } => Ok(Step::Appended(work.append(IngestEvent::Cut { total }).await?)),
            NextStep::Nothing => Ok(Step::End(End::Over)),
        }
    }
}

/// What a step came to.
#[derive(Debug)]
pub enum Step {
    Appended(Appended),
    End(End),
}
