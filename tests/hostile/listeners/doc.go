// Package listeners attacks every port that our programs listen on, in a real cluster, as
// any pod could, and measures what that costs those who call honestly.
//
//	listener.go  the listeners: whose they are, who calls them honestly, what is attacked
//	honest.go    the honest callers
//	attacks.go   what attackers do with a connection
//	crowd.go     as many attackers as are asked for, from addresses of their own
//	siege.go     one listener, without the attack and with it
//	random.go    random inputs, to the listeners of tunnels
//	together.go  the dearest attacks at once, while a leader goes and sandboxes come
//	world.go     the cluster: its pods, tokens, memory
//	ports.go     whether a program listens where nobody attacks it
//	figures.go   what is printed
//
// A listener that nobody attacks fails a test over the chart, and every run. Attacks on the xDS endpoint by pods with tokens
// of their own, request by request, are in package hostile.
package listeners
