//! The store's interface, one trait per noun, and its implementations.
//!
//! Not here: policy. The kernel decides recipients, hops, back-off and outcomes; the store keeps order, fences and
//! counts.
//!
//! A file of `store/` has a noun's trait and, in [`store_methods`], a line for each method: the operation of `sql/`
//! that implements it, and the database that receives it. A new method is therefore added in two files: here and in
//! `sql/`.

mod admin;
mod attempts;
mod decisions;
mod documents;
mod messages;
mod runs;
mod tasks;

pub use admin::AdminStore;
pub use attempts::AttemptStore;
pub use decisions::DecisionStore;
pub use documents::DocumentStore;
pub use messages::MessageStore;
pub use runs::RunStore;
pub use tasks::TaskStore;

/// The whole store. Every method is one atomic operation; a write has reached the disk when it returns.
pub trait Store:
    MessageStore + RunStore + AttemptStore + DocumentStore + DecisionStore + TaskStore + AdminStore
{
}

impl<S> Store for S where
    S: MessageStore
        + RunStore
        + AttemptStore
        + DocumentStore
        + DecisionStore
        + TaskStore
        + AdminStore
{
}

/// Implements a noun's trait for [`Database`](crate::Database), where a method is one read or one write, and for
/// [`MultiStore`](crate::MultiStore), which sends a method to the database that the route names: `of_workflow`,
/// `of_run`, `of_attempt` or `of_home`.
///
/// - `both`: the way in which the database runs the operation, the route, the signature, the operation;
/// - `database`, `multi_store`: the same for one of them, if the other has a method of its own;
/// - `impl Database`, `impl MultiStore`: the methods that need other code.
macro_rules! store_methods {
    (
        impl $trait:ident;
        both { $(
            $how:ident $route:ident($($of:expr)?) $method:ident($($arg:ident: $ty:ty),*) -> $out:ty = $operation:expr;
        )* }
        database { $(
            $own_how:ident $own:ident($($own_arg:ident: $own_ty:ty),*) -> $own_out:ty = $own_operation:expr;
        )* }
        multi_store { $(
            $sent_route:ident($($sent_of:expr)?) $sent:ident($($sent_arg:ident: $sent_ty:ty),*) -> $sent_out:ty;
        )* }
        impl Database { $($database_method:tt)* }
        impl MultiStore { $($multi_store_method:tt)* }
    ) => {
        #[async_trait]
        impl $trait for Database {
            $(async fn $method(&self, $($arg: $ty),*) -> Result<$out> {
                self.$how($operation).await
            })*
            $(async fn $own(&self, $($own_arg: $own_ty),*) -> Result<$own_out> {
                self.$own_how($own_operation).await
            })*
            $($database_method)*
        }

        #[async_trait]
        impl $trait for MultiStore {
            $(async fn $method(&self, $($arg: $ty),*) -> Result<$out> {
                self.$route($($of)?).await?.$method($($arg),*).await
            })*
            $(async fn $sent(&self, $($sent_arg: $sent_ty),*) -> Result<$sent_out> {
                self.$sent_route($($sent_of)?).await?.$sent($($sent_arg),*).await
            })*
            $($multi_store_method)*
        }
    };
}
use store_methods;
