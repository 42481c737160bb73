//! The variables by which programs find the proxy of their sandbox. Pure.

/// Variables that name a proxy. Programs read either form.
const PROXY_VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
/// Variables with the hosts that need no proxy.
const EXEMPT_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];
/// The loopback of the sandbox, with the servers of its programs and the forwarded ports.
const EXEMPT_HOSTS: &str = "127.0.0.1,localhost,::1";

/// Returns the variables for a proxy at a port of the sandbox's loopback.
pub(crate) fn proxy_variables(port: u16) -> Vec<(&'static str, String)> {
    let proxy = PROXY_VARIABLES.map(|name| (name, format!("http://127.0.0.1:{port}")));
    let exempt = EXEMPT_VARIABLES.map(|name| (name, EXEMPT_HOSTS.to_owned()));
    let node = ("NODE_USE_ENV_PROXY", "1".to_owned());
    proxy.into_iter().chain(exempt).chain([node]).collect()
}
