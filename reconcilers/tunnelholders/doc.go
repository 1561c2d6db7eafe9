// Package tunnelholders asks the tunnel proxies which tunnels end at them, and knows for each
// external workload which proxy holds its tunnel, and whether its workstation can be reached.
// It runs on the leader alone.
//
//	Tunnels  the proxies that there are, and what all tell   tunnels.go
//	follow   one stream to each (protos/tunnel/v1/control)    follow.go
//	waking   whose external workload is to be looked at       waking.go
//	holders  who of several holds a tunnel                    holders/  pure
//
// Each running pod of the operator's namespace with the label app=tunnel-proxy is asked, for
// as long as the cache has it, over TLS, by a token of audience tunnel-proxy. It tells
// something each second: who is silent for five, or whose stream broke and does not come
// again within one, is gone, and so are all tunnels that it held. Who has lost a tunnel to
// another proxy is told so.
package tunnelholders
