//! The interface of nbdkit plugins: the structure of `nbdkit-plugin.h` (version 2 of its interface), and the
//! functions that plugins may call.
//!
//! The interface is stable: fields are only added at the end, and `struct_size` tells nbdkit which fields exist.
//! nbdkit's own Rust bindings (the crate nbdkit 0.3) lack the additions of nbdkit 1.30, `block_size` and
//! `cleanup`.

use std::ffi::{c_char, c_int, c_void};

pub const THREADS_PARALLEL: c_int = 3;
pub const FUA_NATIVE: c_int = 2;
pub const CACHE_NATIVE: c_int = 2;
pub const EXTENT_HOLE: u32 = 1;
pub const EXTENT_ZERO: u32 = 2;
/// The client asked only for the first extent.
pub const FLAG_REQ_ONE: u32 = 4;

/// Where nbdkit gathers extents.
#[repr(C)]
pub struct Extents {
    _opaque: [u8; 0],
}

type Text = *const c_char;
type Handle = *mut c_void;
type Answer = Option<unsafe extern "C" fn(Handle) -> c_int>;
type Range = Option<unsafe extern "C" fn(Handle, u32, u64, u32) -> c_int>;
/// An unused callback of any type.
type Unused = Option<unsafe extern "C" fn()>;

/// `struct nbdkit_plugin`.
#[repr(C)]
pub struct Plugin {
    pub struct_size: u64,
    pub api_version: c_int,
    pub thread_model: c_int,
    pub name: Text,
    pub longname: Text,
    pub version: Text,
    pub description: Text,
    pub load: Unused,
    pub unload: Unused,
    pub config: Option<unsafe extern "C" fn(Text, Text) -> c_int>,
    pub config_complete: Option<unsafe extern "C" fn() -> c_int>,
    pub config_help: Text,
    pub open: Option<unsafe extern "C" fn(c_int) -> Handle>,
    pub close: Unused,
    pub get_size: Option<unsafe extern "C" fn(Handle) -> i64>,
    pub can_write: Answer,
    pub can_flush: Answer,
    pub is_rotational: Answer,
    pub can_trim: Answer,
    pub version_1: [Unused; 5],
    pub errno_is_preserved: c_int,
    pub dump_plugin: Unused,
    pub can_zero: Answer,
    pub can_fua: Answer,
    pub pread: Option<unsafe extern "C" fn(Handle, *mut c_void, u32, u64, u32) -> c_int>,
    pub pwrite: Option<unsafe extern "C" fn(Handle, *const c_void, u32, u64, u32) -> c_int>,
    pub flush: Option<unsafe extern "C" fn(Handle, u32) -> c_int>,
    pub trim: Range,
    pub zero: Range,
    pub magic_config_key: Text,
    pub can_multi_conn: Answer,
    pub can_extents: Answer,
    pub extents: Option<unsafe extern "C" fn(Handle, u32, u64, u32, *mut Extents) -> c_int>,
    pub can_cache: Answer,
    pub cache: Range,
    pub thread_model_now: Unused,
    pub can_fast_zero: Answer,
    pub preconnect: Unused,
    pub get_ready: Option<unsafe extern "C" fn() -> c_int>,
    pub after_fork: Option<unsafe extern "C" fn() -> c_int>,
    pub list_exports: Unused,
    pub default_export: Unused,
    pub export_description: Unused,
    pub cleanup: Option<unsafe extern "C" fn()>,
    pub block_size: Option<unsafe extern "C" fn(Handle, *mut u32, *mut u32, *mut u32) -> c_int>,
}

// SAFETY: nbdkit gets the only instance, and its texts are constants.
unsafe impl Sync for Plugin {}

unsafe extern "C" {
    pub fn nbdkit_error(format: Text, ...);
    pub fn nbdkit_set_error(errno: c_int);
    pub fn nbdkit_add_extent(extents: *mut Extents, offset: u64, len: u64, kind: u32) -> c_int;
}
