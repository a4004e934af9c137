//! Codes and texts.
//!
//! The codes are those of `enum memfold_error` in `memfold.h`; a test compares both. They never change their
//! meaning.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};

use memfold::heap::{BadOption, Error};

/// Gives the codes their numbers and texts.
macro_rules! codes {
    ($($code:ident = $number:literal: $text:literal,)*) => {
        /// The result that a function returns to C.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(i32)]
        pub enum Code {
            $($code = $number,)*
        }

        impl Code {
            /// All codes with their names.
            pub const ALL: &[(Code, &str)] = &[$((Code::$code, stringify!($code)),)*];

            /// The meaning in a sentence.
            pub fn text(self) -> &'static CStr {
                match self {
                    $(Code::$code => $text,)*
                }
            }
        }
    };
}

codes! {
    Ok = 0: c"no error",
    Stale = 1: c"the handle names no live node: it is 0, the node was freed, or it belongs to another heap",
    Size = 2: c"a node must have at least one byte, and no more than this heap allows",
    Range = 3: c"the node is too short for the range to be read or written, or too long for the buffer",
    Limit = 4: c"the heap's memory limit is reached: free nodes, or raise the limit",
    Pinned = 5: c"all blocks that the limit or a session allows are pinned: unpin nodes, or raise the limit",
    Busy = 6: c"another thread is writing the node, or this session has pinned it",
    NoMemory = 7: c"the system has no more memory",
    Damaged = 8: c"a block of the heap is damaged: something wrote past a node, a callback returned wrong data, or memory is faulty",
    Null = 9: c"a pointer that must not be null is null",
    NoHeap = 10: c"there is no such heap: it was destroyed, or never existed",
    NoSession = 11: c"this thread has no such session: it was closed, belongs to another thread, or never existed",
    Option = 12: c"an option is out of range",
    NotPinned = 13: c"the session has not pinned the node",
    Open = 14: c"the heap has open sessions: close them first",
    Callback = 15: c"a callback called the library",
    Violation = 16: c"the heap is inconsistent: something wrote where it must not",
    Bug = 17: c"a bug in the library: the heap in which it happened is out of use",
    File = 18: c"the heap's file can't be written or read, or can't be loaded here",
    NoList = 19: c"this thread has no such list, map or cursor: it was freed, belongs to another thread, or never existed",
    NoElement = 20: c"the list or map has no such element",
    Kind = 21: c"the list or map is of another kind",
    Lost = 22: c"a block of the heap was spilled, and the tier no longer has it",
    Away = 23: c"a block of the heap was spilled, and the tier does not answer: try again",
}

/// Why a function fails.
#[derive(Debug)]
pub struct Failure {
    pub code: Code,
    /// Details; None if the code says everything.
    text: Option<Box<str>>,
}

impl Failure {
    pub fn new(code: Code, text: impl Into<Box<str>>) -> Self {
        Failure { code, text: Some(text.into()) }
    }
}

/// A range that does not lie in a node of `node` bytes.
pub fn outside(node: usize, from: usize, len: usize) -> Failure {
    Failure::new(
        Code::Range,
        format!("the node has {node} bytes, and {len} bytes from {from} on are not all in it"),
    )
}

impl From<Code> for Failure {
    fn from(code: Code) -> Self {
        Failure { code, text: None }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::Stale => Code::Stale,
            Error::Size(_) | Error::Element(_) => Code::Size,
            Error::Mismatch { .. } => Code::Range,
            Error::Limit | Error::Sessions => Code::Limit,
            Error::Pinned => Code::Pinned,
            Error::Busy => Code::Busy,
            Error::OutOfMemory => Code::NoMemory,
            Error::Damaged => Code::Damaged,
            Error::Lost => Code::Lost,
            Error::Away => Code::Away,
            // An error that this version does not know.
            other => return Failure::new(Code::Bug, other.to_string()),
        };
        match error {
            // Errors that say more than the code.
            Error::Size(_) | Error::Element(_) | Error::Mismatch { .. } | Error::Sessions => {
                Failure::new(code, error.to_string())
            }
            _ => code.into(),
        }
    }
}

impl From<BadOption> for Failure {
    fn from(bad: BadOption) -> Self {
        // It may contain names that the caller gave.
        Failure::new(Code::Option, memfold_escape::line(&bad.to_string()).into_owned())
    }
}

/// The last failure of a thread.
struct Last {
    code: Code,
    /// None if the code says everything.
    text: Option<CString>,
}

thread_local! {
    static LAST: RefCell<Last> = const { RefCell::new(Last { code: Code::Ok, text: None }) };
}

/// The meaning of a code in a sentence.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_strerror(error: c_int) -> *const c_char {
    let code = Code::ALL.iter().find(|(code, _)| *code as c_int == error);
    code.map_or(c"no error of memfold has this number", |(code, _)| code.text()).as_ptr()
}

/// Remembers why a function of this thread failed, and returns its code.
#[cold]
pub fn report(failure: Failure) -> c_int {
    let Failure { code, text } = failure;
    // Escaped for a terminal, since it may contain names. Without a null this cannot fail.
    let text =
        text.and_then(|text| CString::new(memfold_escape::lines(&text.replace('\0', "?")).as_ref()).ok());
    // A thread that is about to end may no longer have a place for it.
    let _ = LAST.try_with(|last| last.replace(Last { code, text }));
    code as c_int
}

/// Details of the last call of this thread that failed.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_last_error() -> *const c_char {
    let found = LAST.try_with(|last| {
        let last = last.borrow();
        last.text.as_deref().unwrap_or(last.code.text()).as_ptr()
    });
    found.unwrap_or(Code::Ok.text().as_ptr())
}
