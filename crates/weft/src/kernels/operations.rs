//! How operations on registers are declared.

/// Operations on two registers, each by its intrinsic function.
macro_rules! operations {
    ($register:ident { $($(#[$doc:meta])* $name:ident = $intrinsic:ident;)* }) => {
        impl $register {
            $(
                $(#[$doc])*
                #[inline]
                #[kernel]
                pub(super) fn $name(self, other: $register) -> $register {
                    $register($intrinsic(self.0, other.0))
                }
            )*
        }
    };
}
