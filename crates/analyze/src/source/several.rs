//! Several processes as one source.
//!
//! ```text
//!   bits 63..48  which process it is, by its place in the list
//!   bits 47..0   an address in it: programs have no more
//! ```
//!
//! Memory that processes share since a fork counts in each of them.

use std::collections::BTreeMap;

use super::{Process, Source};
use crate::Error;
use crate::index::{Mapping, Run};

/// The bits below a process's index.
const SHIFT: u32 = 48;
/// The most processes.
pub const MOST: usize = 1 << (u64::BITS - SHIFT);

/// Converts an address in a process to one in the source.
pub fn address(place: usize, address: u64) -> u64 {
    (place as u64) << SHIFT | address
}

/// The process that contains an address of the source.
pub fn place(address: u64) -> usize {
    (address >> SHIFT) as usize
}

/// Converts an address in the source to one in its process.
pub fn within(address: u64) -> u64 {
    address & ((1 << SHIFT) - 1)
}

/// The processes; see the module.
pub struct Processes {
    /// By their index.
    processes: BTreeMap<usize, Process>,
    mappings: Vec<Mapping>,
}

impl Processes {
    /// Opens those of these processes that can be opened, and returns the errors of the others. Indices must
    /// ascend.
    pub fn open(pids: &[(usize, i32)]) -> (Self, Vec<(usize, Error)>) {
        let (mut processes, mut mappings, mut failed) = (BTreeMap::new(), Vec::new(), Vec::new());
        for &(place, pid) in pids {
            let process = match Process::open(pid) {
                Ok(process) => process,
                Err(error) => {
                    failed.push((place, error));
                    continue;
                }
            };
            mappings.extend(process.mappings().iter().map(|mapping| {
                Mapping {
                    name: if pids.len() > 1 {
                        [format!("{pid} ").as_bytes(), &mapping.name].concat()
                    } else {
                        mapping.name.clone()
                    },
                    start: address(place, mapping.start),
                    runs: mapping
                        .runs
                        .iter()
                        .map(|run| Run { address: address(place, run.address), ..*run })
                        .collect(),
                }
            }));
            processes.insert(place, process);
        }
        (Processes { processes, mappings }, failed)
    }
}

impl Source for Processes {
    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        self.processes.get(&place(address)).map_or(0, |process| process.read(within(address), into))
    }
}
