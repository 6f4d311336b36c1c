//! A server ends with its owner, however that ends, and leaves nothing behind.

use crate::http::{call, listens, s3};
use conveyor_aws_servers::{Installation, Kind, Server};
use conveyor_testkit::until_blocking;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The program, with its temporary files in a folder of the test.
struct Owner {
    process: Child,
    urls: Vec<String>,
    temporary: TempDir,
}

impl Owner {
    fn start(combination: &str) -> Owner {
        let temporary = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_aws-servers"));
        command.args(["run", "--until-stdin-closes", "--combination", combination]);
        command.env("TMPDIR", temporary.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
        // The program goes on without its output, so that the last line has to be known.
        let last = |line: &String| line.contains("_LOCALSTACK_URL=") || line.contains("_MINISTACK_URL=");
        let mut urls = Vec::new();
        for line in lines {
            urls.extend(
                line.split_once('=')
                    .filter(|(name, _)| name.ends_with("_URL"))
                    .map(|(_, url)| url.to_owned()),
            );
            if last(&line) {
                break;
            }
        }
        assert!(!urls.is_empty() && urls.iter().all(|url| listens(url)), "{urls:?}");
        assert_eq!(fs::read_dir(&temporary).unwrap().count(), urls.len(), "a folder for each server");
        Owner { process, urls, temporary }
    }

    fn leaves_nothing(&self) {
        until_blocking("nothing listens", || !self.urls.iter().any(|url| listens(url)));
        until_blocking("no file is left", || fs::read_dir(&self.temporary).unwrap().count() == 0);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_killed_owner_takes_its_servers_with_it() {
    for combination in ["default", "dynamodb-local", "ministack"] {
        let mut owner = Owner::start(combination);
        owner.process.kill().unwrap();
        owner.process.wait().unwrap();
        owner.leaves_nothing();
    }
}

#[test]
fn localstack_keeps_objects_in_its_own_folder() {
    let owner = Owner::start("default");
    let localstack = owner.urls.last().unwrap();
    s3(localstack, "PUT", "/inside", "");
    let states = fs::read_dir(&owner.temporary).unwrap().map(|state| state.unwrap().path());
    let buckets: Vec<_> =
        states.map(|state| state.join("s3").join("inside")).filter(|bucket| bucket.is_dir()).collect();
    assert_eq!(
        buckets.len(),
        1,
        "Localstack keeps objects in a folder that all servers of the machine share"
    );
}

#[test]
fn the_program_ends_with_its_standard_input() {
    let mut owner = Owner::start("ministack");
    drop(owner.process.stdin.take());
    assert!(owner.process.wait().unwrap().success());
    owner.leaves_nothing();
}

#[test]
fn a_dropped_server_is_gone() {
    let server = Server::start(&Installation::find().unwrap(), Kind::Dynoxide).unwrap();
    let url = server.url().to_owned();
    drop(server);
    assert!(!listens(&url));
}

#[test]
fn tables_in_a_file_outlive_the_server() {
    let installation = Installation::find().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tables.db");
    let list = |server: &Server| call(server.url(), "dynamodb", "DynamoDB_20120810.ListTables", "{}");
    let first = Server::start_dynoxide_on(&installation, &file).unwrap();
    let table = r#"{"TableName": "kept", "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}]}"#;
    call(first.url(), "dynamodb", "DynamoDB_20120810.CreateTable", table);
    drop(first);
    let second = Server::start_dynoxide_on(&installation, &file).unwrap();
    assert!(list(&second).contains("kept"));
}
