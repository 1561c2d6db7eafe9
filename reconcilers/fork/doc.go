// Package fork makes a fork out of a baseline: the clone of a Deployment or an Argo
// Rollout with the patches of a sandbox applied, and one Service for each Service of the
// baseline. It is pure: values in, values out.
//
//	Clone       the fork, or what is wrong with what was asked for   clone.go
//	            what one kind does in its own way                    kind.go, deployment.go, rollout.go
//	            patches, and who may do what by them                 patch.go, guard.go
//	            containers that a patch misspells or adds            misspelt.go, inherit.go
//	            what is the fork's own, and who may not know it      finish.go, labels.go, ports.go
//	            what is left to whoever else sets it in the fork     open.go
//	WithNotesOf what is noted on the baseline, and no change of it   notes.go
//	Writable    the fork as server-side apply takes it               writable.go
//	Services    the Services beside the baseline's                   service.go
//
// What a pod may do more than another is in package power, the variables of patches are in
// package variables.
//
// # The clone
//
// A patch sees the baseline as kubectl get shows it, without status and
// without what the API server keeps for itself, with one replica, and not
// paused. Patches are applied in order; without any, or with one that sets no form, the
// fork is a copy. What the result says is kept, except:
//
//   - identity: name, owner, selector and the labels that say whose fork it is
//     are ours, and a patch that changes name, namespace, kind or selector is
//     refused;
//   - labels of the baseline are removed from the clone and its pods, so that
//     no Service of the baseline selects them; PreservedLabels and labels that
//     a patch adds or changes stay. A clone that a Service, a PodDisruptionBudget
//     or the workload of the baseline would still select is refused. Autoscalers name a workload,
//     and count the pods that its selector selects, so that none of the baseline's knows the fork;
//   - the number of replicas is left open where no patch gives one;
//   - annotations of the baseline stay, but for those that are not true of a clone, such as
//     when it was last restarted. Those that change later are there with the next change of
//     something else (WithNotesOf);
//   - the request for a DevMesh sidecar is removed: only baselines get one;
//   - every container, also those that only run at the start, gets
//     SIGNADOT_SANDBOX_NAME and SIGNADOT_SANDBOX_ROUTING_KEY: those that migrate or
//     keep a connection for the main one have to know for whom as well.
//
// The rest of the pod's spec is not touched.
//
// # Rollouts
//
// Of a Rollout only the pod template and a few fields are known; the others are carried along
// as they are, in a strategic patch as well, which merges objects and replaces lists there. Its
// strategy is replaced: a canary without steps goes up at once and has no part in the
// Services, the traffic and the analyses of the baseline. A patch may set maxSurge and
// maxUnavailable of it and is refused when it wants more. A Rollout that takes its pods from
// a Deployment (workloadRef) is forked with that template inside of it.
//
// # Power
//
// Patches are applied with rights that their author may not have. So what comes out of
// all of them must not have more power over nodes and accounts than the baseline has,
// unless Plan.Powers names it: host namespaces, privileges, another service account,
// directories of the node and the like (package power). What the baseline has stays.
//
// # Containers that a patch adds
//
// A container that a patch adds inherits what confines every container of the baseline
// alike, as if the pod said it: no escalation of privileges, dropped capabilities, user,
// group, no root, and profiles. Only fields that the patch leaves open are set, and the
// result has to pass the check of power like any other. What Plan.Powers lets it leave out
// is not inherited, and no user where something else keeps it from being root.
//
// Reading Secrets, ConfigMaps and claims that the baseline does not use is a power only where
// the author was not asked about (Plan.AuthorAsked); WishesOf says what patches read, for
// who asks. A fork that runs (Plan.Running) goes on with the powers that came to be called
// so after it was made.
//
// A strategic patch finds containers by name, so one that names a container that is not
// there may be a slip of the pen. Where the name is nearly that of a container that is
// there, it is refused with a question, also when it has an image: the fork would run the
// old image in the container that was meant. Names that differ in digits or in a whole
// word, such as worker and worker2, are no slips. A container that has no image, in
// whatever form of patch, cannot be new.
//
// # What can be wrong
//
// Everything that can be wrong here is the input of a person, so it is given
// back as a Problem, a reason for programs and a message that says what to
// change, and never as an error: trying again would not help. A message names fields, and
// does not quote what stands in a patch (redact.go).
package fork
