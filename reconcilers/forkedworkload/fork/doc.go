// Package fork makes a fork out of a baseline: the clone of its Deployment with
// the patches of a sandbox applied, and one Service for each Service of the
// baseline. It is pure: values in, values out.
//
// # The clone
//
// A patch sees the baseline as kubectl get shows it, without status and
// without what the API server keeps for itself, with one replica, and not
// paused. Patches are applied in order. What the result says is kept, except:
//
//   - identity: name, owner, selector and the labels that say whose fork it is
//     are ours, and a patch that changes name, namespace, kind or selector is
//     refused;
//   - labels of the baseline are removed from the clone and its pods, so that
//     no Service of the baseline selects them; PreservedLabels and labels that
//     a patch adds or changes stay. A clone that a Service or the Deployment of
//     the baseline would still select is refused;
//   - the request for a DevMesh sidecar is removed: only baselines get one;
//   - every container gets SIGNADOT_SANDBOX_NAME and
//     SIGNADOT_SANDBOX_ROUTING_KEY.
//
// The rest of the pod's spec is not touched.
//
// # What can be wrong
//
// Everything that can be wrong here is the input of a person, so it is given
// back as a Problem, a reason for programs and a message that says what to
// change, and never as an error: trying again would not help.
package fork
