//! The deployment's secret, its API keys and its operator keys (SPEC 13).

use super::args::{BackendKind, ServerArgs};
use super::{Parts, Role, system};
use anyhow::{Context, bail, ensure};
use conveyor_api::{AbsentKeys, OperatorKeys, settle_keys};
use conveyor_domain::{CallerId, Entropy, KeyHash, Secret, limits, seal};
use conveyor_store::Store;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

pub const API_KEY_FILE: &str = "api-key";
pub const OPERATOR_KEY_FILE: &str = "operator-key";
const SECRET_FILE: &str = "secret.key";

pub fn load_secret(args: &ServerArgs, role: Role) -> anyhow::Result<Secret> {
    if let Some(hex) = &args.secret_key {
        return given_secret(hex);
    }
    // Roles in several places must have the same one: what the API seals, a worker opens.
    let alone = args.place.backend == BackendKind::Embedded || role == Role::Dev;
    ensure!(alone, "the roles of the AWS backend share a secret: pass --secret-key or CONVEYOR_SECRET_KEY");
    fs::create_dir_all(&args.place.data_dir)
        .with_context(|| format!("cannot make {}", args.place.data_dir.display()))?;
    let path = args.place.data_dir.join(SECRET_FILE);
    if let Some(kept) = kept_secret(&path)? {
        return Ok(kept);
    }
    let root = system::random_32()?;
    write_private(&path, &root)?;
    Ok(Secret::new(root))
}

/// The secret that was given, or the one in the data directory; none is made.
pub fn find_secret(given: Option<&str>, data_dir: &Path) -> anyhow::Result<Option<Secret>> {
    match given {
        Some(hex) => given_secret(hex).map(Some),
        None => kept_secret(&data_dir.join(SECRET_FILE)),
    }
}

fn given_secret(hex: &str) -> anyhow::Result<Secret> {
    Ok(Secret::new(parse_secret(hex).context("CONVEYOR_SECRET_KEY must be 64 hex digits")?))
}

fn kept_secret(path: &Path) -> anyhow::Result<Option<Secret>> {
    match fs::read(path) {
        Ok(bytes) => {
            warn_if_others_can_read(path);
            let root =
                bytes.try_into().ok().with_context(|| format!("{} must hold 32 bytes", path.display()))?;
            Ok(Some(Secret::new(root)))
        }
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn parse_secret(hex: &str) -> Option<[u8; 32]> {
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    let mut root = [0; 32];
    for (i, byte) in root.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(root)
}

/// Whole and durable or not there: a half-written secret would lock out everything it sealed.
fn write_private(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let temporary = path.with_extension("tmp");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .with_context(failed)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).with_context(failed)?;
    fs::rename(&temporary, path).with_context(failed)?;
    if let Some(parent) = path.parent() {
        fs::File::open(parent).and_then(|d| d.sync_all()).with_context(failed)?;
    }
    Ok(())
}

fn warn_if_others_can_read(path: &Path) {
    if fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o077 != 0) {
        tracing::warn!("{} can be read by others; it should have mode 0600", path.display());
    }
}

/// Makes the configured keys accepted, and names or revokes those that are absent. With none configured, `make_one` decides
/// whether there shall be one all the same; the key to show is returned.
pub(super) async fn ensure_api_keys(parts: &Parts, make_one: bool) -> anyhow::Result<Option<String>> {
    let (clock, entropy, store) = (parts.clock.as_ref(), &parts.entropy, &parts.backend.store);
    let mut keys = parts.args.api_keys.clone();
    let mut shown = None;
    if keys.is_empty() && make_one {
        let key = own_key(&parts.args.place.data_dir.join(API_KEY_FILE), entropy)?;
        keys.push(key.clone());
        shown = Some(key);
    }
    for key in &keys {
        check_key(key, "an API key")?;
        let (now, caller) = (clock.now(), CallerId::new(clock.now(), entropy));
        store.put_key(KeyHash::of(key), caller, now).await.context("cannot store an API key")?;
    }
    if !keys.is_empty() {
        let configured = keys.iter().map(|key| KeyHash::of(key));
        let store: &dyn Store = store.as_ref();
        let absent_keys = if parts.args.revoke_absent_keys { AbsentKeys::Revoke } else { AbsentKeys::Keep };
        let absent = settle_keys(store, configured, absent_keys, clock.now()).await;
        report_absent(&absent.context("cannot settle which API keys are accepted")?, absent_keys);
    }
    Ok(shown)
}

/// Only hashes of keys are stored, so that is what names them.
fn report_absent(absent: &[KeyHash], absent_keys: AbsentKeys) {
    if absent.is_empty() {
        return;
    }
    let named: Vec<String> = absent
        .iter()
        .take(limits::ABSENT_KEYS_NAMED_MAX)
        .map(|key| key.to_string()[..12].to_owned())
        .collect();
    let (count, keys) = (absent.len(), named.join(", "));
    match absent_keys {
        AbsentKeys::Keep => tracing::warn!(
            count,
            sha256 = keys,
            "API keys that this process was not started with are still accepted; --revoke-absent-keys revokes them"
        ),
        AbsentKeys::Revoke => {
            tracing::warn!(
                count,
                sha256 = keys,
                "API keys that this process was not started with are revoked"
            );
        }
    }
}

/// The keys that open `/v1/admin`. With none configured, `make_one` decides whether there shall be one all the same.
pub(super) fn operator_keys(parts: &Parts, make_one: bool) -> anyhow::Result<OperatorKeys> {
    let args = &parts.args;
    let mut keys: Vec<String> = args.operator_keys.iter().map(|key| key.expose().to_owned()).collect();
    if keys.is_empty() && make_one {
        keys.push(own_key(&args.place.data_dir.join(OPERATOR_KEY_FILE), &parts.entropy)?);
    }
    for key in &keys {
        check_key(key, "an operator key")?;
        ensure!(
            !args.api_keys.contains(key),
            "an operator key is not a caller's: it cannot be an API key too"
        );
    }
    Ok(OperatorKeys::new(keys.iter().map(String::as_str)))
}

fn check_key(key: &str, what: &str) -> anyhow::Result<()> {
    let long_enough = key.chars().count() >= limits::API_KEY_MIN_CHARS;
    ensure!(long_enough, "{what} needs at least {} characters", limits::API_KEY_MIN_CHARS);
    ensure!(key.bytes().all(|b| b.is_ascii_graphic()), "{what} may hold only visible ASCII characters");
    Ok(())
}

fn own_key(path: &Path, entropy: &Entropy) -> anyhow::Result<String> {
    match fs::read_to_string(path) {
        Ok(text) if !text.trim().is_empty() => {
            warn_if_others_can_read(path);
            Ok(text.trim().to_owned())
        }
        Ok(_) => bail!("{} is empty; remove it and a new key is made", path.display()),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let key = seal::new_api_key(entropy);
            write_private(path, format!("{key}\n").as_bytes())?;
            Ok(key)
        }
        Err(e) => Err(e).with_context(|| format!("cannot read {}", path.display())),
    }
}
