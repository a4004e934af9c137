//! Reading messages of a userfaultfd. A message about a fork carries a descriptor. If the program's limit is so
//! low that no descriptor is left, a spare one that is kept for this is given up, and after that the limit is
//! raised for a moment.

use crate::faults::delivery::Delivery;
use crate::kernel::rlimit::MoreDescriptors;
use crate::kernel::sys::{self, Errno, Result};
use crate::kernel::uffd::{Message, Uffd};
use crate::process::limits::OWN_DESCRIPTORS;
use crate::runtime::Runtime;

impl Runtime {
    /// Reads the next message; `None` if there is none.
    pub fn next_message(&self) -> Option<Message> {
        self.read_from(|| self.delivery().next())
    }

    fn read_from(&self, next: impl Fn() -> Result<Message>) -> Option<Message> {
        let mut _more = None;
        loop {
            match next() {
                Ok(message) => return Some(message),
                Err(Errno::MFILE) => _more = self.make_descriptor_free(),
                Err(_) => return None,
            }
        }
    }

    /// Called when no descriptor is left for a message: gives up the spare one, or raises the limit while the
    /// returned value lives. If neither works the process ends, since the forking thread would wait for ever.
    #[cold]
    fn make_descriptor_free(&self) -> Option<MoreDescriptors> {
        if self.forks.gate.give_up_spare() {
            return None;
        }
        let more = MoreDescriptors::allow(OWN_DESCRIPTORS);
        if more.is_none() {
            self.fail("it forks, and it may not open any file (ulimit -n)");
        }
        more
    }

    /// Lets threads that have reached the gate pass. Called under the order lock, when earlier messages have
    /// been handled.
    pub fn open_gate(&self) {
        let gate = &self.forks.gate;
        while gate.is_there() {
            match self.read_from(|| Uffd(gate.fd()).next()) {
                Some(Message::Fork { child }) => {
                    sys::close(child);
                    gate.keep_spare();
                }
                Some(_) => {}
                None => break,
            }
        }
    }
}
