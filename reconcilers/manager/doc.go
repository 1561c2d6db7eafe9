// Package manager is the controller manager: all controllers, the webhook that
// injects sidecars, and the publisher that keeps the routing log whole, in one
// process that may run several times.
//
//	ParseSettings  flags and environment              settings.go
//	ReadCluster    the operator's configuration file  clusterconfig.go
//	New, Run       the parts, put together            manager.go
//	Controllers    the controllers alone, for tests   controllers.go
//	logMetrics     how the routing log fares          metrics.go
//
// # One leader
//
// The webhook serves on every replica. Controllers and publisher run on the one
// that holds the lease 42470b05.signadot.com; the others keep their caches
// warm, so that a change of leader takes as long as the lease and no longer. A
// leader that cannot renew its lease ends its process (Run gives an error) and
// comes back as one of the others. What a former leader may still be writing is
// fenced: the log compares with what the writer has seen, and objects are
// written by UID. Every replica logs which pod leads (leader.go).
//
// # The routing log
//
// Its writer is eventbus/publisher, on the leader. --history-events and
// --history-age bound what it keeps. What it has reached is kept in ConfigMap
// publish.EpochConfigMap, at most a second behind and exactly at a planned end,
// with why the last epoch ended; metrics switchyard_routing_log_* tell the same.
//
// # What route servers are asked
//
// Whether every proxy knows a routing key, by the leader (reconcilers/receipt), over
// plain gRPC: --routeserver-address. With --wait-for-proxies=false nobody is asked,
// and Ready does not wait. The metrics switchyard_receipt_seconds and
// switchyard_receipt_awaited tell how long that takes, and for how many keys some
// proxy is behind.
//
// # What Kubernetes is asked
//
// One list and watch for each kind: the operator's own, Deployments, Services
// and pods. Of pods only what tells whether they have a sidecar is kept in
// memory. Everything else is read when it is needed, past the cache.
package manager
