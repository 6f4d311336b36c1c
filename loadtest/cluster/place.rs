//! Where a cluster lives: its address, its folder, and the names of its resources.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Place {
    pub listen: String,
    pub folder: PathBuf,
    /// Of the table, the queues and the bucket.
    pub name: String,
    pub secret_key: String,
}

impl Place {
    /// The place, and the flags that every role gets.
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<(Place, Vec<String>)> {
        ensure!(arguments.next().as_deref() == Some("dev"), "usage: cluster dev <the flags of conveyor dev>");
        let (mut listen, mut folder, mut flags) =
            ("127.0.0.1:8080".to_owned(), "conveyor-data".into(), Vec::new());
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--listen" => listen = value()?,
                "--data-dir" => folder = PathBuf::from(value()?),
                _ => flags.push(argument),
            }
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let name = format!("cluster-{}", &kept(&folder, "cluster-name")?[..16]);
        let secret_key = kept(&folder, "cluster-secret")?;
        Ok((Place { listen, folder, name, secret_key }, flags))
    }

    pub fn variables(&self) -> [(&'static str, &str); 5] {
        [
            ("CONVEYOR_BACKEND", "aws"),
            ("CONVEYOR_AWS_TABLE", &self.name),
            ("CONVEYOR_AWS_QUEUE_PREFIX", &self.name),
            ("CONVEYOR_AWS_BUCKET", &self.name),
            ("CONVEYOR_SECRET_KEY", &self.secret_key),
        ]
    }
}

/// 64 random hex digits, the same at the next start.
fn kept(folder: &Path, file: &str) -> Result<String> {
    let path = folder.join(file);
    if let Ok(text) = fs::read_to_string(&path) {
        return Ok(text);
    }
    let mut bytes = [0; 32];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(text)
}
