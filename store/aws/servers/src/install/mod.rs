//! Installing servers, each in a folder of its own, when it is first wanted.

pub(crate) mod java;
mod npm;
pub(crate) mod python;
mod system;

use crate::servers::{Kind, Recipe};
use anyhow::{Context, Result, ensure};
use std::env;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// Where servers are installed. What is missing is installed when it is asked for.
#[derive(Clone, Debug)]
pub struct Installation {
    folder: PathBuf,
}

/// Where a server comes from.
pub(crate) enum Source {
    Npm {
        package: &'static str,
        version: &'static str,
    },
    /// An environment of its own.
    Python {
        requirements: &'static str,
        at_least: (u32, u32),
    },
}

impl Installation {
    /// Under the folder where cargo builds.
    pub fn under(target: &Path) -> Installation {
        Installation { folder: target.join("aws-servers") }
    }

    /// Under the folder where cargo built the program that runs.
    pub fn find() -> Result<Installation> {
        let program = env::current_exe().context("this program does not know where it is")?;
        // Cargo marks the folder, whatever its name.
        let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
        let target = target.with_context(|| format!("cargo did not build {}", program.display()))?;
        Ok(Installation::under(target))
    }

    /// Makes sure that a server is there, and says where. Says aloud what it does, unless there is nothing to do.
    pub fn install(&self, kind: Kind) -> Result<PathBuf> {
        let recipe = kind.recipe();
        let title = format!("{} {}", recipe.name, recipe.version);
        (recipe.needs)().with_context(|| format!("{title} cannot run here"))?;
        let place = Place::of(&self.folder, recipe);
        if !place.is_complete(recipe) {
            place.fill(recipe, &title).with_context(|| format!("{title} could not be installed"))?;
        }
        Ok(place.folder)
    }
}

struct Place {
    folder: PathBuf,
    /// Says what was installed. Written last: half an installation has none.
    stamp: PathBuf,
    lock: PathBuf,
}

impl Place {
    fn of(installation: &Path, recipe: &Recipe) -> Place {
        let folder = installation.join(format!("{}-{}", recipe.name, recipe.version));
        Place { stamp: folder.join("installed.txt"), lock: folder.with_added_extension("lock"), folder }
    }

    fn is_complete(&self, recipe: &Recipe) -> bool {
        fs::read_to_string(&self.stamp).is_ok_and(|stamp| stamp == recipe.source.stamp())
            && recipe.source.works(&self.folder)
    }

    fn fill(&self, recipe: &Recipe, title: &str) -> Result<()> {
        let _lock = self.lock(title)?;
        // Another process may have done it in the meantime.
        if self.is_complete(recipe) {
            return Ok(());
        }
        eprintln!("installing {title} into {}", self.folder.display());
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder).with_context(|| self.folder.display().to_string())?;
        }
        fs::create_dir_all(&self.folder).with_context(|| self.folder.display().to_string())?;
        recipe.source.install(&self.folder)?;
        ensure!(recipe.source.works(&self.folder), "what was installed does not run");
        fs::write(&self.stamp, recipe.source.stamp()).with_context(|| self.stamp.display().to_string())
    }

    /// Held while the file is open, so that it ends with the process.
    fn lock(&self, title: &str) -> Result<File> {
        let open = || {
            fs::create_dir_all(self.lock.parent().unwrap_or(Path::new(".")))?;
            let file = File::create(&self.lock)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    eprintln!("waiting for another process that installs {title}");
                    file.lock()?;
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
            Ok(file)
        };
        open().with_context(|| self.lock.display().to_string())
    }
}

impl Source {
    fn install(&self, folder: &Path) -> Result<()> {
        match self {
            Source::Npm { package, version } => npm::install(folder, package, version),
            Source::Python { requirements, at_least } => python::install(folder, requirements, *at_least),
        }
    }

    fn stamp(&self) -> String {
        match self {
            Source::Npm { package, version } => format!("{package}@{version}\n"),
            Source::Python { requirements, .. } => (*requirements).to_owned(),
        }
    }

    fn works(&self, folder: &Path) -> bool {
        match self {
            Source::Npm { package, .. } => folder.join("node_modules").join(package).is_dir(),
            Source::Python { .. } => python::works(folder),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_the_right_stamp_is_not_complete() {
        let target = tempfile::tempdir().unwrap();
        let recipe = Kind::Dynoxide.recipe();
        let place = Place::of(&Installation::under(target.path()).folder, recipe);
        let Source::Npm { package, .. } = recipe.source else { panic!("dynoxide is an npm package") };
        fs::create_dir_all(place.folder.join("node_modules").join(package)).unwrap();
        assert!(!place.is_complete(recipe));
        fs::write(&place.stamp, "another version").unwrap();
        assert!(!place.is_complete(recipe));
        fs::write(&place.stamp, recipe.source.stamp()).unwrap();
        assert!(place.is_complete(recipe));
    }

    #[test]
    fn programs_under_test_find_the_folder_where_cargo_builds() {
        let found = Installation::find().unwrap();
        assert!(env::current_exe().unwrap().starts_with(found.folder.parent().unwrap()));
    }
}
