// Package inbound leads connections of the cluster to workstations: for each external workload
// that one holds, each port of its baseline has a port of this pod, and who connects to that is
// led through the tunnel.
//
// A Holder is one connection of a workstation's session, whichever protocol it speaks. Of two
// of the same user that hold the same workload the later one has it; another user's has it once
// it takes it explicitly, or the tunnel is free (take.go). The former holder is notified, and keeps
// the connections that it has. When a workstation is lost the ports stay open for a grace, and
// connections to them are refused at once, so that nobody else's port gets the number while
// requests are still led there. For the same reason nobody else gets that of a port that was
// closed, for as long, nor that of a process which was killed; its tunnels get them again.
// A source, such as a pod, that has many connections to one workload loses those that are idle
// longest to its new ones, so that it leaves room to others.
//
// A tunnel that its own session has moved away from a proxy that ends goes on there until that
// session is over.
package inbound
