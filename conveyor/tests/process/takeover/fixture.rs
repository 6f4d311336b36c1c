//! A fixture, unpacked, and the time that it is moved to.

use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/layout-5");

/// How long ago the crash was, as far as the image can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// Long enough for every lease, visibility timeout and short backoff to be over.
    Fresh,
    /// Longer than anything is kept.
    Old,
}

impl Age {
    fn duration(self) -> Duration {
        match self {
            Age::Fresh => Duration::from_secs(5 * 60),
            Age::Old => Duration::from_secs(400 * 24 * 60 * 60),
        }
    }
}

#[derive(Debug)]
pub struct Fixture {
    /// What was made, and what must become of it.
    pub manifest: Value,
    /// Every document that callers could read of it.
    pub documents: Value,
    dir: TempDir,
}

impl Fixture {
    pub fn embedded() -> Fixture {
        Fixture::unpack("embedded")
    }

    pub fn aws() -> Fixture {
        Fixture::unpack("aws")
    }

    fn unpack(name: &str) -> Fixture {
        let file = |ending: &str| Path::new(FOLDER).join(format!("{name}.{ending}"));
        let dir = TempDir::new().unwrap();
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(file("tar.gz")).arg("-C").arg(dir.path()).arg("--no-same-owner");
        assert!(tar.status().unwrap().success());
        let manifest = serde_json::from_slice(&std::fs::read(file("json")).unwrap()).unwrap();
        let mut documents = String::new();
        let packed = std::fs::File::open(file("documents.json.gz")).unwrap();
        flate2::read::GzDecoder::new(packed).read_to_string(&mut documents).unwrap();
        Fixture { manifest, documents: serde_json::from_str(&documents).unwrap(), dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// When the image was made, in milliseconds.
    pub fn made_ms(&self) -> i64 {
        self.manifest["made_ms"].as_i64().unwrap()
    }

    /// What to add to every time of the image.
    #[expect(clippy::disallowed_methods, reason = "the binary under test runs by the system's clock")]
    pub fn shift_ms(&self, age: Age) -> i64 {
        let made = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() - age.duration();
        i64::try_from(made.as_millis()).unwrap() - self.made_ms()
    }

    /// Jobs by name, with what is said about each.
    pub fn jobs(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.manifest["jobs"].as_object().unwrap().iter()
    }

    pub fn job_id(&self, name: &str) -> &str {
        self.manifest["jobs"][name]["job_id"].as_str().unwrap()
    }

    pub fn text(&self, pointer: &str) -> &str {
        self.manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("no {pointer}"))
    }
}
