// Package forkedworkload reconciles the fork of one workload: a clone of the baseline with patches
// applied, and one Service for each Service of the baseline.
//
//	gather    all inputs, from the cache                                reconciler.go
//	Decide    the desired workload and Services, or why not             decide.go   pure
//	act       write the differences                                     act.go
//	Conclude  the resulting fact for the log, and the status            decide_conclude.go  pure
//	Finish    publish the fact, delete surplus objects, write status    ../member/lifecycle.go
//	held      what a fork waits for before it starts                    waiting.go  pure
//	progress  rollout progress of the fork, for both kinds              progress.go  pure
//	trouble   why a pod of the fork does not start                      fork/trouble pure
//
// Package fork renders a baseline as a fork.
//
// # The fact
//
// As soon as the Services exist, WorkloadObserved is published on the routing log, whether or not the
// fork's pods are ready. That includes forks with patches that do not apply: their Services have no pods,
// and requests with the key fail visibly instead of being served by the baseline. So do requests to a
// Service that was refused, or to a port that only the baseline has: the fact has both. When a
// ForkedWorkload is deleted, WorkloadWithdrawn is published before its objects are removed, and leftovers
// of a previous object of that name are removed before anything is created: see member.Lifecycle.
//
// # Sidecars
//
// The condition SidecarsReady is True if every pod of the baseline has a ready sidecar that reads a port
// targeted by the baseline's Services: a routing key in traffic that no sidecar reads has no effect. The
// ports come from the configuration of the injected containers; the reason for a missing port comes from
// the pod template. While at least one port is read, the condition is True and names the others.
//
// # A fork that waits
//
// While a ForkedWorkload has a non-empty annotation signadot.com/waits-for, its fork is neither created
// nor changed. Everything else proceeds: the Services are created and the fact is published, so that
// requests with the key fail visibly. Ready is False with reason WaitsFor, and so is ForkAvailable as long
// as there is no fork. A running fork is left unchanged and its actual state is reported; the Services use
// its ports, or those of the current patches if there is no fork. A fork that already matches the spec
// does not wait.
//
// # Why a fork is not available
//
// The reason of ForkAvailable is the most specific one known: the API server rejects pods (PodsRefused),
// pods do not start (Unschedulable, ImagePullBackOff, CreateContainerConfigError; CrashLoopBackOff once a
// container has exited twice), another failure that the workload's controller reports (ForkFailed), or the
// number of ready pods (ForkProgressing). States between which a pod alternates map to one reason, so that
// a fork that cannot start causes a write when that begins and when it changes, but not at each retry. A
// volume that cannot be mounted is not detected, because only Events of the pod report it.
//
// # Rollouts
//
// The baseline can be an Argo Rollout if the cluster has that kind (package optional); its fork is a
// Rollout as well. The observedGeneration of a Rollout is a string, and is only written by its controller:
// if that does not run, the condition reports it.
//
// # Watches
//
// The fork follows its baseline: Deployments, Rollouts, Services, PodDisruptionBudgets and the pods of
// baselines are watched, and indexes map an event to the ForkedWorkloads that it concerns. Changes that
// users, autoscalers and controllers make to a fork with kubectl rollout restart, scale, rollout pause and
// apply are compatible with that: decision record 0021 lists the fields that they own. A fork that is
// paused while its spec should change is not available with reason ForkPaused, one that is scaled to 0
// with ScaledToZero, each with the command that fixes it. If a patch no longer applies, the fork keeps
// running unchanged, and the condition Accepted reports it. If the baseline is deleted, the fork and its
// routing stay until the ForkedWorkload is deleted.
//
// Ownership does not depend on names: an object belongs to a ForkedWorkload if its controller reference
// has the ForkedWorkload's UID. An object with a wanted name and another owner, or one that was restored
// from a backup and differs, is left unchanged; the condition is NameTaken and names all of them.
package forkedworkload
