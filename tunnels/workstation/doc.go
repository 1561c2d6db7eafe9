// Package workstation is a workstation's side of the tunnels: the session with a tunnel proxy,
// which it keeps up; the connections that come from the cluster, which it leads to local
// processes; and those that go into the cluster.
//
//	when to connect, and what to declare        course (pure)
//	which local addresses are opened            consent (pure)
//	SOCKS5, an HTTP proxy, ports of addresses   loopback
//	what a local process has of its baseline    standin (pure)
//	who may ask a running workstation           socket
//
// What it needs of the world it is given: a Road to a proxy, a token, whom to trust. It knows
// no kubeconfig and no flags; the program switchyard does.
//
// A connection from the cluster reaches a local address only if a selected sandbox names that
// address and the user has allowed it (package consent), whatever the proxy asks for. A local
// process that is down is a refusal that names the address.
//
// Nothing is ever sent twice: a session that is lost cuts its connections, at both ends with
// an error. What opens a connection while there is no session waits for the next.
package workstation
