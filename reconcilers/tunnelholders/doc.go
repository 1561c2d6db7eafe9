// Package tunnelholders follows the tunnel proxies, and determines for each external workload which
// proxy holds its tunnel, and whether its workstation is connected. It runs on the leader alone.
//
//	Tunnels  the proxies, and the reports of all of them     tunnels.go
//	follow   one stream to each (protos/tunnel/v1/control)    follow.go
//	waking   the external workloads to reconcile              waking.go
//	holders  which of several proxies holds a tunnel          holders/  pure
//
// It connects to each running pod of the operator's namespace with the label app=tunnel-proxy, as long
// as the cache has it, over TLS, with a token of audience tunnel-proxy. A proxy reports each second.
// One that is silent for five seconds, or that does not reconnect within a second after its stream
// broke, counts as lost with all of its tunnels. A proxy that has lost a tunnel to another one is
// notified.
package tunnelholders
