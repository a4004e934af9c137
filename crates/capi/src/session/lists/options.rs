//! Reads the options that C gives for a new list or map.

use std::ffi::{c_char, c_void};

use memfold::collections::Packing;

use crate::error::Failure;
use crate::heap::options::{bad, text};
use crate::session::lists::kind::{By, Kind, memfold_compare};

/// As in `memfold.h`. New fields are added at the end.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct memfold_slablist_options {
    pub struct_size: usize,
    pub elements: u32,
    pub flags: u32,
    pub compare: memfold_compare,
    pub context: *mut c_void,
    pub name: *const c_char,
    pub reap_least_slabs: u32,
    pub reap_least_percent: u32,
    pub per_slab: u32,
    pub per_sublayer: u32,
}

/// As in `memfold.h`. New fields are added at the end.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct memfold_slabmap_options {
    pub struct_size: usize,
    pub keys: u32,
    pub flags: u32,
    pub compare: memfold_compare,
    pub context: *mut c_void,
    pub reap_least_slabs: u32,
    pub reap_least_percent: u32,
}

/// Flags, as in `memfold.h`.
pub const ORDERED: u32 = 1;
pub const MANY: u32 = 2;
pub const CIRCULAR: u32 = 4;
pub const NEVER_REAP: u32 = 8;

/// What both kinds of options amount to.
pub struct Settled {
    pub kind: Kind,
    pub flags: u32,
    pub by: Option<By>,
    pub packing: Packing,
    pub name: Option<String>,
    pub per_slab: Option<usize>,
    pub per_sublayer: Option<usize>,
}

fn kind(number: u32, what: &str) -> Result<Kind, Failure> {
    let named = "give one of enum memfold_elements";
    Kind::new(number).ok_or_else(|| bad(format!("{what} is {number}: {named}")))
}

fn known(flags: u32, all: u32) -> Result<u32, Failure> {
    if flags & !all == 0 {
        Ok(flags)
    } else {
        Err(bad(format!("flags are {flags:#x}, of which {all:#x} are known")))
    }
}

fn packing(flags: u32, least_slabs: u32, least_percent: u32) -> Result<Packing, Failure> {
    let never = flags & NEVER_REAP != 0;
    match (least_slabs, least_percent) {
        (0, 0) if never => Ok(Packing::Never),
        (0, 0) => Ok(Packing::Lazily),
        _ if never => Err(bad("MEMFOLD_NEVER_REAP and when to reap are both given: give one")),
        (_, 101..) => Err(bad(format!("reap_least_percent is {least_percent}: give at most 100"))),
        (least_slabs, percent) => Ok(Packing::AtOnce { least_slabs, least_percent: percent as u8 }),
    }
}

fn between(value: u32, what: &str, least: u32, most: u32) -> Result<Option<usize>, Failure> {
    match value {
        0 => Ok(None),
        _ if (least..=most).contains(&value) => Ok(Some(value as usize)),
        _ => Err(bad(format!("{what} is {value}: give {least} to {most}"))),
    }
}

impl memfold_slablist_options {
    /// # Safety
    /// The name is null or a null-terminated text, and the callback behaves as [`By::new`] says.
    pub unsafe fn settle(&self) -> Result<Settled, Failure> {
        let kind = kind(self.elements, "elements")?;
        let flags = known(self.flags, ORDERED | MANY | CIRCULAR | NEVER_REAP)?;
        Ok(Settled {
            kind,
            flags,
            // SAFETY: as promised.
            by: unsafe { By::new(self.compare, self.context, kind) },
            packing: packing(flags, self.reap_least_slabs, self.reap_least_percent)?,
            // SAFETY: as promised.
            name: unsafe { text(self.name, "list") }?.map(str::to_owned),
            per_slab: between(self.per_slab, "per_slab", 2, 255)?,
            per_sublayer: between(self.per_sublayer, "per_sublayer", 2, u16::MAX.into())?,
        })
    }
}

impl memfold_slabmap_options {
    /// # Safety
    /// The callback behaves as [`By::new`] says.
    pub unsafe fn settle(&self) -> Result<Settled, Failure> {
        let kind = kind(self.keys, "keys")?;
        let flags = known(self.flags, NEVER_REAP)?;
        Ok(Settled {
            kind,
            flags,
            // SAFETY: as promised.
            by: unsafe { By::new(self.compare, self.context, kind) },
            packing: packing(flags, self.reap_least_slabs, self.reap_least_percent)?,
            name: None,
            per_slab: None,
            per_sublayer: None,
        })
    }
}

impl Default for Settled {
    fn default() -> Self {
        Settled {
            kind: Kind::U64,
            flags: 0,
            by: None,
            packing: Packing::default(),
            name: None,
            per_slab: None,
            per_sublayer: None,
        }
    }
}
