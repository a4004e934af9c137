//! Any bytes as a part of a directory: they are malformed, or their entries stay the same when they are
//! written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memfold_du::part::{LONGEST_NAME, MOST, Malformed, Reader, Writer};
use memfold_du::tree::OwnEntry;

fn read(bytes: &[u8]) -> Result<Vec<OwnEntry>, Malformed> {
    let mut reader = Reader::new(bytes)?;
    let count = reader.count();
    let mut entries: Vec<OwnEntry> = Vec::new();
    while let Some(entry) = reader.read()? {
        assert!(entry.name.len() <= LONGEST_NAME);
        entries.push(entry.into());
    }
    assert_eq!(reader.read(), Ok(None));
    assert!(count <= MOST && entries.len() == count);
    Ok(entries)
}

fuzz_target!(|data: &[u8]| {
    let Ok(entries) = read(data) else { return };
    let (mut writer, mut bytes) = (Writer::default(), Vec::new());
    writer.begin();
    entries.iter().for_each(|entry| writer.add(&entry.entry()));
    writer.end(&mut bytes);
    assert_eq!(read(&bytes).as_ref(), Ok(&entries), "{}", bytes.escape_ascii());
});
