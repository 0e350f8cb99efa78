//! A secret beside the database, and not in it: who reads the one at all times still lacks the other.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use data_encoding::HEXLOWER_PERMISSIVE as HEX;
use uuid::Uuid;

use super::OpenError;
use super::sqlite::beside;
use crate::clock::os_random;

/// 256 bits.
const BYTES: usize = 32;

/// The secret of this database; made, readable by its owner only, when there is none yet.
pub fn of(database: &Path) -> Result<Vec<u8>, OpenError> {
    let file = beside(database, "-key");
    let refused = |e: io::Error| OpenError(format!("DATABASE_URL: {}: {e}", file.display()));
    if !file.try_exists().map_err(refused)? {
        make(database, &file).map_err(refused)?;
    }
    let text = fs::read_to_string(&file).map_err(refused)?;
    let key = HEX.decode(text.trim().as_bytes()).ok().filter(|key| key.len() == BYTES);
    key.ok_or_else(|| {
        let file = file.display();
        OpenError(format!(
            "DATABASE_URL: {file} is damaged; delete it: codes that are in mails now stop working, their links don't"
        ))
    })
}

/// Whole or not at all, and one of several processes that start at once makes it.
fn make(database: &Path, file: &Path) -> io::Result<()> {
    let mut key = [0; BYTES];
    os_random(&mut key);
    let draft = beside(database, &format!("-key.{}", Uuid::now_v7()));
    let mut written = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&draft)?;
    written.write_all(HEX.encode(&key).as_bytes())?;
    written.sync_all()?;
    let linked = fs::hard_link(&draft, file);
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
