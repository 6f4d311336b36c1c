use super::{Launch, Recipe, Service};
use crate::install::{Source, python};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// Its main program, after corrections for which there is no setting.
/// - S3 keeps its objects in the folder of this server. Otherwise all servers of a machine keep them in the same one, and
///   a bucket that is deleted takes the folder of its namesake with it.
/// - It listens on loopback only. Otherwise it takes no more than the port from `GATEWAY_LISTEN`.
/// - An upload in parts is completed by one call at a time, as S3 does it. Otherwise the later of two calls empties the
///   object, because the earlier has already thrown the parts away.
/// - It ends if its port is taken. Otherwise it runs on, deaf, and even SIGTERM does not end it.
/// - It loads the index of all AWS services that [`PREPARE`] has made. Otherwise every start makes it, which takes longer
///   than everything else and three times the memory.
const MAIN: &str = r#"
import functools
import os
import threading
from localstack import config
config.dirs.static_libs = os.environ["CATALOG_DIR"]
import localstack.services.s3.provider as s3
from twisted.internet import endpoints

class Loopback(endpoints.TCP4ServerEndpoint):
    def __init__(self, reactor, port):
        super().__init__(reactor, port, interface="127.0.0.1")

    def listen(self, factory):
        def end(failure):
            print(failure.getErrorMessage(), flush=True)
            os._exit(1)
        return super().listen(factory).addErrback(end)

def one_at_a_time(operation):
    lock = threading.Lock()

    @functools.wraps(operation)
    def locked(*args, **kwargs):
        with lock:
            return operation(*args, **kwargs)
    return locked

s3.S3Provider.complete_multipart_upload = one_at_a_time(s3.S3Provider.complete_multipart_upload)
s3.DEFAULT_S3_TMP_DIR = os.path.join(os.environ["TMPDIR"], "s3")
endpoints.TCP4ServerEndpoint = Loopback
from localstack.runtime.main import main
main()
"#;

/// Makes the index of all AWS services, once, in the folder where it runs.
const PREPARE: &str = r#"
import os
import sys
os.environ["OVERRIDE_IN_DOCKER"] = "0"
from localstack import config
config.dirs.static_libs = os.getcwd()
from localstack.aws import spec
sys.exit(spec.main())
"#;
/// It says 3.10, and uses what came with 3.12 and 3.13.
const PYTHON: (u32, u32) = (3, 13);

pub const RECIPE: Recipe = Recipe {
    name: "localstack",
    version: "2026.3.0",
    source: Source::Python {
        requirements: include_str!("../../requirements/localstack.txt"),
        at_least: PYTHON,
        then: Some(PREPARE),
    },
    needs: || Ok(()),
    services: &[Service::Sqs, Service::S3],
    command,
};

fn command(installed: &Path, launch: &Launch) -> Result<Command> {
    let address = format!("127.0.0.1:{}", launch.port);
    let mut command = Command::new(python::interpreter(installed));
    command.args(["-c", MAIN]).env("CATALOG_DIR", installed);
    command.env("GATEWAY_LISTEN", &address).env("SERVICES", "sqs,s3");
    // URLs of queues that can be reached as they are; otherwise they have a name that only public DNS resolves.
    command.env("LOCALSTACK_HOST", &address).env("SQS_ENDPOINT_STRATEGY", "path");
    // Presigned URLs are checked, as S3 does.
    command.env("S3_SKIP_SIGNATURE_VALIDATION", "0");
    // Nothing is sent or fetched, and no DNS server is started.
    command.env("DISABLE_EVENTS", "1").env("SKIP_SSL_CERT_DOWNLOAD", "1").env("DNS_ADDRESS", "0");
    // A line for every call would cost more than some calls.
    command.env("LS_LOG", "warn");
    // Its files. In a container it would take it for its own, and use /etc/localstack, /var/lib/localstack and the like.
    command.env("OVERRIDE_IN_DOCKER", "0");
    for variable in ["LOCALSTACK_VOLUME_DIR", "FILESYSTEM_ROOT", "TMPDIR"] {
        command.env(variable, &launch.state);
    }
    Ok(command)
}
