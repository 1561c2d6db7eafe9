// Package inbound forwards connections of the cluster to workstations. For each external workload
// that a workstation serves, this pod listens on one port for each port of the baseline, and
// forwards connections to it through the tunnel.
//
// A Holder is one connection of a workstation's session, whichever protocol it speaks. Of two
// holders of the same user that claim the same workload the later one gets it. Another user's
// gets it when it takes it explicitly, or when the tunnel is free (take.go). The previous holder
// is notified, and keeps the connections that it has. When a workstation is lost its ports stay
// open for a grace period, and connections to them are refused at once. Otherwise another
// workload could be given a port number to which nodes still route requests of this one. For the
// same reason the number of a closed port, and that of a port of a process that was killed, is
// not given to another workload for as long; the same tunnel gets it again. A client, such as a
// pod, that has many connections to one workload loses its longest idle ones to its new ones, so
// that it leaves room for other clients.
//
// A tunnel that its own session has moved away from a draining proxy stays there until that
// session ends.
package inbound
