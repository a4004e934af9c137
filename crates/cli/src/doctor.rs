//! `memfold doctor`.

use crate::args::DoctorArgs;
use crate::failure::{Failure, say};
use crate::machine::Machine;
use crate::uffd::{self, Kind, Way};
use crate::userfault;

/// Says whether `run` would work here. The result is the exit status.
pub fn doctor(_: &DoctorArgs) -> Result<i32, Failure> {
    let by_call = uffd::attempt(Way::Syscall, Kind::Full);
    let by_device = uffd::attempt(Way::Device, Kind::Full);
    match userfault::diagnose(&by_call, &by_device, &Machine::new()) {
        None => Ok(0),
        Some(problem) => {
            say(&problem.paragraph());
            Ok(1)
        }
    }
}
