//! One declaration for each enum whose values have fixed names on the wire and in stored rows.
//!
//! Deliberately absent: other texts. A name never changes; a description may.

/// Declares an enum with the name of each value, the list of all values, and the way back from a
/// name. Serde reads and writes the same names.
macro_rules! names {
    ($(#[$outer:meta])* $kind:ident { $($(#[$doc:meta])* $value:ident = $name:literal,)* }) => {
        $(#[$outer])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
        )]
        pub enum $kind {
            $($(#[$doc])* #[serde(rename = $name)] $value,)*
        }

        impl $kind {
            /// Every value, in the order of declaration.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$value),*];

            /// The name on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)*
                }
            }

            /// The value of this name, if there is one.
            #[must_use]
            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.as_str() == name)
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use names;
