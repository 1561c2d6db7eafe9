package web

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"switchyard.dev/controlplane-link/controlplane/delivery/observed"
	"switchyard.dev/controlplane-link/controlplane/live"
	"switchyard.dev/controlplane-link/controlplane/model"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/fork/trouble"
	"switchyard.dev/routeserver/page"
	"switchyard.dev/workflows/steps"
	"switchyard.dev/xds/routingkey"
)

// starting are the reasons of a sandbox that becomes ready without a person.
var starting = map[string]bool{
	"NotAllDesiredForksReady": true, crdv1.ReasonPending: true, crdv1.ReasonWaitsFor: true, "ForkProgressing": true, "ResourcesNotReady": true, "RoutingNotReady": true, "NotAwaited": true,
}

// remedies are what to do about the reasons with messages that have no remedy.
var remedies = map[string]string{
	observed.ReasonInvalid: "Correct the specification, and apply it again.",
	"Forbidden":            "You lack a right in the cluster. Ask an administrator of the cluster for it, and apply the sandbox again.",
	"Invalid":              "Correct the field that the message names, and apply the sandbox again.",

	trouble.ReasonCrashLoop:     "Read the last log of the container (kubectl logs --previous), correct the image or its configuration, and apply the sandbox again.",
	trouble.ReasonImagePull:     "Check the name and tag of the image, and that the cluster can pull it. Then apply the sandbox again.",
	trouble.ReasonConfigError:   "Create the ConfigMap or Secret that the message names, or correct its name in the specification.",
	trouble.ReasonUnschedulable: "Free capacity in the cluster, for example by deleting unused sandboxes, or lower the resource requests.",
	"TunnelDisconnected":        "Start switchyard connect on the workstation that runs the local workload.",
	"ServicesMissing":           "Create a Service that selects the baseline.",
	"InvalidPatch":              "Correct the patch in the specification, and apply it again.",
	"PatchFailed":               "Correct the patch in the specification, and apply it again.",
	"RoutingConflict":           "Two members of this routing key change the same workload. Delete the sandbox, or the member, that is not needed.",
}

// advice returns what a person does about a sandbox that is not ready, in sentences.
func advice(d details) (out []string) {
	add := func(reason string) {
		if text := remedies[reason]; text != "" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	if d.State.Kind == "ok" || d.Deleting {
		return nil
	}
	add(d.Reason)
	for _, m := range d.Members {
		if !m.Ready {
			add(m.Reason)
		}
	}
	for _, r := range d.Resources {
		for _, s := range r.Present() {
			if s.Trouble() {
				out = append(out, fmt.Sprintf("Read the log of step %s: switchyard logs --sandbox %s --resource %s --step %s. Then run it again: switchyard resource retry %s.", s.Name, d.Name, r.Resource, s.Name, r.Name))
			}
		}
	}
	return out
}

// unless returns a message; "" if a text that is shown above it has its first line.
func unless(above, message string) string {
	if first, _, _ := strings.Cut(message, "\n"); strings.Contains(above, first) {
		return ""
	}
	return message
}

// stepState is the state of a step.
func stepState(s steps.Step) page.State {
	switch {
	case s.Trouble():
		return page.State{Kind: "bad", Text: s.Phase}
	case s.Done():
		return page.State{Kind: "ok", Text: s.Phase}
	case s.Waits() || s.Runs():
		return page.State{Kind: "wait", Text: s.Phase}
	}
	return page.State{Text: s.Phase}
}

// resourceState is the state of a resource.
func resourceState(r steps.Report) page.State {
	switch {
	case r.Reason == "":
		return page.State{Text: "Unknown"}
	case slices.ContainsFunc(r.Present(), steps.Step.Trouble):
		return page.State{Kind: "bad", Text: "Failed"}
	case r.Deleting:
		return page.State{Kind: "wait", Text: "Deleting"}
	case r.Ready:
		return page.State{Kind: "ok", Text: "Ready"}
	}
	return page.State{Kind: "wait", Text: "In progress"}
}

// memberState is the state of a member.
func memberState(m live.Member) page.State {
	if m.Reason == "" && !m.Ready {
		return page.State{Text: "Unknown"}
	}
	return stateOf(model.Status{Ready: m.Ready, Reason: m.Reason}, time.Time{})
}

// header is a command that sends a request with a routing key.
func header(key string) string { return "curl -H 'baggage: " + routingkey.Member + "=" + key + "' URL" }
