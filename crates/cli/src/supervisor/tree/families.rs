//! Sums of memory by program image: members that run the same image are related by fork, and may share pages.

use std::collections::HashMap;

use memfold_proc::process::Image;

/// Bytes by program image; see the module.
#[derive(Default)]
pub struct Families(HashMap<Image, Family>);

#[derive(Default)]
struct Family {
    sum: u64,
    largest: u64,
}

impl Families {
    /// Adds the memory of a member.
    pub fn add(&mut self, image: Image, bytes: u64) {
        let family = self.0.entry(image).or_default();
        family.sum += bytes;
        family.largest = family.largest.max(bytes);
    }

    /// The sum, if no members share pages.
    pub fn sum(&self) -> u64 {
        self.0.values().map(|family| family.sum).sum()
    }

    /// The sum, if the members of each image share as much as they can.
    pub fn least(&self) -> u64 {
        self.0.values().map(|family| family.largest).sum()
    }
}
