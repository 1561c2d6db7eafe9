// Package fork renders the fork of a baseline: the clone of a Deployment or an Argo Rollout with the
// patches of a sandbox applied, and one Service for each Service of the baseline. It is pure: values in,
// values out.
//
//	Clone       the fork, or a Problem with the request              clone.go
//	            what differs between kinds                           kind.go, deployment.go, rollout.go
//	            patches, and the powers that they add                patch.go, guard.go
//	            containers that a patch misspells or adds            misspelt.go, inherit.go
//	            fields that the fork sets or removes                 finish.go, labels.go, ports.go
//	            fields that are left to other field managers         open.go
//	WithNotesOf annotations copied from the baseline                 notes.go
//	Writable    the fork in the form for server-side apply           writable.go
//	Services    the Services beside the baseline's                   service.go
//
// Package power compares the power of pods; package variables expands the variables of patches; package traffic adds the
// container that records requests.
//
// # The clone
//
// A patch sees the baseline as kubectl get shows it, without status and without the fields that the API
// server sets, with one replica, and not paused. Patches are applied in order. Without patches, or with
// one that sets no form of patch, the fork is a copy. The result is kept as it is, except:
//
//   - identity: name, owner, selector and the labels that identify the fork are set by the
//     operator; a patch that changes name, namespace, kind or selector is refused;
//   - labels of the baseline are removed from the clone and its pods, so that
//     no Service of the baseline selects them; PreservedLabels and labels that
//     a patch adds or changes stay. A clone that a Service, a PodDisruptionBudget
//     or the workload of the baseline would still select is refused. Autoscalers reference a
//     workload and count the pods that its selector matches, so an autoscaler of the baseline
//     does not affect the fork;
//   - the number of replicas is left open unless a patch sets it;
//   - annotations of the baseline stay, except those that do not hold for a clone, such as
//     the time of the last restart. Later changes of annotations are copied together with the
//     next change of another field (WithNotesOf);
//   - the request for a DevMesh sidecar is removed: only baselines get one;
//   - every container, including init containers, gets SIGNADOT_SANDBOX_NAME and
//     SIGNADOT_SANDBOX_ROUTING_KEY: init containers and sidecars that run migrations or keep
//     connections for the main container need them too.
//
// The rest of the pod spec is not changed.
//
// # Rollouts
//
// The operator knows the pod template and a few fields of a Rollout; it copies the other fields unchanged.
// A strategic merge patch merges objects and replaces lists there. The strategy is replaced: a canary
// without steps is promoted at once and takes no part in the Services, the traffic and the analyses of the
// baseline. A patch can set its maxSurge and maxUnavailable; any other change of the strategy is refused.
// A Rollout that takes its pod template from a Deployment (workloadRef) is forked with that template
// inlined.
//
// # Power
//
// The operator applies patches with permissions that their author might not have. The result must
// therefore not have more power over nodes and service accounts than the baseline, unless Plan.Powers
// allows it: host namespaces, privileges, another service account, directories of the node and the like
// (package power). Powers of the baseline are kept.
//
// # Containers that a patch adds
//
// A container that a patch adds inherits the restrictions that all containers of the baseline share, as if
// they were set on the pod: no privilege escalation, dropped capabilities, user, group, runAsNonRoot, and
// profiles. Only fields that the patch leaves unset are filled in, and the result has to pass the check of
// power like any other. Restrictions that Plan.Powers lets the container drop are not inherited, nor is a
// user if another field keeps it from being root.
//
// Reading Secrets, ConfigMaps and claims that the baseline does not use is a power unless the permissions
// of the author were checked (Plan.AuthorAsked); WishesOf returns what patches read, for that check. A
// running fork (Plan.Running) keeps powers that a later version of the operator started to check.
//
// A strategic merge patch matches containers by name, so a name that no container has can be a typo. If
// the name is close to that of an existing container, the patch is refused with a question, even if it
// sets an image: otherwise the intended container would keep its old image. Names that differ in digits or
// in a whole word, such as worker and worker2, are not typos. A container without an image cannot be new,
// whatever the form of the patch.
//
// # Errors
//
// Every failure here is caused by user input. It is returned as a Problem, with a reason for programs and
// a message that describes the remedy, and never as an error, because a retry would not help. A message
// names fields and does not quote values of a patch (redact.go).
package fork
