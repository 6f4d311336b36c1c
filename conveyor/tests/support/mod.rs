//! The real binary, real sockets: started, spoken to, killed.

#![expect(dead_code, reason = "each test file uses a part of this")]

use conveyor_aws_servers::{Combination, Environment};
use reqwest::Method;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;
use tokio::time::Instant;

pub const KEY: &str = "test-key-0123456789";
pub const OTHER_KEY: &str = "other-key-0123456789";
const START_DEADLINE: Duration = Duration::from_secs(60);
pub const DEADLINE: Duration = Duration::from_secs(180);

/// Whether servers are started as two processes of every role on the AWS backend instead of as one on the embedded store.
pub fn on_aws() -> bool {
    std::env::var_os("CONVEYOR_TEST_CLUSTER").is_some()
}

/// Rounds of a test that begins anew in each: fewer where a round takes seconds.
pub fn rounds(on_embedded: u64) -> u64 {
    if on_aws() { on_embedded.div_ceil(8) } else { on_embedded }
}

pub fn conveyor() -> Command {
    cleared(Command::new(env!("CARGO_BIN_EXE_conveyor")))
}

fn cleared(mut command: Command) -> Command {
    // What the developer's own shell exports must not decide a test.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CONVEYOR_")) {
        command.env_remove(name);
    }
    command
}

/// A program of another package of the workspace, next to the one under test.
fn sibling(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_conveyor")).with_file_name(name);
    assert!(path.exists(), "{} is missing: run `cargo build --workspace` first", path.display());
    path
}

/// A process that ends with the test, whatever the test does.
pub struct Process {
    child: Child,
    pub url: String,
    /// Where it takes orders, if it is a proxy.
    pub control: String,
}

impl Process {
    /// Starts a program and waits until it says where it listens.
    pub fn start(mut command: Command) -> Process {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
        let mut child = child.expect("the program starts");
        let stdout = child.stdout.take().expect("piped");
        let (found, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(url) = line.strip_prefix("listening on ").or(line.strip_prefix("control on ")) {
                    let _ = found.send(url.to_owned());
                }
            }
        });
        let mut process = Process { child, url: String::new(), control: String::new() };
        let said = || lines.recv_timeout(START_DEADLINE).expect("the program did not say where it listens");
        process.url = said();
        if command.get_args().any(|argument| argument == "--control") {
            process.control = said();
        }
        process
    }

    pub fn server(data_dir: &Path, flags: &[&str]) -> Process {
        Process::start(server_command(data_dir, flags))
    }

    /// The gateway of the load test: a real HTTP service whose answers the target URL decides.
    pub fn gateway(flags: &[&str]) -> Process {
        let mut command = Command::new(sibling("loadtest"));
        command.args(["gateway", "--listen", "127.0.0.1:0"]).args(flags);
        Process::start(command)
    }

    /// A proxy of the load test in front of a server that speaks like an AWS service.
    pub fn proxy(service: &str, upstream: &str) -> Process {
        let mut command = Command::new(sibling("loadtest"));
        command.args(["proxy", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]);
        command.args(["--service", service, "--upstream", upstream]);
        Process::start(command)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// kill -9: no destructor, no flush, no goodbye.
    pub fn kill(mut self) {
        self.child.kill().expect("the process can be killed");
        self.child.wait().expect("the process ends");
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    pub async fn wait(mut self, deadline: Duration) -> ExitStatus {
        let until = Instant::now() + deadline;
        loop {
            if let Some(status) = self.child.try_wait().expect("the process can be asked") {
                return status;
            }
            assert!(Instant::now() < until, "the process did not end in time");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub async fn stop(self) {
        self.signal("TERM");
        assert!(self.wait(DEADLINE).await.success(), "a graceful stop exits with 0");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn server_command(data_dir: &Path, flags: &[&str]) -> Command {
    let mut command = if on_aws() { cleared(Command::new(sibling("cluster"))) } else { conveyor() };
    if on_aws() {
        let environment = Environment::shared(Combination::Default).expect("AWS-compatible servers");
        command.envs(environment.variables());
        // What a killed process held comes back by its own time there.
        command.env("CONVEYOR_VISIBILITY_MS", "3000").env("CONVEYOR_AWS_QUEUE_EMPTY_AFTER_MS", "2000");
    }
    command.args(["dev", "--listen", "127.0.0.1:0", "--api-key", KEY, "--api-key", OTHER_KEY]);
    command.arg("--data-dir").arg(data_dir).args(flags).env("CONVEYOR_LOG", "warn");
    command
}

/// Runs a program that is expected to end by itself.
pub fn run(mut command: Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    child.expect("the program starts").wait_with_output().expect("the program ends")
}

/// Runs a server that must refuse to start, and returns what it says.
pub async fn refused(mut command: Command) -> String {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let mut stderr = child.stderr.take().expect("piped");
    let process = Process { child, url: String::new(), control: String::new() };
    let status = process.wait(START_DEADLINE).await;
    let mut text = String::new();
    stderr.read_to_string(&mut text).expect("text");
    assert_eq!(status.code(), Some(1), "{text}");
    text
}

/// A caller of the API.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    pub url: String,
    key: String,
}

impl Client {
    pub fn new(server: &Process) -> Client {
        Client::with_key(server, KEY)
    }

    pub fn with_key(server: &Process, key: &str) -> Client {
        let http = conveyor_outbound::client_builder().no_proxy().timeout(Duration::from_secs(30)).build();
        Client { http: http.expect("a client"), url: server.url.clone(), key: key.to_owned() }
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> reqwest::Result<(u16, Value)> {
        let mut request =
            self.http.request(method, format!("{}{path}", self.url)).header("X-API-Key", &self.key);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await?;
        let status = answer.status().as_u16();
        Ok((status, answer.json().await?))
    }

    pub async fn try_submit(&self, body: &Value) -> reqwest::Result<(u16, Value)> {
        self.call(Method::POST, "/v1/jobs", Some(body)).await
    }

    pub async fn submit(&self, urls: &[String]) -> String {
        let (status, body) = self.try_submit(&list(urls)).await.expect("an answer");
        assert_eq!(status, 201, "{body}");
        body["job_id"].as_str().expect("a job id").to_owned()
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.call(Method::GET, path, None).await.expect("an answer")
    }

    /// For a server that may be gone.
    pub async fn try_get(&self, path: &str) -> reqwest::Result<(u16, Value)> {
        self.call(Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str) -> (u16, Value) {
        self.call(Method::POST, path, None).await.expect("an answer")
    }

    pub async fn post_json(&self, path: &str, body: &Value) -> (u16, Value) {
        self.call(Method::POST, path, Some(body)).await.expect("an answer")
    }

    pub async fn delete(&self, path: &str) -> (u16, Value) {
        self.call(Method::DELETE, path, None).await.expect("an answer")
    }

    /// Stages a list under a slot that is made with `slot`, and returns its id.
    pub async fn upload(&self, slot: &Value, bytes: Vec<u8>) -> String {
        let (status, made) = self.post_json("/v1/job_inputs", slot).await;
        assert_eq!(status, 201, "{made}");
        let mut put = self.http.put(made["upload"]["url"].as_str().expect("a URL")).body(bytes);
        for (name, value) in made["upload"]["headers"].as_object().expect("headers") {
            put = put.header(name, value.as_str().expect("text"));
        }
        let answer = put.send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), 200, "{}", answer.text().await.unwrap_or_default());
        made["file_input_id"].as_str().expect("an id").to_owned()
    }

    pub async fn text(&self, url: &str) -> (u16, String) {
        let answer = self.http.get(url).send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("text"))
    }

    pub async fn job(&self, job: &str) -> Value {
        let (status, body) = self.get(&format!("/v1/jobs/{job}")).await;
        assert_eq!(status, 200, "{body}");
        body
    }

    /// Waits until the job's run has one of the statuses.
    pub async fn wait_for(&self, job: &str, statuses: &[&str]) -> Value {
        let until = Instant::now() + DEADLINE;
        loop {
            let view = self.job(job).await;
            if statuses.iter().any(|s| view["latest_run"]["status"] == *s) {
                return view;
            }
            assert!(Instant::now() < until, "job {job} did not get there: {view}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Every result of the job, page by page.
    pub async fn results(&self, job: &str) -> Vec<Value> {
        self.results_by(job, 37).await
    }

    pub async fn results_by(&self, job: &str, limit: u32) -> Vec<Value> {
        let mut all = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let more = cursor.map(|c| format!("&cursor={c}")).unwrap_or_default();
            let (status, page) = self.get(&format!("/v1/jobs/{job}/results?limit={limit}{more}")).await;
            assert_eq!(status, 200, "{page}");
            all.extend(page["results"].as_array().expect("a page").iter().cloned());
            cursor = page["next_cursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                return all;
            }
        }
    }
}

pub fn list(urls: &[String]) -> Value {
    let tasks: Vec<Value> = urls.iter().map(|u| serde_json::json!({ "url": u })).collect();
    serde_json::json!({ "tasks": tasks })
}

/// Distinct targets that the load test's gateway answers with a page.
pub fn urls(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("https://example.com/{prefix}/{i}")).collect()
}

/// Waits until a condition holds.
pub async fn until<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let deadline = Instant::now() + DEADLINE;
    while !condition().await {
        assert!(Instant::now() < deadline, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
