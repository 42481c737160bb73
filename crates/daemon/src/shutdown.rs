//! How the daemon is asked to stop, by a signal or through a door, and how those who watch learn that the doors close.
//!
//! Not here: stopping itself. The lifecycle waits for the question and answers it.

use agent_worker_protocol::api::ShutdownMode;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A cloneable handle: anybody may ask, one waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shutdown {
    requested: watch::Sender<Option<ShutdownMode>>,
    closed: CancellationToken,
}

impl Shutdown {
    /// Asks the daemon to stop. Asking again changes nothing, except that `Now` hastens a drain under way.
    pub(crate) fn request(&self, mode: ShutdownMode) {
        self.requested.send_if_modified(|asked| {
            let is_more_urgent = match (&asked, mode) {
                (None, _) | (Some(ShutdownMode::Drain), ShutdownMode::Now) => true,
                (Some(_), _) => false,
            };
            if is_more_urgent {
                *asked = Some(mode);
            }
            is_more_urgent
        });
    }

    /// Waits until somebody asks, and tells how to stop.
    pub(crate) async fn wait_for_request(&self) -> ShutdownMode {
        self.wait_for_mode(|_| true).await
    }

    /// Waits until somebody wants it to be now.
    pub(crate) async fn wait_for_now(&self) {
        self.wait_for_mode(|mode| mode == ShutdownMode::Now).await;
    }

    /// Ends every stream of events, so that their connections can close.
    pub(crate) fn close_streams(&self) {
        self.closed.cancel();
    }

    /// Waits until streams of events are to end.
    pub(crate) async fn streams_closed(&self) {
        self.closed.cancelled().await;
    }

    async fn wait_for_mode(&self, wanted: impl Fn(ShutdownMode) -> bool) -> ShutdownMode {
        let mut asked = self.requested.subscribe();
        match asked.wait_for(|mode| mode.is_some_and(&wanted)).await.map(|mode| *mode) {
            Ok(Some(mode)) => mode,
            // The sender is this handle itself, so it is never gone.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn asking_again_can_only_make_it_more_urgent() {
        for (asked, expected) in [
            (&[ShutdownMode::Drain][..], ShutdownMode::Drain),
            (&[ShutdownMode::Drain, ShutdownMode::Now], ShutdownMode::Now),
            (&[ShutdownMode::Now, ShutdownMode::Drain], ShutdownMode::Now),
            (&[ShutdownMode::Drain, ShutdownMode::Handover], ShutdownMode::Drain),
            (&[ShutdownMode::Handover, ShutdownMode::Now], ShutdownMode::Handover),
        ] {
            let shutdown = Shutdown::default();
            for mode in asked {
                shutdown.request(*mode);
            }
            assert_eq!(shutdown.wait_for_request().await, expected, "{asked:?}");
        }
    }
}
