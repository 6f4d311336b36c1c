//! One declaration of a port makes its trait and, for tests, its decorator: a method that is added to a port is in both.

/// Declares a port. The second trait exists under the feature `conformance` only. It has the same methods, and each of them
/// passes the call on to the backend behind, through [`Around::around`]: a decorator implements what it is about, and
/// [`Over`] makes it the port again.
macro_rules! port {
    (
        $(#[$about:meta])*
        pub trait $port:ident, decorated by $over:ident over $field:ident {
            $($(#[$doc:meta])* async fn $name:ident(&self $(, $arg:ident: $type:ty)* $(,)?) -> $answer:ty;)*
        }
    ) => {
        $(#[$about])*
        #[async_trait::async_trait]
        pub trait $port: Send + Sync {
            $($(#[$doc])* async fn $name(&self $(, $arg: $type)*) -> $answer;)*
        }

        #[cfg(feature = "conformance")]
        #[async_trait::async_trait]
        pub trait $over: $crate::port::Around {
            $(async fn $name(&self $(, $arg: $type)*) -> $answer {
                let call = self.behind().$field.$name($($arg),*);
                self.around(stringify!($name), call).await
            })*
        }

        #[cfg(feature = "conformance")]
        #[async_trait::async_trait]
        impl<T: $over> $port for $crate::port::Over<T> {
            $(async fn $name(&self $(, $arg: $type)*) -> $answer {
                $over::$name(self.0.as_ref() $(, $arg)*).await
            })*
        }
    };
}
pub(crate) use port;

/// What stands in front of a backend.
#[cfg(feature = "conformance")]
pub trait Around: Send + Sync + 'static {
    fn behind(&self) -> &crate::Backend;

    /// What happens around a call that is passed on.
    fn around<T: Send>(
        &self,
        _operation: &'static str,
        call: impl Future<Output = crate::Result<T>> + Send,
    ) -> impl Future<Output = crate::Result<T>> + Send {
        call
    }
}

/// A decorator as the ports that it decorates.
#[cfg(feature = "conformance")]
#[derive(Debug)]
pub struct Over<T>(pub std::sync::Arc<T>);
