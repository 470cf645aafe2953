//! The ledger in a SQLite file: who does what on which thread.

use super::{
    connect,
    definitions::{self, Known},
    error::{Failure, OpenError, store},
    list,
    lock::GatewayLock,
    notices, operations,
    readers::Readers,
    requests, retention,
    schema::{self, Found, MIGRATIONS},
    writer::Writer,
};
use crate::platform;
use countermand_core::{
    DefinitionHash, News, OperationId, Row, Timestamp,
    notice::{Notice, Told},
    ports::{BoxFuture, Definition, Entry, Filed, Ledger, LedgerError, Query, Request},
};
use rusqlite::Connection;
use std::{fmt, io, path::Path, sync::Arc};

/// What a ledger is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// To drive operations: the one process that writes. Creates the file where there is none, and migrates it.
    Gateway,
    /// To look, and to file requests for the gateway. Takes no lock, and changes nothing else.
    Operator,
}

/// A ledger in a SQLite file.
///
/// Its own threads do the work: one writes, a few read. Dropping it waits until what was queued is
/// written, for at most as long as the disk takes, and then gives the lock back.
pub struct SqliteLedger {
    path: Arc<Path>,
    epoch: u64,
    known: Arc<Known>,
    // In this order they end: the last connection to close is the one that may write.
    readers: Readers,
    writer: Option<Writer>,
}

impl SqliteLedger {
    /// Opens a ledger. Blocks for as long as the disk takes.
    ///
    /// # Errors
    /// [`OpenError`], above all [`OpenError::Locked`] where another gateway has it. Nothing was changed then.
    pub fn open(path: impl AsRef<Path>, mode: OpenMode) -> Result<Self, OpenError> {
        let path: Arc<Path> = path.as_ref().into();
        match mode {
            OpenMode::Gateway => Self::open_gateway(path),
            OpenMode::Operator => Self::open_operator(path),
        }
    }

    fn open_gateway(path: Arc<Path>) -> Result<Self, OpenError> {
        check_place(&path)?;
        let lock = GatewayLock::take(&path)?;
        create(&path)?;
        let sqlite = |error| OpenError::sqlite(&path, &error);
        let mut connection = connect::to_write(&path).map_err(sqlite)?;
        let from = version(&path, &connection)?;
        if !connect::use_wal(&connection).map_err(sqlite)? {
            let message =
                "its disk cannot hold a write-ahead log in shared memory; keep it on another local disk";
            return Err(OpenError::Store { path: path.to_path_buf(), message: message.to_owned() });
        }
        schema::migrate(&mut connection, from, MIGRATIONS).map_err(sqlite)?;
        let epoch = connection
            .query_row("UPDATE meta SET value = value + 1 WHERE key = 'epoch' RETURNING value", [], epoch)
            .map_err(sqlite)?;
        connection.busy_timeout(connect::WRITER_BUSY).map_err(sqlite)?;
        let readers = Readers::start(path.clone())?;
        let writer = Writer::start(path.clone(), connection, lock)?;
        Ok(Self { path, epoch, known: Arc::default(), readers, writer: Some(writer) })
    }

    fn open_operator(path: Arc<Path>) -> Result<Self, OpenError> {
        if !path.exists() {
            return Err(OpenError::Missing { path: path.to_path_buf() });
        }
        check_place(&path)?;
        let sqlite = |error| OpenError::sqlite(&path, &error);
        let connection = connect::to_read(&path).map_err(sqlite)?;
        let (found, known) = (version(&path, &connection)?, MIGRATIONS.len() as u32);
        if found < known {
            return Err(OpenError::TooOld { path: path.to_path_buf(), found, known });
        }
        let epoch =
            connection.query_row("SELECT value FROM meta WHERE key = 'epoch'", [], epoch).map_err(sqlite)?;
        let readers = Readers::start(path.clone())?;
        Ok(Self { path, epoch, known: Arc::default(), readers, writer: None })
    }

    /// The incarnation: greater at every start of a gateway. For an operator, that of the last gateway.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    async fn read<T, F>(&self, work: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &Known) -> Result<T, Failure> + Send + 'static,
    {
        let known = self.known.clone();
        self.readers.read(move |connection| work(connection, &known)).await
    }

    async fn write<T, F>(&self, work: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        let Some(writer) = &self.writer else {
            return Err(store("write", &self.path, "it was opened to be read: only a gateway writes"));
        };
        writer.write(work).await
    }

    async fn prune_in_batches(&self, before: Timestamp) -> Result<u64, LedgerError> {
        let mut removed = 0;
        loop {
            let batch = self.write(move |connection| retention::prune(connection, before)).await?;
            removed += batch as u64;
            if batch < retention::BATCH {
                break;
            }
        }
        let unused = self.read(definitions::unused).await?;
        if !unused.is_empty() {
            let known = self.known.clone();
            self.write(move |connection| definitions::forget(connection, &known, &unused)).await?;
        }
        Ok(removed)
    }
}

impl fmt::Debug for SqliteLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteLedger")
            .field("path", &self.path)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

impl Ledger for SqliteLedger {
    fn define(&self, definition: Definition) -> BoxFuture<'_, Result<(), LedgerError>> {
        self.known.use_it(&definition.hash);
        Box::pin(self.write(move |connection| definitions::define(connection, &definition)))
    }

    fn definition(&self, hash: DefinitionHash) -> BoxFuture<'_, Result<Definition, LedgerError>> {
        self.known.use_it(&hash);
        Box::pin(self.read(move |connection, _| definitions::read(connection, &hash)))
    }

    fn insert(&self, row: Row, entry: Entry) -> BoxFuture<'_, Result<Row, LedgerError>> {
        Box::pin(self.write(move |connection| operations::insert(connection, row, &entry)))
    }

    fn update_with_news(
        &self,
        row: Row,
        epoch: u64,
        entry: Entry,
        news: Vec<News>,
    ) -> BoxFuture<'_, Result<Row, LedgerError>> {
        Box::pin(self.write(move |connection| operations::update(connection, row, epoch, &entry, &news)))
    }

    fn notices(&self, due_by: Timestamp, limit: usize) -> BoxFuture<'_, Result<Vec<Notice>, LedgerError>> {
        Box::pin(self.read(move |connection, _| notices::waiting(connection, due_by, limit)))
    }

    fn told(&self, notice: u64, told: Told) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(self.write(move |connection| notices::told(connection, notice, &told)))
    }

    fn get(&self, id: OperationId) -> BoxFuture<'_, Result<Row, LedgerError>> {
        Box::pin(self.read(move |connection, known| operations::get(connection, known, id)))
    }

    fn list(&self, query: Query) -> BoxFuture<'_, Result<Vec<Row>, LedgerError>> {
        Box::pin(self.read(move |connection, known| list::list(connection, known, &query)))
    }

    fn history(&self, id: OperationId) -> BoxFuture<'_, Result<Vec<Entry>, LedgerError>> {
        Box::pin(self.read(move |connection, _| operations::history(connection, id)))
    }

    fn file_request(&self, request: Request) -> BoxFuture<'_, Result<(), LedgerError>> {
        if self.writer.is_some() {
            return Box::pin(self.write(move |connection| requests::file(connection, &request)));
        }
        let path = self.path.clone();
        Box::pin(async move {
            let place = path.clone();
            // On a reader's thread, for it blocks; what it returns is the writing's own answer.
            self.read(move |_, _| Ok(requests::file_from_outside(&path, &request)))
                .await?
                .map_err(|failure| failure.into_error("write", &place))
        })
    }

    fn requests(&self) -> BoxFuture<'_, Result<Vec<Filed>, LedgerError>> {
        Box::pin(self.read(|connection, _| requests::waiting(connection)))
    }

    fn answered(&self, request: u64) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(self.write(move |connection| requests::remove(connection, request)))
    }

    fn prune(&self, before: Timestamp) -> BoxFuture<'_, Result<u64, LedgerError>> {
        Box::pin(self.prune_in_batches(before))
    }
}

/// The directory must be there, and near.
fn check_place(path: &Path) -> Result<(), OpenError> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !directory.is_dir() {
        return Err(OpenError::NoDirectory { path: path.to_owned(), directory: directory.to_owned() });
    }
    if path.is_dir() {
        let source = io::ErrorKind::IsADirectory.into();
        return Err(OpenError::System { path: path.to_owned(), what: "it cannot be a file", source });
    }
    // A file may be a link to elsewhere.
    let place = if path.exists() { path } else { directory };
    match platform::network_file_system(place) {
        Ok(None) => Ok(()),
        Ok(Some(system)) => Err(OpenError::Network { path: path.to_owned(), system }),
        Err(source) => {
            Err(OpenError::System { path: path.to_owned(), what: "its file system cannot be asked", source })
        }
    }
}

/// Creates the file where there is none, for its owner only: arguments of calls are in it. SQLite gives its other
/// files the same permissions.
///
/// A file that is there is not opened: closing it again would give back every lock that SQLite holds on
/// it in this process, an operator's connection's among them.
fn create(path: &Path) -> Result<(), OpenError> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            Err(OpenError::System { path: path.to_owned(), what: "the file cannot be created", source })
        }
        _ => Ok(()),
    }
}

/// How many migrations the file has had, at most all that we know.
fn version(path: &Path, connection: &Connection) -> Result<u32, OpenError> {
    let path = path.to_owned();
    match schema::look(connection, MIGRATIONS.len()).map_err(|error| OpenError::sqlite(&path, &error))? {
        Found::Version(version) => Ok(version),
        Found::Newer(found) => Err(OpenError::TooNew { path, found, known: MIGRATIONS.len() as u32 }),
        Found::Foreign => Err(OpenError::NotALedger { path }),
    }
}

fn epoch(row: &rusqlite::Row<'_>) -> rusqlite::Result<u64> {
    super::columns::Cursor::over(row).count()
}
