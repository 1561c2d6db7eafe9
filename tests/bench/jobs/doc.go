// Package jobs measures the cost of jobs on pods that are ready: their waiting time, the writes for them, and how
// fast their output is. `make bench-jobs` runs it and prints the figures at its end.
//
// # What runs
//
// The API server and etcd are real, and so are the manager, in this process, and the processes job-executor and
// job-executor-proxy of each pod. There is no node: package tests/sweep/jobs acts as the kubelet, and reads the
// pods once a second, as often as a kubelet probes them.
//
// # A line of output, with an idle pod
//
// A user creates a Job with the finalizer of the operator, as `switchyard job submit` does, watches it until it has a pod, gets a ticket from the manager's service, which asks the API
// server for the user's rights, and follows the output at the runner (workflows/jobexec/client). The time goes from
// just before the Job is created until this process has the first line. All connections of the user but the one to
// the runner are open before.
//
// # Jobs one after the other
//
// The pod is given as many jobs as there are at once. The pause is from the time that a script prints at its end to
// the one that the script of the next job prints at its beginning.
//
// # A thousand jobs
//
// 1,000 jobs with the script sleep 1, in a group with 20 pods that are ready: from the first creation until a watch
// has reported the end of the last. Writes are counted in the audit log of the API server, by the program that made
// them: those of the user and of the manager, except leases, count, whether they succeeded or not.
//
// # Turns
//
// One user queues 500 jobs for one pod, and another five jobs two seconds later: which start the last of these is,
// counted from when it was queued.
//
// # Output
//
// A runner without a manager. A script writes 1 GB at 100 MB/s, in even parts of 1 MiB, while a reader follows it: the
// speed is that between the times in its status. Memory is the most that executor and proxy had in memory, added.
// Disk is the most that the folders of the pod had allocated, per stream. Live logs are 1 GB that a script writes as
// fast as the pipe takes it: what the reader has received, by the time until it has all.
package jobs
