// Command reconcilers measures the controllers of the manager in a cluster that does
// not stand still: how soon everything agrees again after changes, how much memory
// that takes, and how many writes. It prints one line for each number: its name, its
// value, its unit, and whether it meets its target. It never fails on a number:
// machines differ, and the reader judges. It fails when the cluster never comes to
// agree.
//
// # What runs
//
// The API server and etcd are real, and so is the event bus, which has every fact on
// disk. The manager is a process of its own (this program again) with the settings
// that the chart gives it; its memory and processor time are those of that process.
// All of them, and this process, share the machine. What the manager asks of the API
// server is counted where it leaves the manager (counting.go), every attempt of it.
//
// There is no kube-controller-manager and there are no nodes. Their writes are made by this
// process, the same writes in the same order as a Deployment, its ReplicaSet and a kubelet make
// them (package busy): the real ones would use the same processors for ReplicaSets and Endpoints
// that the manager never reads, and without a node no pod would ever start. Nothing waits for
// proxies: the status of the pods only reports sidecars as ready. Ready then comes from the log
// alone, so the cost of a receipt is not in the figures.
//
// # What there is
//
// Objects of the kinds that the manager watches, 10,000 of them: sandboxes with one, two or three
// forks (and the objects that the manager makes for them), the workloads that they fork, with
// Services and pods that have a sidecar, and workloads of others in the same namespaces, which
// are not forked. Objects have the size that they have in practice.
//
// # Changes
//
// A change is a write of another client than the manager to an object of a kind that it watches.
// Users and their tools begin (Mix in package busy): a sandbox gets another image, is created or
// deleted, a workload is rolled out, scaled, restarted, annotated, a Service gets a port. The
// consequences (a Deployment's status, pods that come and go) are changes as well, and become due
// some time after the one before. Due changes are made first, and the remaining changes of each
// second are begun by users. So the number of changes of each kind follows from the mix and from
// how workloads are rolled out.
//
// The cost of each kind is measured at the end: a few changes of each kind alone, and beside it
// the least number of writes that are needed to reconcile them, so that the excess can be seen.
//
// # Agreement
//
// All agree when every sandbox is ready in its newest generation; its forks run the images that
// the sandbox and the newest form of their baselines have; there is a Service for each of the
// baseline's; the routing table, folded from the log, has exactly these forks, ready, at the
// addresses of these Services; and nothing is left of those that were deleted (Agree). The time
// is measured from the last change, and from the last that a user makes: the latter includes the
// time in which workloads roll out, four pods one after the other in four seconds at least, and
// the time of the machine for these writes.
package main
