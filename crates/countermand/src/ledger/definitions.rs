//! Definitions: what operations were started under. Few, and never changed: the hash is of their content.

use super::{
    columns::{Cursor, json_text},
    error::Failure,
};
use countermand_core::{
    DefinitionHash, Policy,
    ports::{Definition, LedgerError},
};
use rusqlite::{Connection, OptionalExtension as _, params};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What this process knows of definitions.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The policies that were read, for the rows that name them.
    policies: HashMap<DefinitionHash, Arc<Policy>>,
    /// What was defined or asked for here: a row may come to name it at any time.
    used: HashSet<DefinitionHash>,
}

impl Known {
    /// The policy of a definition that a row names.
    pub(super) fn policy(
        &self,
        connection: &Connection,
        hash: &DefinitionHash,
    ) -> Result<Arc<Policy>, Failure> {
        if let Some(policy) = self.kept().policies.get(hash) {
            return Ok(policy.clone());
        }
        // Absent would be read as the row's absence.
        let missing = || Failure::Broken(format!("a row names definition {hash}, which is missing"));
        let policy = find(connection, hash)?.ok_or_else(missing)?.policy;
        Ok(self.kept().policies.entry(hash.clone()).or_insert(policy).clone())
    }

    /// Keeps retention off a definition from now on. To be called *before* it is written or read.
    pub(super) fn use_it(&self, hash: &DefinitionHash) {
        self.kept().used.insert(hash.clone());
    }

    fn is_used(&self, hash: &DefinitionHash) -> bool {
        self.kept().used.contains(hash)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn define(connection: &Connection, definition: &Definition) -> Result<(), Failure> {
    connection
        .prepare_cached(
            "INSERT INTO definitions (hash, policy, body) VALUES (?1, ?2, ?3) ON CONFLICT (hash) DO NOTHING",
        )?
        .execute(params![
            definition.hash.as_str(),
            json_text(&*definition.policy)?,
            json_text(&definition.body)?
        ])?;
    Ok(())
}

pub(super) fn read(connection: &Connection, hash: &DefinitionHash) -> Result<Definition, Failure> {
    find(connection, hash)?.ok_or_else(|| absent(hash).into())
}

fn find(connection: &Connection, hash: &DefinitionHash) -> rusqlite::Result<Option<Definition>> {
    connection
        .prepare_cached("SELECT policy, body FROM definitions WHERE hash = ?1")?
        .query_row([hash.as_str()], |stored| {
            let mut from = Cursor::over(stored);
            Ok(Definition { hash: hash.clone(), policy: Arc::new(from.json()?), body: from.json()? })
        })
        .optional()
}

pub(super) fn is_stored(connection: &Connection, hash: &DefinitionHash) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM definitions WHERE hash = ?1")?.exists([hash.as_str()])
}

pub(super) fn absent(hash: &DefinitionHash) -> LedgerError {
    LedgerError::Absent { what: format!("definition {hash}") }
}

/// Definitions that no row names and this process does not use. To be asked on a reader: it looks at every row.
pub(super) fn unused(connection: &Connection, known: &Known) -> Result<Vec<DefinitionHash>, Failure> {
    let mut all = connection.prepare("SELECT hash FROM definitions")?;
    let hashes: Vec<DefinitionHash> =
        all.query_map([], |row| row.get(0).map(DefinitionHash))?.collect::<rusqlite::Result<_>>()?;
    if hashes.iter().all(|hash| known.is_used(hash)) {
        return Ok(Vec::new());
    }
    let mut named = connection.prepare("SELECT DISTINCT definition FROM operations")?;
    let named: HashSet<DefinitionHash> =
        named.query_map([], |row| row.get(0).map(DefinitionHash))?.collect::<rusqlite::Result<_>>()?;
    Ok(hashes.into_iter().filter(|hash| !named.contains(hash) && !known.is_used(hash)).collect())
}

/// Removes what [`unused`] found and has not come into use since. A row can only come to name a
/// definition that was defined or read here before, so the rows need not be looked at again.
pub(super) fn forget(
    connection: &Connection,
    known: &Known,
    hashes: &[DefinitionHash],
) -> Result<(), Failure> {
    let mut delete = connection.prepare_cached("DELETE FROM definitions WHERE hash = ?1")?;
    for hash in hashes.iter().filter(|hash| !known.is_used(hash)) {
        delete.execute([hash.as_str()])?;
    }
    Ok(())
}
