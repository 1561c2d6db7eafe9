package meshes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
)

// Reasons of conditions of a MeshRoute, beside those of each mesh.
const (
	// ReasonNoRoutingConfig: nobody asks for the routes on the routing log.
	ReasonNoRoutingConfig = "NoRoutingConfig"
	// ReasonNoRoutes: what leads to the Service has no route for the key.
	ReasonNoRoutes = "NoRoutes"
)

// Words are those in which a MeshRoute says what became of it.
type Words struct {
	// Kind is that of the MeshRoute.
	Kind string
	// Off is the reason while nothing acts on it, and Why says why that is and what to do.
	Off, Why string
	// One and All name what owners make that leads to a Service.
	One, All string
	// Matched is the type of the condition that there is such, and Failed the reason when it
	// cannot get its routes.
	Matched, Failed string
	// There is the status of a Match that has them.
	There string
}

// Match is something of an owner's that leads to the Service.
type Match struct{ Kind, Name, Status, Message string }

// MostListed is how many matches a status lists. Conditions are about all.
const MostListed = 32

// mostNamed is how many matches a message names.
const mostNamed = 3

// Conditions returns what a MeshRoute is to say, in these words. known is nil where nobody routes
// by it, and of gives each match in words. Where there is nothing to say it returns nil: the
// MeshRoute is being deleted, another program writes its status, or what the process before this
// one has found stays until this one knows more. stands reports whether the matches are for the
// status too.
func Conditions[M any](w Words, o crdv1.MeshRoute, known *Report[M], of func(M) Match) (all condition.Set, stands bool) {
	switch {
	case o.GetDeletionTimestamp() != nil || known == nil && othersWriteStatus(o),
		known != nil && known.Starting && known.Trouble == nil && o.Observed() == o.GetGeneration():
		return nil, false
	case known == nil:
		return Every(o, condition.Unknown(w.Off, fmt.Sprintf("Nothing acts on %s %s: %s", w.Kind, o.GetName(), w.Why))), false
	case !MadeByRoutingConfig(o):
		return Every(o, condition.False(ReasonNoRoutingConfig, fmt.Sprintf(
			"%s %s changes nothing, since no RoutingConfig has made it. Make a SignadotSandbox or a RoutingConfig for routing key %q.", w.Kind, o.GetName(), o.Asked().RoutingKey))), false
	}
	r := Report[Match]{Looked: known.Looked && leadsAsAsked(known.Mappings, o), Trouble: known.Trouble, Lost: known.Lost, Notes: known.Notes}
	for _, m := range known.Matches {
		r.Matches = append(r.Matches, of(m))
	}
	all = condition.Set{
		crdv1.ConditionAccepted:      condition.True("Accepted", "RoutingConfig "+metav1.GetControllerOfNoCopy(o).Name+" asks for it."),
		w.Matched:                    w.matched(o, r),
		crdv1.ConditionRoutesApplied: w.applied(o, r),
	}
	all[crdv1.ConditionReady] = all.Ready(all[crdv1.ConditionRoutesApplied].Message, crdv1.ConditionAccepted, w.Matched, crdv1.ConditionRoutesApplied)
	return all, true
}

// Every returns all conditions of a MeshRoute, each as given.
func Every(o crdv1.MeshRoute, c condition.Condition) condition.Set {
	all := condition.Set{}
	for _, t := range o.ConditionTypes() {
		all[t] = c
	}
	return all
}

// othersWriteStatus reports whether a program other than this one has written to the status.
func othersWriteStatus(o crdv1.MeshRoute) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource == "status" && e.Manager != crdv1.FieldManager
	})
}

// MadeByRoutingConfig reports whether a RoutingConfig is the controller of the object.
func MadeByRoutingConfig(o crdv1.MeshRoute) bool {
	ref := metav1.GetControllerOfNoCopy(o)
	return ref != nil && ref.APIVersion == crdv1.APIVersion && ref.Kind == crdv1.KindRoutingConfig
}

// service returns the Service that is asked about.
func service(o crdv1.MeshRoute) string {
	return o.Asked().Managed.Namespace + "/" + o.Asked().Managed.TargetService
}

// leadsAsAsked reports whether what was found is about what is asked for now: the log may have
// other mappings for a moment. It has none without a port of the workload, on which nothing
// listens.
func leadsAsAsked(found []crdv1.IstioPortMapping, o crdv1.MeshRoute) bool {
	leads := func(all []crdv1.IstioPortMapping) map[int32]string {
		out := map[int32]string{}
		for _, m := range all {
			if m.WorkloadPort > 0 {
				out[m.FromPort] = m.ToService
			}
		}
		return out
	}
	return maps.Equal(leads(found), leads(o.Asked().Managed.Mappings))
}

// matched reports whether something leads to the Service.
func (w Words) matched(o crdv1.MeshRoute, r Report[Match]) condition.Condition {
	switch {
	case r.Trouble != nil:
		return *r.Trouble
	case !r.Looked:
		return notOnLog(o)
	case len(r.Matches) == 0 && r.Lost != nil:
		return *r.Lost
	}
	var beyond string
	if more := len(r.Matches) - MostListed; more > 0 {
		beyond = fmt.Sprintf(" The status lists the first %d and leaves out %d.", MostListed, more)
	}
	return condition.True(w.Matched, fmt.Sprintf("%s that route to Service %s: %s.%s", w.All, service(o), w.Names(r.Matches), beyond))
}

// applied reports whether everything that leads to the Service has the routes, and there is
// such.
func (w Words) applied(o crdv1.MeshRoute, r Report[Match]) condition.Condition {
	switch failed := first(r.Matches, StatusFailed); {
	case r.Trouble != nil:
		return *r.Trouble
	case !r.Looked:
		return notOnLog(o)
	case failed != nil:
		return condition.False(w.Failed, failed.Message)
	case r.Lost != nil:
		return *r.Lost
	case first(r.Matches, StatusPending) != nil:
		return w.pending(o)
	case first(r.Matches, w.There) == nil:
		return condition.False(ReasonNoRoutes, fmt.Sprintf("No %s has a route for routing key %q to Service %s, so requests with it reach the baseline.%s",
			w.One, o.Asked().RoutingKey, service(o), why(r.Matches)))
	}
	return condition.True("RoutesApplied", fmt.Sprintf("Requests with routing key %q for Service %s are routed to the sandbox by %s: %s.%s",
		o.Asked().RoutingKey, service(o), w.All, w.names(r.Matches, w.There), notes(r)))
}

// notes returns what people should know though the routes are there, to follow a sentence.
func notes(r Report[Match]) string {
	var out strings.Builder
	for i, note := range r.Notes {
		if i == mostNamed {
			fmt.Fprintf(&out, " And %d more notes.", len(r.Notes)-i)
			break
		}
		out.WriteString(" " + note)
	}
	return out.String()
}

// why returns what is said of the first match, to follow a sentence.
func why(matches []Match) string {
	if len(matches) == 0 {
		return ""
	}
	return fmt.Sprintf(" %s %s: %s", matches[0].Kind, matches[0].Name, matches[0].Message)
}

// first returns the first match with a status; nil when there is none.
func first(matches []Match, status string) *Match {
	i := slices.IndexFunc(matches, func(m Match) bool { return m.Status == status })
	if i < 0 {
		return nil
	}
	return &matches[i]
}

// notOnLog returns the condition that what is asked for now was not found on the routing log yet.
func notOnLog(o crdv1.MeshRoute) condition.Condition {
	return condition.Unknown(crdv1.ReasonPending, fmt.Sprintf("Where requests for Service %s go is not on the routing log yet.", service(o)))
}

// pending returns the condition that what leads to the Service is getting its routes.
func (w Words) pending(o crdv1.MeshRoute) condition.Condition {
	return condition.Unknown(crdv1.ReasonPending, fmt.Sprintf("The %s that route to Service %s are getting their routes.", w.All, service(o)))
}

// Names names matches, each once.
func (w Words) Names(matches []Match) string { return w.names(matches, "") }

// names names those with a status; all for none.
func (w Words) names(matches []Match, status string) string {
	var out []string
	for _, m := range matches {
		name := m.Name
		if m.Kind != w.One {
			name = m.Kind + " " + name
		}
		if (status == "" || m.Status == status) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	if more := len(out) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(out[:mostNamed], ", "), more)
	}
	return strings.Join(out, ", ")
}
