package coverage

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/sidecars/redirect/spec"
)

// Subject is the input for one workload.
type Subject struct {
	// Workload identifies it.
	Workload inject.Workload
	// Asks reports whether its pod template, or its namespace, asks for sidecars.
	Asks bool
	// Pods are those that count.
	Pods []Pod
	// Ports are the TCP ports of the workload that requests are routed to, as far as that is
	// known.
	Ports []uint16
	// Unrouted is true when no request needs a sidecar in its pods: no Service targets the
	// workload, or a mesh routes its requests.
	Unrouted bool
	// Refused are the API server's words when it refuses new pods of the workload; empty when it
	// accepts them, or that is not known.
	Refused string
}

// Report is the coverage of one workload.
type Report struct {
	// Workload identifies it.
	Workload inject.Workload
	// Asks reports whether it asks for sidecars.
	Asks bool
	// Unrouted and Refused are those of the Subject.
	Unrouted bool
	Refused  string
	// Pods are the names of its pods in each state, sorted.
	Pods map[State][]string
	// Total is how many pods it has.
	Total int
	// Refusals are the pods that were refused a sidecar, by the reason.
	Refusals map[string][]string
	// Differ are the settings in which each outdated pod, by name, differs from what
	// is injected now, as people call them.
	Differ map[string][]string
	// Pending are the pods that are not ready because the sidecar has not started, sorted.
	Pending []string
	// Beside are the pods that have the proxy of another product beside their sidecar, sorted, by
	// the container of that proxy.
	Beside map[string][]string
	// Ports is how many ports requests are routed to, and Unread are those of them that some
	// sidecar does not read.
	Ports  int
	Unread []Unread
	// SettingsKnown and ConnectionsKnown are true if it is known which pods are outdated, and
	// which are behind.
	SettingsKnown, ConnectionsKnown bool
}

// Of returns the Report of one workload. now are the settings that new pods get from their
// injection; empty fields are not known.
func Of(s Subject, now inject.Settings, connected Connected) Report {
	r := Report{
		Workload: s.Workload, Asks: s.Asks, Unrouted: s.Unrouted, Refused: s.Refused, Total: len(s.Pods),
		Pods: map[State][]string{}, Refusals: map[string][]string{}, Differ: map[string][]string{}, Beside: map[string][]string{},
		SettingsKnown: now.Sidecar != "" && now.Redirect != "", ConnectionsKnown: connected != nil,
		Unread: unread(s.Ports, s.Pods), Ports: len(spec.Normalize(slices.Clone(s.Ports))),
	}
	for _, p := range s.Pods {
		state := stateOf(p, now, connected)
		if state == Missing && s.Unrouted {
			state = NotNeeded
		}
		r.Pods[state] = append(r.Pods[state], p.Name)
		if state == Outdated {
			r.Differ[p.Name] = p.Injected.Outdated(now)
		}
		if p.Beside != "" {
			r.Beside[p.Beside] = append(r.Beside[p.Beside], p.Name)
		}
		if state == NotReady && p.Pending {
			r.Pending = append(r.Pending, p.Name)
		}
		if state == Missing && p.Processed != "" && p.Processed != inject.Injected {
			r.Refusals[p.Processed] = append(r.Refusals[p.Processed], p.Name)
		}
	}
	slices.Sort(r.Pending)
	for _, names := range r.Pods {
		slices.Sort(names)
	}
	for _, of := range []map[string][]string{r.Refusals, r.Beside} {
		for _, names := range of {
			slices.Sort(names)
		}
	}
	return r
}

// Reports returns the Reports of the relevant workloads, sorted. known contains the workloads
// that ask for sidecars or have a fork, and whether they ask; pods are all pods, of which only
// those that count are used. needs reports whether requests to a workload that has these pods
// need sidecars (not Unrouted); without it those to every workload do. refused has the API
// server's message for each workload of which it refuses new pods.
func Reports(known map[inject.Workload]bool, pods iter.Seq[*corev1.Pod], now inject.Settings, connected Connected,
	needs func(w inject.Workload, pods []*corev1.Pod) bool, refused map[inject.Workload]string,
) []Report {
	subjects, counted := map[inject.Workload]*Subject{}, map[inject.Workload][]*corev1.Pod{}
	for w, asks := range known {
		subjects[w] = &Subject{Workload: w, Asks: asks}
	}
	concerned := map[inject.Workload]bool{}
	for pod := range pods {
		w, why := inject.OwnerOf(pod, pod.Namespace)
		if why != "" || !Counts(pod) {
			continue
		}
		if subjects[w] == nil {
			subjects[w] = &Subject{Workload: w}
		}
		p := PodOf(pod)
		subjects[w].Pods = append(subjects[w].Pods, p)
		counted[w] = append(counted[w], pod)
		concerned[w] = concerned[w] || p.Present || p.Processed != ""
	}
	var reports []Report
	for w, s := range subjects {
		if _, is := known[w]; is || concerned[w] {
			s.Unrouted, s.Refused = needs != nil && !needs(w, counted[w]), refused[w]
			reports = append(reports, Of(*s, now, connected))
		}
	}
	slices.SortFunc(reports, func(a, b Report) int {
		return cmp.Or(strings.Compare(a.Workload.Namespace, b.Workload.Namespace),
			strings.Compare(a.Workload.Name, b.Workload.Name), strings.Compare(a.Workload.Kind, b.Workload.Kind))
	})
	return reports
}

// Count is how many pods are in a state.
func (r Report) Count(s State) int { return len(r.Pods[s]) }

// Counts returns how many pods are in each state that has some, as "3 pods: 2 ok,
// 1 missing".
func (r Report) Counts() string {
	word := "pods"
	if r.Total == 1 {
		word = "pod"
	}
	var parts []string
	for _, s := range States() {
		if n := r.Count(s); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(s), "_", " ")))
		}
	}
	if len(parts) == 0 {
		return "no pods"
	}
	return fmt.Sprintf("%d %s: %s", r.Total, word, strings.Join(parts, ", "))
}

// Full reports whether every pod that needs a sidecar has a ready and current one, as far
// as that is known, with no other proxy beside it, and new pods are accepted. A workload that
// neither asks for sidecars nor has any is not full, unless it needs none.
func (r Report) Full() bool {
	return r.Count(OK)+r.Count(NotNeeded) == r.Total && len(r.Beside) == 0 && (r.Total > 0 || r.Asks || r.Unrouted) && r.NewPodsRefused() == ""
}

// Unwanted reports whether sidecars are needed, but not asked for, and no pod has one.
func (r Report) Unwanted() bool {
	return !r.Asks && !r.Unrouted && r.Count(Missing) == r.Total && len(r.Refusals) == 0
}

// Restart returns the command that restarts all pods.
func (r Report) Restart() string {
	w := r.Workload
	if w.Kind == "ArgoRollout" {
		return fmt.Sprintf("kubectl argo rollouts restart %s -n %s", w.Name, w.Namespace)
	}
	return fmt.Sprintf("kubectl rollout restart -n %s deployment/%s", w.Namespace, w.Name)
}

// ToDo returns the problems and their remedies, as sentences; none when the workload is
// covered.
func (r Report) ToDo() []string {
	if r.Unwanted() {
		return []string{fmt.Sprintf("it does not ask for sidecars: annotate its pod template with %s: \"true\"", crdv1.AnnotationInject)}
	}
	todo := r.absent()
	if len(r.Pending) > 0 {
		todo = append(todo, fmt.Sprintf("the sidecar has not started in %s, which is Pending: kubectl describe pod -n %s %s",
			Some(r.Pending), r.Workload.Namespace, r.Pending[0]))
	}
	if names := without(r.Pods[NotReady], r.Pending); len(names) > 0 {
		todo = append(todo, fmt.Sprintf("the sidecar is not ready in %s: kubectl logs -n %s %s -c %s",
			Some(names), r.Workload.Namespace, names[0], devmesh.ContainerName))
	}
	if names := r.Pods[Outdated]; len(names) > 0 {
		outdated := fmt.Sprintf("the sidecar is OUTDATED in %s (%s)", Some(names), r.Differing())
		if r.NewPodsRefused() == "" {
			outdated += ": " + r.Restart()
		}
		todo = append(todo, outdated)
	}
	if names := r.Pods[Behind]; len(names) > 0 {
		todo = append(todo, fmt.Sprintf("the sidecar is not connected to a route server, or has not acknowledged its rules, in %s: see switchyard sidecars, and kubectl logs -n %s %s -c %s",
			Some(names), r.Workload.Namespace, names[0], devmesh.ContainerName))
	}
	return append(todo, r.Conflicts()...)
}

// absent returns why pods have no sidecar and what to do about it. Where new pods are refused it
// advises no restart, which cannot work.
func (r Report) absent() (todo []string) {
	refused, restart := r.NewPodsRefused(), false
	if refused != "" {
		todo = append(todo, refused)
	}
	for _, why := range slices.Sorted(maps.Keys(r.Refusals)) {
		// A changed annotation of the pod template restarts the pods.
		restart = restart || !strings.HasPrefix(why, "annotation ")
		todo = append(todo, fmt.Sprintf("%s got no sidecar: %s", Some(r.Refusals[why]), why))
	}
	switch missing := r.Unexplained(); {
	case len(missing) > 0 && refused != "":
		todo = append(todo, Some(missing)+" started without a sidecar; new pods replace them once they are accepted")
	case len(missing) > 0:
		todo = append(todo, fmt.Sprintf("%s started before a sidecar was asked for, or while the operator was away: %s",
			Some(missing), r.Restart()))
	case restart && refused == "":
		todo = append(todo, "once that is mended: "+r.Restart())
	}
	return todo
}

// Conflicts returns, for each proxy of another product that pods have beside their sidecar, which
// pods these are and what to change.
func (r Report) Conflicts() []string {
	var out []string
	for _, container := range slices.Sorted(maps.Keys(r.Beside)) {
		proxy, _ := inject.ProxyOf(container)
		out = append(out, fmt.Sprintf("the sidecar shares its pod with %s, the proxy of %s, in %s, which is not supported, and new pods get no sidecar: %s",
			container, proxy.Product, Some(r.Beside[container]), proxy.Remedy))
	}
	return out
}

// Differing returns a phrase with the settings in which some outdated pod differs from those
// of new pods (inject.Differences).
func (r Report) Differing() string {
	names := slices.Concat(slices.Collect(maps.Values(r.Differ))...)
	return inject.Differences(lists.Unique(names))
}

// Unexplained are the pods without a sidecar and without a reason.
func (r Report) Unexplained() []string {
	return without(r.Pods[Missing], slices.Concat(slices.Collect(maps.Values(r.Refusals))...))
}

// without returns the names that are not among the others.
func without(all, others []string) []string {
	not := lists.Set(others)
	return slices.DeleteFunc(slices.Clone(all), func(n string) bool { return not[n] })
}

// shown is how many pods a sentence names.
const shown = 3

// Some lists the first few of sorted names.
func Some(names []string) string {
	if len(names) > shown {
		return strings.Join(names[:shown], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
