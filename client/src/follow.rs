//! The events of a job as they happen: server-sent events, resumed behind the last one.

use crate::sse::Parser;
use crate::{Client, Error, Raw};
use conveyor_wire::{Event, Run};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use reqwest::header::{ACCEPT, HeaderName, HeaderValue};
use reqwest::{Method, Response};
use std::collections::VecDeque;
use std::fmt::Display;
use std::time::Duration;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

impl Client {
    /// The events of a job behind the one with this id (0 for all), until its latest run is over or the job is deleted. A
    /// stream that breaks off is resumed behind the last event.
    pub fn follow(&self, job: impl Display, after: u64) -> BoxStream<'static, Result<Raw<Event>, Error>> {
        let follower = Follower {
            client: self.clone(),
            job: job.to_string(),
            last: after,
            heard: after,
            retries: 0,
            stream: None,
            rest: None,
            ready: VecDeque::new(),
        };
        Box::pin(stream::try_unfold(follower, |mut follower| async move {
            let event = follower.next().await?;
            Ok(event.map(|event| (event, follower)))
        }))
    }
}

struct Follower {
    client: Client,
    job: String,
    /// The event that was given last.
    last: u64,
    /// What `last` was when the connection was opened.
    heard: u64,
    /// Connections in a row that gave nothing.
    retries: u32,
    stream: Option<Connection>,
    /// What the stream did not come to tell: all events in pages, once the run is over.
    rest: Option<BoxStream<'static, Result<Vec<Raw<Event>>, Error>>>,
    ready: VecDeque<Raw<Event>>,
}

struct Connection {
    response: Response,
    parser: Parser,
    /// A run has ended.
    ending: bool,
}

impl Follower {
    async fn next(&mut self) -> Result<Option<Raw<Event>>, Error> {
        loop {
            while let Some(event) = self.ready.pop_front() {
                let id = event.read()?.id;
                if id > self.last {
                    self.last = id;
                    return Ok(Some(event));
                }
            }
            let more = match &mut self.rest {
                Some(rest) => rest.try_next().await,
                None => self.listen().await.map(Some),
            };
            match more {
                Ok(Some(events)) => self.ready.extend(events),
                Ok(None) => return Ok(None),
                // It was there: it has been deleted meanwhile.
                Err(error) if error.is_not_found() && (self.last > 0 || self.rest.is_some()) => {
                    return Ok(None);
                }
                Err(error) => {
                    self.pause(error.retry_after().filter(|_| self.may_retry()).ok_or(error)?).await
                }
            }
        }
    }

    fn may_retry(&self) -> bool {
        self.rest.is_none() && (self.retries < self.client.transfers().max || self.last > self.heard)
    }

    /// Waits before the next connection.
    async fn pause(&mut self, asked: Duration) {
        if self.last > self.heard {
            self.retries = 0;
        }
        self.stream = None;
        let wait = self.client.transfers().wait(self.retries, asked, self.client.entropy());
        self.retries = self.retries.saturating_add(1);
        tokio::time::sleep(wait).await;
    }

    /// The events that come with the next piece of the stream.
    async fn listen(&mut self) -> Result<Vec<Raw<Event>>, Error> {
        if self.stream.is_none() {
            self.heard = self.last;
            self.stream = Some(self.connect().await?);
        }
        let Some(Connection { response, parser, ending }) = &mut self.stream else { return Ok(Vec::new()) };
        let Some(piece) = response.chunk().await.map_err(|e| self.client.broken(e))? else {
            // The server ends streams that have no more to say, and others when it stops.
            self.stream = None;
            match self.is_over().await? {
                true => self.end(),
                false => self.pause(Duration::ZERO).await,
            }
            return Ok(Vec::new());
        };
        let messages =
            parser.feed(&piece).map_err(|_| Error::NotUnderstood("an event without end".to_owned()))?;
        let mut events = Vec::new();
        for message in messages {
            let not_understood = |e: serde_json::Error| Error::NotUnderstood(format!("an event: {e}"));
            let event: Raw<Event> = Raw::new(serde_json::from_str(&message.data).map_err(not_understood)?);
            let kind = event.read()?.kind;
            *ending |=
                matches!(kind.as_str(), "run.completed" | "run.stopped" | "run.failed" | "run.deleted");
            events.push(event);
        }
        if *ending {
            self.ready.append(&mut events.into());
            // The list of a run that was stopped may still have to be cut: its events come last.
            if self.is_over().await? {
                self.end();
            }
            return Ok(Vec::new());
        }
        Ok(events)
    }

    async fn connect(&mut self) -> Result<Connection, Error> {
        let url = self.client.url(&[&"jobs", &self.job, &"events"]);
        let request = self.client.with_key(Method::GET, url);
        let accept = HeaderValue::from_static("text/event-stream");
        let request = request.header(ACCEPT, accept).header(LAST_EVENT_ID, self.last);
        let response = self.client.send(request).await?;
        Ok(Connection { response, parser: Parser::default(), ending: false })
    }

    fn end(&mut self) {
        self.stream = None;
        self.rest = Some(self.client.events(&self.job).pages().boxed());
    }

    /// Whether nothing more will happen to the latest run. A job that is gone is over too.
    async fn is_over(&mut self) -> Result<bool, Error> {
        let found = self.client.job(&self.job).find().await;
        // A server that ends its streams is often one that is being restarted.
        let job = found.map_err(|error| if error.may_pass() { error.retriable() } else { error })?;
        let run = job.and_then(|answer| answer.document.latest_run);
        Ok(run.is_none_or(|run: Run| run.is_over() && !run.is_ingesting()))
    }
}
