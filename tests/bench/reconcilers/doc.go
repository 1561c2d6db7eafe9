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
// There is no kube-controller-manager and there are no nodes. What these would write
// is written by this process, the same writes in the same order as a Deployment, its
// ReplicaSet and a kubelet make them (package busy): the real ones would compute on the
// same processors, ReplicaSets and Endpoints that the manager never looks at, and
// without a node no pod would ever start. Nobody waits for proxies: the sidecars of
// the pods are only said to be there. Ready then comes from the log alone, so what a
// receipt costs is not in the figures.
//
// # What there is
//
// Objects of the kinds that the manager watches, 10,000 of them: sandboxes with one,
// two or three forks (and what the manager makes for them), the workloads that they
// fork, with Services and pods that have a sidecar, and workloads of others in the
// same namespaces, which nobody forks. Objects have the size that they have in
// practice.
//
// # What a change is
//
// A write of anybody but the manager to an object of a kind that it watches. Users
// and their tools begin (Mix in package busy): a sandbox gets another image, comes
// or goes, a workload is rolled out, scaled, restarted, annotated, a Service gets a
// port. What follows from that (a Deployment's status, pods that go and come) are
// changes as well, and become due some time after the one before. What is due is made
// first, and what is left of so many changes a second is begun by users. So how much
// of each kind there is follows from the mix and from how workloads are rolled out.
//
// Which kind costs what is measured in the end: a few changes of each kind alone, and
// beside it the least number of writes that bring into line what follows from them. So
// what is more than that can be seen.
//
// # When all agree
//
// Every sandbox that was asked for says that it is ready, about its newest
// generation; its forks run what the sandbox and the newest form of their baselines
// ask for; there is a Service for each of the baseline's; the routing table, folded
// from the log, has exactly these forks, ready, at the addresses of these Services;
// and nothing is left of those that were deleted (Agree). It is measured from the
// last change, and from the last that a user makes: in that is the time in which
// workloads roll out, four pods one after the other in four seconds at least, and what
// the machine takes for these writes.
package main
