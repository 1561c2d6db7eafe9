package sandboxes

import (
	"encoding/json"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/spec"
)

// Report is a Sandbox or a Group.
type Report interface {
	// State returns its status.
	State() Status
	// Known returns its specification; nil when that is not known.
	Known() json.RawMessage
}

// Sandbox is a sandbox as people and scripts are shown it, with the names that the published
// API has.
type Sandbox struct {
	Name        string            `json:"name"`
	RoutingKey  string            `json:"routingKey"`
	Description string            `json:"description,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	CreatedAt   string            `json:"createdAt"`
	UpdatedAt   string            `json:"updatedAt,omitempty"`
	// Author is the user who last changed the specification, if the operator recorded it.
	Author    string     `json:"author,omitempty"`
	Endpoints []Endpoint `json:"endpoints"`
	Workloads []Workload `json:"workloads"`
	Resources []Resource `json:"resources"`
	// Spec is the specification, if it is known: a file with it can be applied again.
	Spec   json.RawMessage `json:"spec,omitempty"`
	Status Status          `json:"status"`
}

// Endpoint is one of a sandbox or a route group.
type Endpoint struct {
	spec.Endpoint
	// URL is that of its preview at a control plane; empty: it has none.
	URL string `json:"url,omitempty"`
}

// String returns the endpoint as people are shown it.
func (e Endpoint) String() string { return strings.TrimSpace(e.Name + " " + e.Target + " " + e.URL) }

// Workload is one of a sandbox.
type Workload struct {
	How      string `json:"how"`
	Name     string `json:"name,omitempty"`
	Baseline string `json:"baseline,omitempty"`
}

// Resource is one of a sandbox.
type Resource struct {
	Name   string `json:"name"`
	Plugin string `json:"plugin"`
	Ready  bool   `json:"ready"`
	Failed bool   `json:"failed"`
}

// Status is how a sandbox is.
type Status struct {
	Ready   bool   `json:"ready"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Caveats are all that the operator reports of its members.
	Caveats             []string `json:"caveats,omitempty"`
	ScheduledDeleteTime string   `json:"scheduledDeleteTime,omitempty"`

	// Unobserved: the operator has not reported this form of the object.
	Unobserved bool `json:"-"`
}

// Unobserved is the message of an object that the operator has not reported.
const Unobserved = "the operator has not reported on it yet"

// SandboxOf returns the report of a sandbox.
func SandboxOf(o *crdv1.SignadotSandbox) Sandbox {
	r := Sandbox{
		Name: o.Name, RoutingKey: o.Spec.ID, Description: o.Annotations[crdv1.AnnotationDescription],
		Labels:    noted[map[string]string](o, crdv1.AnnotationLabels),
		CreatedAt: o.CreationTimestamp.UTC().Format(time.RFC3339), UpdatedAt: o.Annotations[crdv1.AnnotationUpdatedAt], Author: authorOf(o),
		Endpoints: append([]Endpoint{}, noted[[]Endpoint](o, crdv1.AnnotationEndpoints)...),
		Workloads: workloads(o), Resources: []Resource{}, Spec: known(o), Status: statusOf(o),
	}
	for _, m := range o.Spec.ManagedResources {
		one := Resource{Name: m.Name, Plugin: m.PluginName}
		for _, known := range o.Status.ManagedResources {
			if known.Name == m.Name {
				one.Ready, one.Failed = known.Ready, known.Failed
			}
		}
		r.Resources = append(r.Resources, one)
	}
	return r
}

// authorOf returns the name of the user who last changed the specification of an object; empty when
// that is not recorded, as by an operator that does not ask authors for their rights.
func authorOf(o crdv1.Object) string {
	author, _, _ := crdv1.AuthorOf(o.GetAnnotations()) // An annotation that cannot be parsed counts as none.
	return author.User
}

// statusOf returns how an object is, in its present form.
func statusOf(o crdv1.Object) Status {
	out := Status{Reason: crdv1.ReasonPending, Message: Unobserved, Unobserved: true}
	if c := crdv1.FindCondition(*o.StatusConditions(), crdv1.ConditionReady); c != nil && c.ObservedGeneration >= o.GetGeneration() {
		out = Status{Ready: c.Status == string(metav1.ConditionTrue), Reason: c.Reason, Message: c.Message}
	}
	out.Caveats = caveatsOf(o)
	if at, ends, err := spec.Expires(o); err == nil && ends {
		out.ScheduledDeleteTime = at.UTC().Format(time.RFC3339)
	}
	return out
}

// workloads returns those of a sandbox, in the order of its status.
func workloads(o *crdv1.SignadotSandbox) []Workload {
	out := []Workload{}
	named := func(ref crdv1.ObjectRef) string { return ref.Kind + "/" + ref.Namespace + "/" + ref.Name }
	seen := map[string]bool{}
	if c := o.Spec.Customization; c != nil {
		for _, p := range c.Patches {
			if name := named(p.Target); !seen[name] {
				seen[name] = true
				out = append(out, Workload{How: "fork", Baseline: name})
			}
		}
	}
	for _, x := range o.Spec.ExternalWorkloads {
		w := Workload{How: "local", Name: x.Name}
		if x.Baseline != nil {
			w.Baseline = named(x.Baseline.ObjectRef)
		}
		out = append(out, w)
	}
	for _, v := range o.Spec.VirtualWorkloads {
		out = append(out, Workload{How: "virtual", Name: v.Name, Baseline: named(v.Baseline)})
	}
	return out
}

// State implements Report.
func (r Sandbox) State() Status { return r.Status }

// Known implements Report.
func (r Sandbox) Known() json.RawMessage { return r.Spec }

// Group is a route group as people and scripts are shown it, with the names that the
// published API has.
type Group struct {
	Name       string     `json:"name"`
	RoutingKey string     `json:"routingKey"`
	CreatedAt  string     `json:"createdAt"`
	UpdatedAt  string     `json:"updatedAt,omitempty"`
	Author     string     `json:"author,omitempty"`
	Endpoints  []Endpoint `json:"endpoints"`
	// Spec is the specification, if it is known: a file with it can be applied again.
	Spec   json.RawMessage `json:"spec,omitempty"`
	Status GroupStatus     `json:"status"`

	// Description is not part of its JSON.
	Description string `json:"-"`
}

// GroupStatus is how a route group is.
type GroupStatus struct {
	Status
	MatchedSandboxes []string `json:"matchedSandboxes"`
	ReadySandboxes   int32    `json:"readySandboxes"`
}

// GroupOf returns the report of a route group.
func GroupOf(o *crdv1.SignadotRouteGroup) Group {
	return Group{
		Name: o.Name, RoutingKey: o.Spec.RoutingKey, Description: o.Annotations[crdv1.AnnotationDescription],
		CreatedAt: o.CreationTimestamp.UTC().Format(time.RFC3339), UpdatedAt: o.Annotations[crdv1.AnnotationUpdatedAt], Author: authorOf(o),
		Endpoints: append([]Endpoint{}, noted[[]Endpoint](o, crdv1.AnnotationEndpoints)...), Spec: known(o),
		Status: GroupStatus{Status: statusOf(o), MatchedSandboxes: append([]string{}, o.Spec.SandboxNames...), ReadySandboxes: o.Status.ReadySandboxes},
	}
}

// State implements Report.
func (r Group) State() Status { return r.Status.Status }

// Known implements Report.
func (r Group) Known() json.RawMessage { return r.Spec }
