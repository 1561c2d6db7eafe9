// Package manager is a replica of traffic-manager: it gives the traffic containers of forks their captures, stores the
// exchanges that they deliver in a ring on its disk, and serves these to readers (protos/traffic/v1).
//
//	capturesOf  which captures a pod gets                              captures.go (pure)
//	cluster     TrafficCaptures and ForkedWorkloads, watched           cluster.go
//	books       reports of containers, and numbers of stored exchanges books.go, save.go
//	Attach, Deliver, Read, Counts                                      sidecars.go, readers.go
//	access      callers, and their rights                              access.go
//	Main        the listeners and their limits                         server.go, settings.go
//
// # Access
//
// A traffic container shows the token of its pod, for audience Audience. The pod has to belong to a Deployment or Rollout that a
// ForkedWorkload of its namespace names as its fork (xds/identify: by UIDs, read from the API server). It gets the captures
// of its namespace with its UID in status.pods, which the manager writes, and can deliver for these, and for a minute after that. It
// states neither its name nor its captures itself. A pod of traffic-manager calls in the same way, for members of sandboxes without
// pods of their own (package attach runs in it too): it gets the captures of all namespaces with its UID.
//
// A reader shows a ticket for one capture (package ticket), or the token of an account that can read all.
//
// # Replicas
//
// Each has a ring of its own, which is lost with its pod. A container reports counters that grow to the replica that it
// is attached to, and delivers there. Counts returns what one replica knows; record.Merge of all replicas is the identity.
//
// Record 0082 (tools/adr) has the reasons.
package manager
