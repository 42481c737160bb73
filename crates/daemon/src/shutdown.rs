//! Requests for the daemon's shutdown, by a signal or an interface, and the signal that ends open streams.
//!
//! Not here: the shutdown itself. `lifecycle` waits for the request and carries it out.

use agent_worker_protocol::api::ShutdownMode;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A cloneable handle: any task may request, one waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shutdown {
    requested: watch::Sender<Option<ShutdownMode>>,
    closed: CancellationToken,
}

impl Shutdown {
    /// Requests a shutdown. A second request has no effect, except that `Now` shortens a drain in progress.
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

    /// Waits for a request and returns its mode.
    pub(crate) async fn wait_for_request(&self) -> ShutdownMode {
        self.wait_for_mode(|_| true).await
    }

    /// Waits for a request with the mode `Now`.
    pub(crate) async fn wait_for_now(&self) {
        self.wait_for_mode(|mode| mode == ShutdownMode::Now).await;
    }

    /// Ends every event stream, so that their connections can close.
    pub(crate) fn close_streams(&self) {
        self.closed.cancel();
    }

    /// Waits until event streams must end.
    pub(crate) async fn streams_closed(&self) {
        self.closed.cancelled().await;
    }

    async fn wait_for_mode(&self, wanted: impl Fn(ShutdownMode) -> bool) -> ShutdownMode {
        let mut asked = self.requested.subscribe();
        match asked.wait_for(|mode| mode.is_some_and(&wanted)).await.map(|mode| *mode) {
            Ok(Some(mode)) => mode,
            // This handle owns the sender, so the channel never closes.
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
