// Package workstation is a workstation's side of the tunnels: it keeps the session with a tunnel
// proxy, forwards connections from the cluster to local processes, and opens connections into the
// cluster.
//
//	when to connect, and which tunnels to declare   reconnect (pure)
//	which local addresses are opened                consent (pure)
//	SOCKS5, an HTTP proxy, ports of addresses       loopback
//	environment and files of the baseline           containerenv (pure)
//	status and control of a running workstation     socket
//
// The caller passes a Road to a proxy, a token, and the authorities to trust. The package knows
// no kubeconfig and no flags; the program switchyard does.
//
// A connection from the cluster reaches a local address only if a selected sandbox names that
// address and the user has allowed it (package consent), whatever the proxy asks for. A local
// process that is down is a refusal that names the address.
//
// Nothing is ever sent twice: when a session is lost its connections are cut, at both ends with
// an error. A connection that is opened while there is no session waits for the next one.
package workstation
