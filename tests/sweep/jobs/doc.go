// Package jobs verifies that a Job runs at most once in an execution, and that its status is true,
// whichever process is killed: on a real API server and etcd, with the controllers of the real manager, a control plane
// and its agent as processes, and real processes job-executor and job-executor-proxy for each pod that the manager
// creates. Scripts append lines to a file, the ledger, which no part under test reads.
//
//	node    acts as the kubelet of runner pods, and kills their parts            node_test.go
//	judge   compares the ledger with the statuses                                judge.go    pure
//	sweep   submits jobs, and kills something in the meantime                    sweep_test.go
//	scene   submits jobs and reads their statuses                                scene_test.go, plane_test.go, kills_test.go
//	plant   a manager with faults, which the judge has to report                 plant_test.go
//	evict   evicts all pods at the same moment                                   evict_test.go
//	node    runs jobs on the one-node cluster                                    cluster_test.go, nodeserver_test.go
//
// # Kills
//
// The manager is killed, and another one starts; it reaches nothing from then on. A job-executor-proxy or a
// job-executor is killed, with all that it has started, and the node starts it again. A pod is killed: its
// processes end, and it is deleted at once. A pod is evicted: its processes have the grace period. The agent, the
// control plane and the API server are killed, and start again; etcd stays.
//
// # Checks
//
// A job that succeeded has done its work in the ledger, once. A failed job has the exit code of its
// script. A job is lost only if its pod or its executor was killed or evicted. A script has not begun more often
// than the status counts executions. A control plane shows the outcome and the executions of the status. At the end no
// object of the operator, no row of the control plane and no process is left.
//
// The short form is a test; the long ones are `make sweep-jobs` and `make sweep-jobs-node`.
package jobs
