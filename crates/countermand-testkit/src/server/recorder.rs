//! The test's end: hears what servers tell, and tells them what to do.

use super::event::{Event, EventKind};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream, unix::OwnedWriteHalf},
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::Instant,
};

/// How long anything may take that is bound to come.
const PATIENCE: Duration = Duration::from_secs(20);

/// Hears all servers that were told of it.
#[derive(Debug)]
pub struct Recorder {
    socket: PathBuf,
    record: watch::Receiver<Vec<Event>>,
    ways: Arc<Mutex<BTreeMap<u32, OwnedWriteHalf>>>,
    accepting: JoinHandle<()>,
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Recorder {
    /// Listens in a directory.
    ///
    /// # Errors
    /// Where no socket can be made there.
    pub fn listen(directory: &Path) -> io::Result<Self> {
        let socket = directory.join("recorder");
        let listener = UnixListener::bind(&socket)?;
        let (tell, record) = watch::channel(Vec::new());
        let ways = Arc::new(Mutex::default());
        let kept = Arc::clone(&ways);
        #[expect(clippy::disallowed_methods, reason = "the handle is kept, and the task ended with it")]
        let accepting = tokio::spawn(async move {
            let tell = Arc::new(tell);
            let mut readers = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                readers.spawn(hear(stream, Arc::clone(&tell), Arc::clone(&kept)));
            }
        });
        Ok(Self { socket, record, ways, accepting })
    }

    /// Where servers are to tell.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// All that was told.
    pub fn events(&self) -> Vec<Event> {
        self.record.borrow().clone()
    }

    /// Waits until what was told is enough, and returns it.
    ///
    /// # Panics
    /// After 20 s, with what there is.
    pub async fn wait(&self, what: &str, enough: impl Fn(&[Event]) -> bool) -> Vec<Event> {
        self.wait_within(PATIENCE, what, enough).await
    }

    /// The same, within another time.
    ///
    /// # Panics
    /// After that time, with what there is.
    pub async fn wait_within(
        &self,
        patience: Duration,
        what: &str,
        enough: impl Fn(&[Event]) -> bool,
    ) -> Vec<Event> {
        let mut record = self.record.clone();
        let waiting = async {
            loop {
                // A copy: whoever looks at it may look at the record as well.
                let events = record.borrow_and_update().clone();
                if enough(&events) || record.changed().await.is_err() {
                    return enough(&events).then_some(events);
                }
            }
        };
        match tokio::time::timeout(patience, waiting).await {
            Ok(Some(events)) => events,
            _ => panic!("the servers never told of {what}: {:#?}", self.events()),
        }
    }

    /// Waits for the first event that fits.
    pub async fn first(&self, what: &str, fits: impl Fn(&Event) -> bool) -> Event {
        let events = self.wait(what, |events| events.iter().any(&fits)).await;
        match events.into_iter().find(|event| fits(event)) {
            Some(event) => event,
            None => panic!("{what} was there"),
        }
    }

    /// Waits until a tool works on this tag, and returns what the server calls its request.
    pub async fn working(&self, tag: &str) -> Value {
        match self.first(&format!("work on {tag}"), |event| event.works(tag)).await.kind {
            EventKind::Working { id, .. } => id,
            _ => Value::Null,
        }
    }

    /// Every cancel that servers have been told of: which request, and when.
    pub fn cancels(&self) -> Vec<(Value, Instant)> {
        cancels(&self.events())
    }

    /// Waits until a server was told to cancel that request.
    pub async fn cancelled(&self, id: &Value) -> Event {
        let is = |event: &Event| {
            event.heard("notifications/cancelled").is_some_and(|it| it["params"]["requestId"] == *id)
        };
        self.first(&format!("the cancel of {id}"), is).await
    }

    /// The servers that were started, and what they started, in order; and whether they live.
    pub fn processes(&self) -> Vec<(u32, bool)> {
        let events = self.record.borrow();
        let started = events.iter().filter(|event| matches!(event.kind, EventKind::Started { .. }));
        let ended = |pid| events.iter().any(|event| event.pid == pid && event.kind == EventKind::Ended);
        started.map(|event| (event.pid, !ended(event.pid))).collect()
    }

    /// Waits until none of them lives.
    pub async fn gone(&self) {
        self.wait("the end of all", |_| self.processes().iter().all(|(_, lives)| !lives)).await;
    }

    /// Lets the work on a tag finish: its answer is sent.
    pub async fn release(&self, tag: &str) {
        self.order(json!({ "do": "release", "tag": tag })).await;
    }

    /// Lets every server say this.
    pub async fn say(&self, line: &str) {
        self.order(json!({ "do": "say", "line": line })).await;
    }

    /// Lets every server exit.
    pub async fn exit(&self, code: i32) {
        self.order(json!({ "do": "exit", "code": code })).await;
    }

    async fn order(&self, order: Value) {
        // Taken out meanwhile: no lock is held while it is written.
        let ways = std::mem::take(&mut *lock(&self.ways));
        let mut back = BTreeMap::new();
        for (pid, mut way) in ways {
            if way.write_all(format!("{order}\n").as_bytes()).await.is_ok() {
                back.insert(pid, way);
            }
        }
        lock(&self.ways).extend(back);
    }
}

/// Every cancel among those events.
fn cancels(events: &[Event]) -> Vec<(Value, Instant)> {
    let cancel = |event: &Event| {
        Some((event.heard("notifications/cancelled")?["params"]["requestId"].clone(), event.at))
    };
    events.iter().filter_map(cancel).collect()
}

async fn hear(
    stream: UnixStream,
    tell: Arc<watch::Sender<Vec<Event>>>,
    ways: Arc<Mutex<BTreeMap<u32, OwnedWriteHalf>>>,
) {
    let (read, write) = stream.into_split();
    let (mut write, mut pid) = (Some(write), 0);
    let mut lines = BufReader::new(read).lines();
    let push = |pid, kind| {
        tell.send_modify(|events| events.push(Event { at: Instant::now(), pid, kind }));
    };
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(kind) = serde_json::from_str(&line) else { continue };
        if let EventKind::Started { pid: its, of } = kind {
            pid = its;
            // What a server has started reads nothing.
            if let Some(write) = write.take_if(|_| of.is_none()) {
                lock(&ways).insert(pid, write);
            }
        }
        push(pid, kind);
    }
    lock(&ways).remove(&pid);
    push(pid, EventKind::Ended);
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
