// Package manager is the controller manager: all controllers, the webhook that injects sidecars, and the
// publisher of the routing log, in one process that can have several replicas.
//
//	ParseSettings  flags and environment              settings.go
//	New, Run       all parts of the process           manager.go
//	Controllers    only the controllers, for tests    controllers.go
//	logMetrics     metrics of the routing log         metrics.go
//
// # One leader
//
// The webhook serves on every replica. Controllers and publisher run on the replica that holds the lease
// 42470b05.signadot.com; the others keep their caches warm, so that a change of leader takes no longer
// than the lease. A leader that cannot renew its lease exits (Run returns an error) and restarts as a
// follower. Late writes of a previous leader are fenced: the log compares the sequence that the writer has
// seen, and objects are written by UID. Every replica logs the name of the leading pod (leader.go).
//
// # The routing log
//
// It is written by eventbus/publisher, on the leader. --history-events and --history-age bound its
// history. The ConfigMap publish.EpochConfigMap records its position, at most a second behind and exact
// after a planned exit, with the reason for the end of the last epoch; the metrics
// switchyard_routing_log_* have the same values.
//
// # Requests to route servers
//
// The leader asks route servers whether every proxy has a routing key (reconcilers/receipt), over plain
// gRPC: --routeserver-address. With --wait-for-proxies=false it does not, and Ready does not wait. The
// metrics switchyard_receipt_seconds and switchyard_receipt_awaited have the duration, and the number of
// keys for which a proxy is behind.
//
// # Requests to the API server
//
// There is one list and watch for each kind: the operator's own, Deployments, Services and pods. Pods are
// reduced to the fields that show their sidecars. Everything else is read on demand, past the cache.
package manager
