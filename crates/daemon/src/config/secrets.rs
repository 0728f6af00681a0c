//! Keys of models: read from a variable or a file, never shown.

use std::path::{Path, PathBuf};

use secrecy::SecretString;

use super::env::Environment;
use super::types::ModelConfig;

/// Reads a model's key. A key that should be there and is not is a warning: the daemon starts, and the requests of
/// that model say that they were refused.
pub(super) fn read_key(
    model: &ModelConfig,
    env: &dyn Environment,
    warnings: &mut Vec<String>,
) -> Option<SecretString> {
    let id = &model.id;
    let key = match (&model.api_key_env, &model.api_key_file) {
        (Some(name), _) => {
            let Some(value) = env.var(name) else {
                warnings.push(format!(
                    "model `{id}`: ${name} is not set, so no key is sent; set it or correct `api_key_env`"
                ));
                return None;
            };
            value.into_string().unwrap_or_default()
        }
        (None, Some(file)) => match std::fs::read_to_string(file) {
            Ok(text) => {
                warn_if_open(id, file, warnings);
                text
            }
            Err(error) => {
                warnings.push(format!(
                    "model `{id}`: cannot read the key file {}: {error}; no key is sent",
                    file.display()
                ));
                return None;
            }
        },
        (None, None) => return None,
    };
    let key = key.trim();
    if key.is_empty() || key.chars().any(|c| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
        warnings.push(format!("model `{id}`: its key is empty or not a single word; no key is sent"));
        return None;
    }
    Some(SecretString::from(key.to_owned()))
}

/// Where a key file is: absolute as it is; else among systemd's credentials when it is there, else beside the
/// config file.
pub(super) fn key_file(path: &Path, config_dir: &Path, env: &dyn Environment) -> PathBuf {
    let credential = env.var("CREDENTIALS_DIRECTORY").map(|dir| PathBuf::from(dir).join(path));
    match credential {
        Some(file) if path.is_relative() && file.exists() => file,
        _ => config_dir.join(path),
    }
}

fn warn_if_open(id: &str, file: &Path, warnings: &mut Vec<String>) {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(file).map(|meta| meta.permissions().mode()).unwrap_or_default();
    if mode & 0o007 != 0 {
        warnings.push(format!(
            "model `{id}`: everybody on this machine may read the key file {0}; run `chmod 600 {0}`",
            file.display()
        ));
    }
}
