// Package server is the control plane's side of the link: it accepts the agents of clusters, knows
// which has the session of a cluster, and opens connections through it. The replicas of a control
// plane share a registry (controlplane-link/registry).
//
//   - A connection that is silent may wait for 5 s, and the oldest such connection makes way for new
//     ones; one that has offered the protocol waits for its handshake. The server begins at most
//     Config.Handshakes a second, so that agents that lost it do not exhaust it when it is back, and
//     refuses those that would wait for more than 10 s. The handshake and Hello then have 5 s each.
//   - A session with a higher epoch ends the former one: at this replica at once, at another one
//     when the registry notifies that. Connections of a former agent have Config.Linger to end.
//   - A session ends when its token is revoked.
//   - Open reaches the agent of a cluster at any replica: the replica that has the session serves the
//     others (ServeReplicas), in mutual TLS. It waits for an agent that reconnects.
//   - Drain hands sessions over: each agent is asked to connect to another replica, and its
//     connections here have Config.Linger to end.
package server
