// Package listeners attacks every port that the operator's programs listen on, in a real cluster,
// as any pod could, and measures the cost for honest callers.
//
//	listener.go  the listeners: their programs, their honest callers, their attacks
//	honest.go    the honest callers
//	attacks      what attackers do with a connection (a package of its own)
//	crowd.go     as many attackers as are asked for, from addresses of their own
//	siege.go     one listener, without the attack and with it
//	random.go    random inputs (tests/hostile/inputs), to the listeners of tunnels
//	together.go  the most expensive attacks at once, while a leader is ended and sandboxes come
//	shared.go    the control plane beside the cluster, and its agents that share one address (tests/hostile/beside)
//	world.go     the cluster: its pods, tokens, memory
//	ports.go     whether a program listens on a port without an attack
//	figures.go   the output
//
// A listener without an attack fails a test over the chart, and every run. Attacks on the xDS
// endpoint by pods with tokens of their own, request by request, are in package hostile.
package listeners
