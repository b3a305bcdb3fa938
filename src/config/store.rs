//! `[store]`: the embedded store, or PostgreSQL.

use callboard_store::postgres::Address;

use super::error::Error;
use super::source::Source;
use super::{Store, read, rule};

impl Store {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        const SECTION: &str = "store";
        let url = source.secret_of_any(SECTION, "url")?;
        let password = read::secret(source, SECTION, ("password", "password_file"))?;
        // PGPASSWORD counts, as in every program that talks to PostgreSQL.
        let password = password.map(|(_, password)| password);
        let password = password.or_else(|| source.foreign("PGPASSWORD").map(str::to_owned));
        let shared = url.map(|(place, url)| {
            let address = Address::parse(&url, password.as_deref());
            address.map_err(|reason| Error {
                place,
                says: format!("store.url must be postgres://USER@HOST[:PORT]/DATABASE: {reason}"),
            })
        });
        Ok(Self {
            cache_bytes: source.get(SECTION, "cache_bytes", rule::whole(1_048_576..=1 << 50))?,
            archive: source.optional(SECTION, "archive", rule::path)?,
            min_free_bytes: source.get(SECTION, "min_free_bytes", rule::whole(0..=1 << 50))?,
            reserve_bytes: source.get(SECTION, "reserve_bytes", rule::whole(0..=1 << 40))?,
            must_exist: source.get(SECTION, "must_exist", rule::flag)?,
            shared: shared.transpose()?,
        })
    }
}
