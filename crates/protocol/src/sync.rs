//! Locks that ignore poisoning: a panic elsewhere does not make the data here unusable.
//!
//! Each critical section of this program leaves its data consistent at every step, so the flag says nothing.

use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

/// Locks a mutex.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for reading.
pub fn read<T: ?Sized>(data: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    data.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for writing.
pub fn write<T: ?Sized>(data: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    data.write().unwrap_or_else(PoisonError::into_inner)
}

/// Releases a mutex and locks it again once `condition` is false for its data.
pub fn wait_while<'a, T>(
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
    condition: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    changed.wait_while(guard, condition).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_while_a_lock_is_held_leaves_its_data_usable() {
        let (mutex, data) = (Mutex::new(1), RwLock::new(2));
        std::thread::scope(|scope| {
            let holder = scope.spawn(|| {
                let _held = (lock(&mutex), write(&data));
                panic!("while both are held");
            });
            assert!(holder.join().is_err());
        });
        assert!(mutex.is_poisoned() && data.is_poisoned());
        *write(&data) += 1;
        assert_eq!((*lock(&mutex), *read(&data)), (1, 3));
    }
}
