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

// Reasons of the conditions of a MeshRoute, in addition to those of each mesh.
const (
	// ReasonNoRoutingConfig: no RoutingConfig owns the MeshRoute, so it has no effect.
	ReasonNoRoutingConfig = "NoRoutingConfig"
	// ReasonNoRoutes: no mesh object that routes to the Service has a route for the key.
	ReasonNoRoutes = "NoRoutes"
)

// Words are the reasons and terms that the conditions of a kind of MeshRoute use.
type Words struct {
	// Kind is the kind of the MeshRoute.
	Kind string
	// Off is the reason while no adapter acts on the MeshRoute; Why states the cause and the remedy.
	Off, Why string
	// One and All name the users' objects that route to a Service, in the singular and the plural.
	One, All string
	// Matched is the type of the condition that such objects exist. Failed is the reason when the
	// routes cannot be written.
	Matched, Failed string
	// There is the status of a Match that has its routes.
	There string
}

// Match is a user's object that routes to the Service.
type Match struct{ Kind, Name, Status, Message string }

// MostListed is the maximum number of matches in a status. Conditions cover all matches.
const MostListed = 32

// mostNamed is the maximum number of matches, and of notes, in a message.
const mostNamed = 3

// Conditions returns the conditions of a MeshRoute. known is its Report, nil if no adapter acts on
// the MeshRoute; of converts a match of the mesh to a Match. all is nil if the status is to stay
// unchanged: the MeshRoute is being deleted, no adapter acts on it and another program writes its
// status, or this process has not completed its first sync and the conditions that a previous
// process published are for the current generation. stands reports whether the matches of known
// belong in the status too.
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
	r := Report[Match]{Synced: known.Synced && leadsAsAsked(known.Mappings, o), Trouble: known.Trouble, Lost: known.Lost, Notes: known.Notes}
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

// Every returns a set in which every condition type of a MeshRoute has the given condition.
func Every(o crdv1.MeshRoute, c condition.Condition) condition.Set {
	all := condition.Set{}
	for _, t := range o.ConditionTypes() {
		all[t] = c
	}
	return all
}

// othersWriteStatus reports whether a field manager other than the operator has written to the status.
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

// service returns the target Service of a MeshRoute, as namespace/name.
func service(o crdv1.MeshRoute) string {
	return o.Asked().Managed.Namespace + "/" + o.Asked().Managed.TargetService
}

// leadsAsAsked reports whether the mappings of a Report are those of the MeshRoute. The routing log
// can have other mappings until it is up to date. Mappings without a workload port are ignored: the
// log has none, as nothing listens there.
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

// matched returns the condition of type w.Matched: whether any object routes to the Service.
func (w Words) matched(o crdv1.MeshRoute, r Report[Match]) condition.Condition {
	switch {
	case r.Trouble != nil:
		return *r.Trouble
	case !r.Synced:
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

// applied returns the condition RoutesApplied. It is true if at least one object that routes to the
// Service has the routes, and none is pending or failed.
func (w Words) applied(o crdv1.MeshRoute, r Report[Match]) condition.Condition {
	switch failed := first(r.Matches, StatusFailed); {
	case r.Trouble != nil:
		return *r.Trouble
	case !r.Synced:
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

// notes returns the notes of a Report, at most mostNamed, with a leading space.
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

// why returns the message of the first match with a leading space, or "" if there is none.
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

// notOnLog returns the condition that the routing log does not yet have the mappings of the MeshRoute.
func notOnLog(o crdv1.MeshRoute) condition.Condition {
	return condition.Unknown(crdv1.ReasonPending, fmt.Sprintf("Where requests for Service %s go is not on the routing log yet.", service(o)))
}

// pending returns the condition that routes are still being written.
func (w Words) pending(o crdv1.MeshRoute) condition.Condition {
	return condition.Unknown(crdv1.ReasonPending, fmt.Sprintf("The %s that route to Service %s are getting their routes.", w.All, service(o)))
}

// Names returns the names of the matches, without duplicates, as text.
func (w Words) Names(matches []Match) string { return w.names(matches, "") }

// names is like Names for the matches with a status; "" selects all. It lists at most mostNamed.
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
	return condition.List(out, mostNamed, ", ")
}
