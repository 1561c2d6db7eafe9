// Package forkedworkload brings the fork of one workload into being: a clone of
// the baseline with patches applied, and one Service for each Service of the
// baseline.
//
//	gather    everything that counts, from the cache                    gather.go
//	Decide    which workload and Services there should be, or why not   decide.go   pure
//	act       write what is not so already                              act.go
//	Conclude  what is true now: the fact for the log, and the status    decide_conclude.go  pure
//	Finish    state the fact, delete what it does not name, write both  ../member/lifecycle.go
//	held      what a fork waits for before it starts                    waiting.go  pure
//	progress  how far the workload of the fork is, whatever its kind    progress.go  pure
//	trouble   why a pod of the fork does not start                      fork/trouble pure
//
// How a baseline becomes a fork is in the package fork.
//
// # The fact
//
// As soon as the Services exist, WorkloadObserved is put on the routing log,
// whether the fork's pods are ready or not. That also holds when the patches do
// not apply: then the Services have no pods behind them, and requests with the
// key fail visibly instead of being served by the baseline. So do those to a
// Service that was refused, or to a port that only the baseline has: both are
// stated. When an object
// is gone, WorkloadWithdrawn is on the log before anything of it is removed, and
// what a former one of its name has left goes before anything is made: see
// member.Lifecycle.
//
// # Sidecars
//
// SidecarsReady says whether every pod of the baseline has a ready sidecar, and
// whether that reads a port that the baseline's Services lead to: a key in what it
// does not read leads nowhere. Which ports those are is what the containers of the
// pods were told; why they are, what the pod template says. As long as one port is
// read the condition is true, and names those that are not.
//
// # A fork that waits
//
// While the annotation signadot.com/waits-for is on a ForkedWorkload and not empty, its fork
// is neither started nor changed, and all else is done: the Services are made and the fact is
// stated, so that requests with the key fail visibly. Ready is False for WaitsFor, and so is
// ForkAvailable as long as there is no fork. A fork that runs already is left as it is and
// told of truly; the Services go by its ports then, and by what the patches say so far when
// there is none. One that is as it is wanted waits for nothing.
//
// # Why a fork is not available
//
// ForkAvailable says it with a reason of its own, as far as anybody knows: what the API
// server refuses (PodsRefused), what the pods wait for (Unschedulable, ImagePullBackOff,
// CreateContainerConfigError; CrashLoopBackOff once a container has ended twice), what else
// the controller of the workload says (ForkFailed), or how many pods are ready (ForkProgressing). What a pod
// goes through again and again is one trouble and not two, so that a fork that cannot
// start costs a write when that begins and when it changes, and nothing at each turn.
// A volume that cannot be mounted is told only by events of the pod.
//
// # Rollouts
//
// A baseline may be an Argo Rollout while the cluster has that kind (package
// optional); its fork is one as well. The observedGeneration of a Rollout is a
// text, and without its controller nobody writes it: the condition says so then.
//
// # When things change
//
// The fork follows its baseline: Deployments, Rollouts, Services, PodDisruptionBudgets
// and the pods of baselines are watched, and an event leads by indexes to those
// ForkedWorkloads alone that it is about.
// What people, autoscalers and controllers set on a fork with kubectl restart, scale, pause
// and apply does not end that: decision record 0021 says which fields are theirs. A fork
// that is paused while it should change is not available for ForkPaused, one that is
// scaled to 0 for ScaledToZero, each with the command that ends it.
// When a patch stops to apply, the fork keeps running as it was, and the
// condition Accepted says so. When the baseline goes, the fork and its routing
// stay until the ForkedWorkload goes.
//
// Names say nothing: what belongs to a ForkedWorkload is what has its UID as
// controller. An object with the wanted name and another owner, or one that was restored from a
// backup and differs, is left alone; the condition is NameTaken and names all of them.
package forkedworkload
