//! Where SQLite meets the simulated disk: C functions that unpack their arguments and ask [`State`].
//!
//! SQLite keeps a pointer to a VFS for as long as a connection lives, and a connection is safe Rust that may
//! outlive the disk. So a VFS is registered once and never freed: it sits in a [`Slot`], and a disk that
//! goes leaves its slot to the next. There are as many slots as there were disks at once, however many there
//! are one after another.
//!
//! Nothing is decided here, and nothing here may panic: a panic in a C callback ends the process.

#![allow(unsafe_code, reason = "a SQLite VFS is a table of C functions; this is the only file that has them")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rusqlite::ffi;

use super::{Directory, FileId, START, Shared, State};

/// One registered VFS, and the disk behind it at present.
pub(super) struct Slot {
    name: &'static CStr,
    disk: Mutex<Weak<Shared>>,
}

/// Slots without a disk, and how many slots there are.
static POOL: Mutex<Pool> = Mutex::new(Pool { free: Vec::new(), registered: 0 });

struct Pool {
    free: Vec<&'static Slot>,
    registered: usize,
}

/// Puts a disk behind a VFS.
pub(super) fn attach(state: State) -> Arc<Shared> {
    let free = lock(&POOL).free.pop();
    let slot = free.unwrap_or_else(register);
    let shared = Arc::new(Shared { state: Mutex::new(state), slot });
    *lock(&slot.disk) = Arc::downgrade(&shared);
    shared
}

impl Slot {
    pub(super) fn name(&self) -> &'static str {
        self.name.to_str().expect("`register` made it of letters and digits")
    }

    /// The disk is gone; another may come.
    pub(super) fn release(&'static self) {
        *lock(&self.disk) = Weak::new();
        lock(&POOL).free.push(self);
    }
}

fn register() -> &'static Slot {
    let mut pool = lock(&POOL);
    pool.registered += 1;
    let name = format!("throughline-disk-{}\0", pool.registered);
    drop(pool);
    let name = CStr::from_bytes_with_nul(name.leak().as_bytes()).expect("it ends in the only NUL");
    let slot: &'static Slot = Box::leak(Box::new(Slot { name, disk: Mutex::default() }));
    let vfs = Box::leak(Box::new(ffi::sqlite3_vfs {
        iVersion: 2,
        szOsFile: size_of::<OpenFile>() as c_int,
        mxPathname: 512,
        pNext: ptr::null_mut(),
        zName: name.as_ptr(),
        pAppData: ptr::from_ref(slot).cast_mut().cast(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        xDlOpen: Some(dl_open),
        xDlError: Some(dl_error),
        xDlSym: None,   // never called after `dl_open` returned null
        xDlClose: None, // likewise
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: None,
        xCurrentTimeInt64: Some(current_time_ms),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }));
    // SAFETY: the structure, its name and the slot are leaked above, so they outlive every connection;
    // SQLite alone touches the structure from here on.
    let code = unsafe { ffi::sqlite3_vfs_register(vfs, 0) };
    assert_eq!(code, ffi::SQLITE_OK, "a VFS can always be registered, unless SQLite cannot start");
    slot
}

/// What SQLite allocates for us per open file. `base` must come first: SQLite looks at nothing else.
#[repr(C)]
struct OpenFile {
    base: ffi::sqlite3_file,
    /// From `Box::into_raw` while `base.pMethods` is set.
    handle: *mut Handle,
}

struct Handle {
    disk: Arc<Shared>,
    file: FileId,
    opened_in: u64,
    is_main: bool,
}

/// Version 1: no shared memory and no memory mapping.
static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock_file),
    xUnlock: Some(unlock_file),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn code(result: Result<(), c_int>) -> c_int {
    result.err().unwrap_or(ffi::SQLITE_OK)
}

/// SQLite never passes a negative offset or length.
fn unsigned(number: i64) -> u64 {
    number.max(0) as u64
}

/// The disk behind a VFS, if it still exists.
///
/// # Safety
/// `vfs` comes from [`register`].
unsafe fn disk_of(vfs: *mut ffi::sqlite3_vfs) -> Option<Arc<Shared>> {
    // SAFETY: `register` put a leaked slot there, and nothing writes to it again.
    let slot = unsafe { &*(*vfs).pAppData.cast::<Slot>() };
    lock(&slot.disk).upgrade()
}

/// # Safety
/// `name` is null or a C string that lives as long as the caller uses the answer.
unsafe fn text<'a>(name: *const c_char) -> Option<&'a str> {
    match name.is_null() {
        true => None,
        // SAFETY: not null, so a C string.
        false => unsafe { CStr::from_ptr(name) }.to_str().ok(),
    }
}

/// Asks the disk about an open file, unless its connection is dead.
///
/// # Safety
/// `file` was opened by [`open`] and not yet closed.
unsafe fn ask<T>(
    file: *mut ffi::sqlite3_file,
    question: impl FnOnce(&mut State, FileId) -> Result<T, c_int>,
) -> Result<T, c_int> {
    // SAFETY: `open` put a handle there, and only `close` takes it away.
    let handle = unsafe { &*(*file.cast::<OpenFile>()).handle };
    let mut state = handle.disk.state();
    state.check_alive(handle.opened_in)?;
    question(&mut state, handle.file)
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let file = file.cast::<OpenFile>();
    // SAFETY: SQLite allocated `szOsFile` bytes. No methods means not open: a refusal is not closed.
    unsafe { (*file).base.pMethods = ptr::null() };
    // SAFETY: our VFS, and a name that lives as long as the file.
    let (disk, path) = unsafe { (disk_of(vfs), text(name)) };
    let Some(disk) = disk.filter(|_| name.is_null() || path.is_some()) else {
        return ffi::SQLITE_CANTOPEN;
    };
    let (opened, opened_in) = {
        let mut state = disk.state();
        (state.open(path, flags), state.lifetime)
    };
    let id = match opened {
        Ok(id) => id,
        Err(code) => return code,
    };
    let is_main = flags & ffi::SQLITE_OPEN_MAIN_DB != 0;
    let handle = Box::into_raw(Box::new(Handle { disk, file: id, opened_in, is_main }));
    // SAFETY: as above; `out_flags` may be null.
    unsafe {
        file.write(OpenFile { base: ffi::sqlite3_file { pMethods: &raw const METHODS }, handle });
        if let Some(out_flags) = out_flags.as_mut() {
            *out_flags = flags;
        }
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: `open` made the box, and SQLite closes a file once.
    let handle = unsafe { Box::from_raw((*file.cast::<OpenFile>()).handle) };
    handle.disk.state().close(handle.file, handle.opened_in, handle.is_main);
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    into: *mut c_void,
    amount: c_int,
    offset: i64,
) -> c_int {
    let amount = unsigned(amount.into()) as usize;
    // SAFETY: the buffer has `amount` bytes and is ours during the call. Zeroed before it is borrowed,
    // because it may be uninitialised, and because SQLite wants zeros after a short read.
    let (into, file) = unsafe {
        into.cast::<u8>().write_bytes(0, amount);
        (std::slice::from_raw_parts_mut(into.cast::<u8>(), amount), file)
    };
    // SAFETY: an open file.
    code(unsafe { ask(file, |state, id| state.read(id, unsigned(offset), into)) })
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    amount: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: the buffer has `amount` bytes, which SQLite does not change during the call.
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), unsigned(amount.into()) as usize) };
    // SAFETY: an open file.
    code(unsafe { ask(file, |state, id| state.write(id, unsigned(offset), bytes)) })
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    // SAFETY: an open file.
    code(unsafe { ask(file, |state, id| state.truncate(id, unsigned(size))) })
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: an open file.
    code(unsafe { ask(file, |state, id| state.sync(id)) })
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, size: *mut i64) -> c_int {
    // SAFETY: an open file, and a place for the answer.
    code(unsafe { ask(file, |state, id| Ok(state.size(id))).map(|answer| *size = answer as i64) })
}

/// Granted to the one connection there is, and to no dead one: a dead connection that could lock would
/// clean up behind itself, as the process never did.
unsafe extern "C" fn lock_file(file: *mut ffi::sqlite3_file, _level: c_int) -> c_int {
    // SAFETY: an open file.
    code(unsafe { ask(file, |_, _| Ok(())) })
}

unsafe extern "C" fn unlock_file(_file: *mut ffi::sqlite3_file, _level: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(_file: *mut ffi::sqlite3_file, is_held: *mut c_int) -> c_int {
    // SAFETY: a place for the answer.
    unsafe { *is_held = 0 };
    ffi::SQLITE_OK
}

/// "Not found" is the answer for a question one does not know; SQLite then does what it does by default.
unsafe extern "C" fn file_control(file: *mut ffi::sqlite3_file, op: c_int, arg: *mut c_void) -> c_int {
    match op {
        ffi::SQLITE_FCNTL_HAS_MOVED => {
            // SAFETY: an open file, and this question has a place for one integer.
            code(unsafe {
                ask(file, |state, id| Ok(state.has_moved(id)))
                    .map(|moved| *arg.cast::<c_int>() = moved.into())
            })
        }
        _ => ffi::SQLITE_NOTFOUND,
    }
}

/// As SQLite on Unix says, so that it behaves here as it does there.
unsafe extern "C" fn sector_size(_file: *mut ffi::sqlite3_file) -> c_int {
    4096
}

/// As SQLite on Unix says.
unsafe extern "C" fn device_characteristics(_file: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE | ffi::SQLITE_IOCAP_SUBPAGE_READ
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync_directory: c_int) -> c_int {
    // SAFETY: our VFS, and a name that lives during the call.
    let (disk, name) = unsafe { (disk_of(vfs), text(name)) };
    let and_then = if sync_directory == 0 { Directory::Waits } else { Directory::Syncs };
    match disk.zip(name) {
        Some((disk, name)) => code(disk.state().delete(name, and_then)),
        None => ffi::SQLITE_IOERR_DELETE,
    }
}

unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    _flags: c_int,
    answer: *mut c_int,
) -> c_int {
    // SAFETY: our VFS, and a name that lives during the call.
    let (disk, name) = unsafe { (disk_of(vfs), text(name)) };
    let exists = match disk.zip(name) {
        Some((disk, name)) => disk.state().exists(name),
        None => Err(ffi::SQLITE_IOERR_ACCESS),
    };
    // SAFETY: a place for the answer.
    code(exists.map(|exists| unsafe { *answer = exists.into() }))
}

/// A name is its own full path.
unsafe extern "C" fn full_pathname(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    capacity: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite passes a C string.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes_with_nul();
    if name.len() as u64 > unsigned(capacity.into()) {
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: `out` has room for `capacity` bytes, and is not where the name lies.
    unsafe { ptr::copy_nonoverlapping(name.as_ptr(), out.cast(), name.len()) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn dl_open(_vfs: *mut ffi::sqlite3_vfs, _name: *const c_char) -> *mut c_void {
    ptr::null_mut() // no libraries on this disk
}

unsafe extern "C" fn dl_error(_vfs: *mut ffi::sqlite3_vfs, capacity: c_int, out: *mut c_char) {
    if capacity > 0 {
        // SAFETY: `out` has room for `capacity` bytes.
        unsafe { *out = 0 };
    }
}

unsafe extern "C" fn randomness(vfs: *mut ffi::sqlite3_vfs, amount: c_int, out: *mut c_char) -> c_int {
    let amount_usize = unsigned(amount.into()) as usize;
    // SAFETY: our VFS, and a buffer of `amount` bytes, initialised before it is borrowed.
    let (disk, out) = unsafe {
        out.cast::<u8>().write_bytes(0, amount_usize);
        (disk_of(vfs), std::slice::from_raw_parts_mut(out.cast::<u8>(), amount_usize))
    };
    if let Some(disk) = disk {
        disk.state().noise(out);
    }
    amount
}

/// It does not wait: what SQLite sleeps for is a lock, and there are none.
unsafe extern "C" fn sleep(_vfs: *mut ffi::sqlite3_vfs, microseconds: c_int) -> c_int {
    microseconds
}

unsafe extern "C" fn current_time(vfs: *mut ffi::sqlite3_vfs, julian_days: *mut f64) -> c_int {
    let mut now_ms = 0;
    // SAFETY: our VFS, and places for the answers.
    unsafe {
        let code = current_time_ms(vfs, &raw mut now_ms);
        *julian_days = now_ms as f64 / 86_400_000.0;
        code
    }
}

unsafe extern "C" fn current_time_ms(vfs: *mut ffi::sqlite3_vfs, julian_ms: *mut i64) -> c_int {
    const EPOCH_MS: i64 = 210_866_760_000_000; // from the first Julian day to 1970
    // SAFETY: our VFS.
    let now = unsafe { disk_of(vfs) }.map_or(START, |disk| disk.state().now);
    // SAFETY: a place for the answer.
    unsafe { *julian_ms = EPOCH_MS + now.as_millis() as i64 };
    ffi::SQLITE_OK
}

#[cfg(test)]
pub(super) fn registered() -> usize {
    lock(&POOL).registered
}
