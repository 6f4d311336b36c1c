//! A deployment under a name of its own: a table, queues, a bucket, and roles.

use crate::support::wall_clock::WallClock;
use crate::support::{Client, KEY, Process, conveyor, stored, until, until_fits};
use conveyor_aws::{Clients, Settings};
use conveyor_aws_servers::{Combination, Environment};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::process::Command;
use tempfile::TempDir;

pub const ROLES: [&str; 4] = ["api", "ingest", "worker", "sweeper"];

pub struct Deployment {
    pub name: String,
    pub roles: Vec<(&'static str, Process)>,
    variables: Vec<(String, String)>,
    /// What every role gets.
    flags: Vec<String>,
    dir: TempDir,
}

pub async fn servers() -> Environment {
    tokio::task::spawn_blocking(|| Environment::shared(Combination::Default)).await.unwrap().unwrap()
}

impl Deployment {
    /// With everything that roles need, and none of them.
    pub fn prepare(name: &str, environment: &Environment, flags: &[&str]) -> Deployment {
        let deployment = Deployment::bare(name, environment, flags);
        deployment.provision();
        deployment
    }

    /// A name, and nothing under it.
    pub fn bare(name: &str, environment: &Environment, flags: &[&str]) -> Deployment {
        let variables = environment.variables().map(|(name, value)| (name.to_owned(), value.to_owned()));
        Deployment {
            name: format!("{name}-{}", std::process::id()),
            roles: Vec::new(),
            variables: variables.into(),
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            dir: TempDir::new().unwrap(),
        }
    }

    /// What roles that are started from now on reach.
    pub fn reach(&mut self, environment: &Environment) {
        let variables = environment.variables().map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.variables = variables.into();
    }

    pub fn provision(&self) {
        assert!(self.command("provision").status().unwrap().success());
    }

    pub fn command(&self, command: &str) -> Command {
        let mut process = conveyor();
        process.arg(command).envs(self.variables.iter().map(|(name, value)| (name, value)));
        process.envs([
            ("CONVEYOR_AWS_TABLE", self.name.as_str()),
            ("CONVEYOR_AWS_QUEUE_PREFIX", &self.name),
            ("CONVEYOR_AWS_BUCKET", &self.name),
            ("CONVEYOR_AWS_QUEUE_EMPTY_AFTER_MS", "2000"),
        ]);
        process
    }

    fn role(&self, role: &str) -> Process {
        Process::start(self.role_command(role))
    }

    pub fn role_command(&self, role: &str) -> Command {
        let mut command = self.keyless(role);
        command.args(["--api-key", KEY]);
        command
    }

    /// A role that has no keys to store, and so starts before there is a table.
    pub fn keyless(&self, role: &str) -> Command {
        let mut command = self.command(role);
        command.args(["--backend", "aws", "--listen", "127.0.0.1:0"]);
        command.args(["--secret-key", &"0b".repeat(32), "--visibility-ms", "3000"]).args(&self.flags);
        command.arg("--data-dir").arg(self.dir.path()).env("CONVEYOR_LOG", "error");
        command
    }

    /// Starts a role whose wall clock the test sets.
    pub fn start_at(&mut self, role: &'static str, clock: &WallClock) {
        let mut command = self.role_command(role);
        clock.wear(&mut command);
        self.roles.push((role, Process::start(command)));
    }

    /// Starts these roles, all at once.
    pub fn start(&mut self, roles: impl IntoIterator<Item = &'static str>) {
        let started: Vec<_> = std::thread::scope(|scope| {
            let this = &*self;
            let starting: Vec<_> =
                roles.into_iter().map(|role| (role, scope.spawn(move || this.role(role)))).collect();
            starting.into_iter().map(|(role, process)| (role, process.join().expect("it starts"))).collect()
        });
        self.roles.extend(started);
    }

    /// kill -9 for one of these. Which one of them, `choice` says.
    pub fn kill(&mut self, role: &str, choice: usize) {
        let places = (0..self.roles.len()).filter(|place| self.roles[*place].0 == role);
        let places: Vec<usize> = places.collect();
        self.roles.remove(places[choice % places.len()]).1.kill();
    }

    pub fn client(&self) -> Client {
        let (_, api) = self.roles.iter().find(|(role, _)| *role == "api").unwrap();
        Client::new(api)
    }

    pub async fn clients(&self, environment: &Environment) -> Clients {
        stored::clients(environment, &Settings::named(&self.name)).await
    }

    /// Sends a message to the queue of a run, again and again.
    pub async fn send(&self, environment: &Environment, run: &str, body: &str, times: usize) {
        let sqs = self.clients(environment).await.sqs;
        let queue = sqs.get_queue_url().queue_name(format!("{}-run-{run}", self.name)).send().await.unwrap();
        for _ in 0..times {
            let message = sqs.send_message().queue_url(queue.queue_url().unwrap()).message_body(body);
            message.send().await.unwrap();
        }
    }

    /// Stages and submits a list of so many pages when the API is ready; answers with its job.
    pub async fn submit(&self, name: &str, rows: usize) -> String {
        let client = self.client();
        until("the API is ready", async || client.get("/readyz").await.0 == 200).await;
        let client = client.patient();
        let list: String = (0..rows).map(|n| page(name, n) + "\n").collect();
        client.submit_lines(list, json!({"max_inflight": 10_000})).await
    }

    /// The job, if the API answers; what it says must add up at every look.
    pub async fn look(&self, job: &str) -> Option<Value> {
        let (status, view) = self.client().try_get(&format!("/v1/jobs/{job}")).await.ok()?;
        if status == 503 {
            return None;
        }
        assert_eq!(status, 200, "{view}");
        let stats = &view["latest_run"]["stats"];
        assert!(stats["completed"].as_u64() <= stats["total"].as_u64(), "{view}");
        assert_ne!(view["latest_run"]["status"], "failed", "{view}");
        Some(view)
    }

    /// How many tasks of a job have ended. Waits for an answer.
    pub async fn completed(&self, job: &str) -> u64 {
        conveyor_testkit::eventually("the API answers", async || {
            self.look(job).await?["latest_run"]["stats"]["completed"].as_u64()
        })
        .await
    }

    /// Waits until a job that was submitted here is done, and checks each of its tasks.
    pub async fn check_exact(&self, job: &str, name: &str, rows: usize) {
        let is_done = |view: &Option<Value>| {
            view.as_ref().is_some_and(|view| view["latest_run"]["status"] == "completed")
        };
        let view = until_fits("the run is done", async || self.look(job).await, is_done).await.unwrap();
        let client = self.client().patient();
        let exactly = json!({"total": rows, "completed": rows, "successful": rows, "failed": 0});
        assert_eq!(view["latest_run"]["stats"], exactly);
        let results = client.results_by(job, 1000).await;
        let in_order =
            |(n, result): (usize, &Value)| result["url"] == page(name, n) && result["status"] == "successful";
        assert!(
            results.len() == rows && results.iter().enumerate().all(in_order),
            "{} results",
            results.len()
        );
        let ids: HashSet<_> = results.iter().map(|r| r["task_id"].as_str().unwrap().to_owned()).collect();
        assert_eq!(ids.len(), rows);
        // A long list has more events than a page: each chunk is one.
        let events = client.every_page(job, "events", 1000).await;
        let completions = events.iter().filter(|event| event["type"] == "run.completed");
        assert_eq!(completions.count(), 1, "completed once");
    }
}

/// A page of a list that was submitted here.
pub fn page(name: &str, n: usize) -> String {
    format!("https://example.com/page/{name}/{n}")
}
