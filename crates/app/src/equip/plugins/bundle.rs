//! The program that runs Hermes' Python, carried along: one binary is all there is to install.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../../plugins/hermes-host/hermes_host/", $name)))
    };
}

const PACKAGE: &str = "hermes_host";

const FILES: [(&str, &str); 17] = [
    file!("__init__.py"),
    file!("__main__.py"),
    file!("app.py"),
    file!("engine.py"),
    file!("engine_registration.py"),
    file!("event_loop.py"),
    file!("extensions.py"),
    file!("hermes.py"),
    file!("hooks.py"),
    file!("json_rpc.py"),
    file!("ledger.py"),
    file!("provider.py"),
    file!("retention.py"),
    file!("scopes.py"),
    file!("server.py"),
    file!("thread_owners.py"),
    file!("toolbox.py"),
];

/// All of it, to tell whether it has changed.
pub fn bytes() -> impl Iterator<Item = &'static [u8]> {
    FILES.iter().map(|(_, text)| text.as_bytes())
}

/// Writes what differs from what is there, each file whole or not at all, and says where the package is.
pub fn unpack(directory: &Path) -> io::Result<PathBuf> {
    let package = directory.join(PACKAGE);
    throughline_home::home::private_directory().create(&package)?;
    for (name, text) in FILES {
        let file = package.join(name);
        if fs::read_to_string(&file).is_ok_and(|there| there == text) {
            continue;
        }
        let mut new = tempfile::NamedTempFile::new_in(&package)?;
        io::Write::write_all(&mut new, text.as_bytes())?;
        new.persist(&file).map_err(|error| error.error)?;
    }
    Ok(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_the_package_is_carried_along() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/hermes-host").join(PACKAGE);
        let written = fs::read_dir(source).unwrap().map(|entry| entry.unwrap().file_name());
        let mut written: Vec<String> = written.map(|name| name.to_string_lossy().into_owned()).collect();
        written.retain(|name| name.ends_with(".py"));
        written.sort();
        assert_eq!(written, FILES.map(|(name, _)| name.to_owned()));
    }

    #[test]
    fn what_was_changed_is_put_right_and_the_rest_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let package = unpack(directory.path()).unwrap();
        let modified = |name: &str| fs::metadata(package.join(name)).unwrap().modified().unwrap();
        let before = modified("app.py");
        fs::write(package.join("toolbox.py"), "print('another program')").unwrap();
        assert_eq!(unpack(directory.path()).unwrap(), package);
        assert_eq!(fs::read_to_string(package.join("toolbox.py")).unwrap(), FILES.last().unwrap().1);
        assert_eq!(modified("app.py"), before);
    }
}
