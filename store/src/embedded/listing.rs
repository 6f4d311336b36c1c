//! What objects there are, by their keys, a page at a time. A folder is read as often as its pages need, so that one with a
//! million files never has more of their names in memory than a page has.

use crate::port::{BlobKey, Listed};
use std::collections::BinaryHeap;
use std::fs;
use std::io;
use std::path::Path;

/// What is in a folder, by how keys sort: a folder's name ends in the `/` that the keys in it have there.
type Name = String;

pub fn list(dir: &Path, prefix: &BlobKey, after: Option<&BlobKey>, limit: usize) -> io::Result<Vec<Listed>> {
    let prefix = format!("{prefix}/");
    let mut found = Vec::new();
    match after.map(BlobKey::as_str) {
        None => walk(dir, &prefix, None, limit, &mut found)?,
        Some(after) => match after.strip_prefix(&*prefix) {
            Some(rest) => walk(dir, &prefix, Some(rest), limit, &mut found)?,
            None if after < &*prefix => walk(dir, &prefix, None, limit, &mut found)?,
            None => {}
        },
    }
    Ok(found)
}

/// Adds what is in a folder behind `after`, which is relative to it, until there are enough.
fn walk(
    dir: &Path,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
    found: &mut Vec<Listed>,
) -> io::Result<()> {
    let mut done: Option<Name> = None;
    while found.len() < limit {
        let wanted = |name: &str| {
            let is_behind = after.is_none_or(|after| name > after || is_above(name, after));
            is_behind && done.as_deref().is_none_or(|done| name > done)
        };
        // Some may turn out to be empty folders: then there is another round for those behind them.
        let names = first_names(dir, limit - found.len(), wanted)?;
        let Some(last) = names.last().cloned() else { return Ok(()) };
        for name in names {
            if found.len() == limit {
                return Ok(());
            }
            let key = format!("{prefix}{name}");
            if name.ends_with('/') {
                let rest = after.and_then(|after| after.strip_prefix(&*name));
                walk(&dir.join(&*name), &key, rest, limit, found)?;
            } else if let Ok(key) = key.parse()
                && let Some(size) = size_of(&dir.join(&*name))?
            {
                found.push(Listed { key, size });
            }
        }
        done = Some(last);
    }
    Ok(())
}

/// Whether it is a folder on the way to that key.
fn is_above(name: &str, key: &str) -> bool {
    name.ends_with('/') && key.starts_with(name)
}

/// The first names of a folder that are wanted, in order. One that is gone is empty.
fn first_names(dir: &Path, limit: usize, wanted: impl Fn(&str) -> bool) -> io::Result<Vec<Name>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(e) => return Err(e),
    };
    let mut first = BinaryHeap::new();
    for entry in entries {
        let entry = entry?;
        let Ok(mut name) = entry.file_name().into_string() else { continue };
        if name.parse::<BlobKey>().is_err() {
            continue;
        }
        if entry.file_type()?.is_dir() {
            name.push('/');
        }
        if wanted(&name) {
            first.push(name);
            if first.len() > limit {
                first.pop();
            }
        }
    }
    Ok(first.into_sorted_vec())
}

fn size_of(path: &Path) -> io::Result<Option<u64>> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() => Ok(Some(meta.len())),
        Ok(_) => Ok(None),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tempfile::TempDir;

    fn page(dir: &Path, after: Option<&BlobKey>, limit: usize) -> Vec<BlobKey> {
        let prefix = "p".parse().unwrap();
        list(&dir.join("p"), &prefix, after, limit).unwrap().into_iter().map(|listed| listed.key).collect()
    }

    fn write(dir: &Path, key: &str) {
        let path = dir.join(key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }

    proptest! {
        #[test]
        fn pages_of_any_size_are_all_keys_in_order(
            names in proptest::collection::btree_set("([a.-]{1,2}d/){0,2}[a.-]{1,2}f", 0..12), limit in 1usize..5,
        ) {
            let dir = TempDir::new().unwrap();
            let expected: Vec<String> = names.iter().map(|name| format!("p/{name}")).collect();
            for key in &expected {
                write(dir.path(), key);
            }
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let keys = page(dir.path(), after.as_ref(), limit);
                prop_assert!(keys.len() <= limit);
                let Some(last) = keys.last() else { break };
                after = Some(last.clone());
                seen.extend(keys.iter().map(BlobKey::to_string));
            }
            prop_assert_eq!(seen, expected);
        }
    }

    #[test]
    fn empty_folders_and_strange_names_are_passed_over() {
        let dir = TempDir::new().unwrap();
        for n in 0..9 {
            fs::create_dir_all(dir.path().join(format!("p/empty-{n}/er"))).unwrap();
        }
        write(dir.path(), "p/a b");
        write(dir.path(), "p/z/last");
        assert_eq!(page(dir.path(), None, 2), ["p/z/last".parse().unwrap()]);
    }
}
