//! Several processes as one source.
//!
//! ```text
//!   bits 63..48  which process it is, by its place in the list
//!   bits 47..0   an address in it: programs have no more
//! ```
//!
//! What they share since a fork counts in each of them.

use super::{Process, Source};
use crate::Error;
use crate::index::{Mapping, Run};

/// Where the address of a process begins.
const SHIFT: u32 = 48;
/// Processes at most.
pub const MOST: usize = 1 << (u64::BITS - SHIFT);

/// The address in the source of one in a process.
pub fn address(place: usize, address: u64) -> u64 {
    (place as u64) << SHIFT | address
}

/// The address in a process of one in the source.
pub fn within(address: u64) -> u64 {
    address & ((1 << SHIFT) - 1)
}

/// See the module.
pub struct Processes {
    processes: Vec<Process>,
    mappings: Vec<Mapping>,
}

impl Processes {
    /// Opens all.
    pub fn open(pids: &[i32]) -> Result<Self, Error> {
        let (mut processes, mut mappings) = (Vec::new(), Vec::new());
        for (place, &pid) in pids.iter().enumerate() {
            let process = Process::open(pid)?;
            mappings.extend(process.mappings().iter().map(|mapping| {
                Mapping {
                    name: if pids.len() > 1 {
                        format!("{pid} {}", mapping.name)
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
            processes.push(process);
        }
        Ok(Processes { processes, mappings })
    }
}

impl Source for Processes {
    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        self.processes[(address >> SHIFT) as usize].read(within(address), into)
    }
}
