//! Installing again, from the middle, and from two sides at once. With the smallest of the servers.

use conveyor_aws_servers::{Installation, Kind, Server};
use std::fs;
use std::thread;

#[test]
fn two_that_install_at_once_get_one_installation() {
    let target = tempfile::tempdir().unwrap();
    let installation = Installation::under(target.path());
    let folders = thread::scope(|scope| {
        let installing = [(); 2].map(|()| scope.spawn(|| installation.install(Kind::Dynoxide).unwrap()));
        installing.map(|thread| thread.join().unwrap())
    });
    assert_eq!(folders[0], folders[1]);
    Server::start(&installation, Kind::Dynoxide).unwrap();
}

#[test]
fn half_an_installation_is_done_again_and_a_whole_one_is_not() {
    let target = tempfile::tempdir().unwrap();
    let installation = Installation::under(target.path());
    let folder = installation.install(Kind::Dynoxide).unwrap();
    let mark = folder.join("mark");
    fs::write(&mark, "").unwrap();
    installation.install(Kind::Dynoxide).unwrap();
    assert!(mark.exists());
    fs::remove_file(folder.join("installed.txt")).unwrap();
    installation.install(Kind::Dynoxide).unwrap();
    assert!(!mark.exists());
    Server::start(&installation, Kind::Dynoxide).unwrap();
}
