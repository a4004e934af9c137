//! The part of the ELF format that decides whether the loader will load a library into a program: class, machine
//! and interpreter.
//!
//! ```text
//! 0    4 5 6      16      18         32       54          56
//! |0x7f|E|L|F|class|data|..|type|machine|..|phoff|..|phentsize|phnum|
//! program header: type 4 | flags 4 | offset 8 | address 8 | .. | file size 8 | ..
//! ```

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The kinds of files, as the loader treats them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Elf {
    /// Started through this interpreter, which loads libraries.
    Dynamic(String),
    /// Started without one.
    Static,
    /// For another machine architecture.
    Foreign(String),
    /// Begins like an ELF file but is not a valid one.
    Broken,
    /// Not an ELF file.
    No,
}

#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = 62;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = 183;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("memfold run is for x86-64 and aarch64");

const INTERPRETER: u32 = 3;
const HEADER: usize = 64;
const LONGEST_PATH: u64 = 4096;

/// Examines a file.
pub fn examine(file: &File) -> std::io::Result<Elf> {
    let mut header = [0; HEADER];
    let length = read_at(file, &mut header, 0)?;
    if length < 4 || &header[..4] != b"\x7fELF" {
        return Ok(Elf::No);
    }
    if length < 20 {
        return Ok(Elf::Broken);
    }
    let (class, order) = (header[4], header[5]);
    let machine = if order == 2 { u16::from_be_bytes([header[18], header[19]]) } else { u16_at(&header, 18) };
    if (class, order, machine) != (2, 1, MACHINE) {
        return Ok(Elf::Foreign(describe(class, order, machine)));
    }
    if length < HEADER {
        return Ok(Elf::Broken);
    }
    let (offset, size, count) = (u64_at(&header, 32), u16_at(&header, 54), u16_at(&header, 56));
    if size < 56 {
        return Ok(Elf::Broken);
    }
    for index in 0..u64::from(count) {
        let mut entry = [0; 56];
        let at = offset.saturating_add(index * u64::from(size));
        if read_at(file, &mut entry, at)? < entry.len() {
            return Ok(Elf::Broken);
        }
        if u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]) == INTERPRETER {
            return interpreter(file, u64_at(&entry, 8), u64_at(&entry, 32));
        }
    }
    Ok(Elf::Static)
}

fn interpreter(file: &File, offset: u64, size: u64) -> std::io::Result<Elf> {
    if !(2..=LONGEST_PATH).contains(&size) {
        return Ok(Elf::Broken);
    }
    let mut path = vec![0; size as usize];
    if read_at(file, &mut path, offset)? < path.len() || path.pop() != Some(0) {
        return Ok(Elf::Broken);
    }
    Ok(Elf::Dynamic(String::from_utf8_lossy(&path).into_owned()))
}

fn describe(class: u8, order: u8, machine: u16) -> String {
    let bits = if class == 1 { "32-bit" } else { "64-bit" };
    let name = match machine {
        3 => "x86".to_owned(),
        20 | 21 => "PowerPC".to_owned(),
        22 => "s390".to_owned(),
        40 => "ARM".to_owned(),
        62 => "x86-64".to_owned(),
        183 => "AArch64".to_owned(),
        243 => "RISC-V".to_owned(),
        other => format!("machine {other}"),
    };
    let big = if order == 2 { ", big-endian" } else { "" };
    format!("{bits} {name}{big}")
}

fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read_at(&mut buffer[length..], offset.saturating_add(length as u64)) {
            Ok(0) => break,
            Ok(bytes) => length += bytes,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            // The system call refuses an offset that no file can have. Treat it like an offset beyond the
            // end.
            Err(e) if e.kind() == std::io::ErrorKind::InvalidInput => break,
            Err(e) => return Err(e),
        }
    }
    Ok(length)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(value)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn examine_bytes(bytes: &[u8]) -> Elf {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        examine(&file).unwrap()
    }

    #[test]
    fn the_test_itself_is_dynamic() {
        let file = File::open("/proc/self/exe").unwrap();
        let Elf::Dynamic(path) = examine(&file).unwrap() else { panic!("not dynamic") };
        assert!(std::path::Path::new(&path).exists(), "{path}");
    }

    #[test]
    fn broken_in_every_place() {
        let whole = std::fs::read("/proc/self/exe").unwrap();
        let start = &whole[..4096];
        assert_eq!(examine_bytes(b""), Elf::No);
        assert_eq!(examine_bytes(b"#!/bin/sh"), Elf::No);
        assert_eq!(examine_bytes(&start[..10]), Elf::Broken);
        assert_eq!(examine_bytes(&start[..40]), Elf::Broken);
        assert_eq!(examine_bytes(&start[..64]), Elf::Broken);
        for at in 0..200 {
            let mut bytes = start.to_vec();
            bytes[at] ^= 0xFF;
            examine_bytes(&bytes);
        }
        let mut far = start.to_vec();
        far[32..40].fill(0xFF);
        assert_eq!(examine_bytes(&far), Elf::Broken);
        let mut small = start.to_vec();
        small[4] = 1;
        small[18..20].copy_from_slice(&3u16.to_le_bytes());
        assert_eq!(examine_bytes(&small), Elf::Foreign("32-bit x86".into()));
        let mut none = start.to_vec();
        none[56..58].fill(0);
        assert_eq!(examine_bytes(&none), Elf::Static);
    }
}
