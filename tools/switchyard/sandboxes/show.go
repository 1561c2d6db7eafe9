package sandboxes

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/spec"
)

// report is a sandbox as people and scripts are shown it, with the names that the published
// API has.
type report struct {
	Name        string            `json:"name"`
	RoutingKey  string            `json:"routingKey"`
	Description string            `json:"description,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	CreatedAt   string            `json:"createdAt"`
	UpdatedAt   string            `json:"updatedAt,omitempty"`
	// Author is the user who last changed the specification, if the operator recorded it.
	Author    string          `json:"author,omitempty"`
	Endpoints []spec.Endpoint `json:"endpoints"`
	Workloads []workload      `json:"workloads"`
	Resources []resource      `json:"resources"`
	// Spec is the specification, if it is known: a file with it can be applied again.
	Spec   json.RawMessage `json:"spec,omitempty"`
	Status status          `json:"status"`
}

// workload is one of a sandbox.
type workload struct {
	How      string `json:"how"`
	Name     string `json:"name,omitempty"`
	Baseline string `json:"baseline,omitempty"`
}

// resource is one of a sandbox.
type resource struct {
	Name   string `json:"name"`
	Plugin string `json:"plugin"`
	Ready  bool   `json:"ready"`
	Failed bool   `json:"failed"`
}

// status is how a sandbox is.
type status struct {
	Ready   bool   `json:"ready"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Caveats are all that the operator reports of its members.
	Caveats             []string `json:"caveats,omitempty"`
	ScheduledDeleteTime string   `json:"scheduledDeleteTime,omitempty"`

	// unobserved: the operator has not reported this form of the object.
	unobserved bool
}

// unobserved is the message of an object that the operator has not reported.
const unobserved = "the operator has not reported on it yet"

// reportOf returns what there is to say of a sandbox.
func reportOf(o *crdv1.SignadotSandbox) report {
	r := report{
		Name: o.Name, RoutingKey: o.Spec.ID, Description: o.Annotations[crdv1.AnnotationDescription],
		Labels:    noted[map[string]string](o, crdv1.AnnotationLabels),
		CreatedAt: o.CreationTimestamp.UTC().Format(time.RFC3339), UpdatedAt: o.Annotations[crdv1.AnnotationUpdatedAt], Author: authorOf(o),
		Endpoints: append([]spec.Endpoint{}, noted[[]spec.Endpoint](o, crdv1.AnnotationEndpoints)...),
		Workloads: workloads(o), Resources: []resource{}, Spec: known(o), Status: statusOf(o),
	}
	for _, m := range o.Spec.ManagedResources {
		one := resource{Name: m.Name, Plugin: m.PluginName}
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
func statusOf(o crdv1.Object) status {
	out := status{Reason: crdv1.ReasonPending, Message: unobserved, unobserved: true}
	if c := crdv1.FindCondition(*o.StatusConditions(), crdv1.ConditionReady); c != nil && c.ObservedGeneration >= o.GetGeneration() {
		out = status{Ready: c.Status == string(metav1.ConditionTrue), Reason: c.Reason, Message: c.Message}
	}
	if c := crdv1.FindCondition(*o.StatusConditions(), crdv1.ConditionCaveats); c != nil && c.ObservedGeneration >= o.GetGeneration() {
		out.Caveats = strings.Split(c.Message, "\n")
	}
	if at, ends, err := spec.Expires(o); err == nil && ends {
		out.ScheduledDeleteTime = at.UTC().Format(time.RFC3339)
	}
	return out
}

// workloads returns those of a sandbox, in the order of its status.
func workloads(o *crdv1.SignadotSandbox) []workload {
	out := []workload{}
	named := func(ref crdv1.ObjectRef) string { return ref.Kind + "/" + ref.Namespace + "/" + ref.Name }
	seen := map[string]bool{}
	if c := o.Spec.Customization; c != nil {
		for _, p := range c.Patches {
			if name := named(p.Target); !seen[name] {
				seen[name] = true
				out = append(out, workload{How: "fork", Baseline: name})
			}
		}
	}
	for _, x := range o.Spec.ExternalWorkloads {
		w := workload{How: "local", Name: x.Name}
		if x.Baseline != nil {
			w.Baseline = named(x.Baseline.ObjectRef)
		}
		out = append(out, w)
	}
	for _, v := range o.Spec.VirtualWorkloads {
		out = append(out, workload{How: "virtual", Name: v.Name, Baseline: named(v.Baseline)})
	}
	return out
}

// text returns a report for people.
func (r report) text(s *command.Session) string {
	rows := show.Grid{{"Name:", r.Name}, {"Routing key:", r.RoutingKey}}
	add := func(title, value string) {
		if value != "" {
			rows = append(rows, []string{title, value})
		}
	}
	add("Description:", r.Description)
	add("Created:", moment(s, r.CreatedAt))
	add("Changed:", moment(s, r.UpdatedAt))
	add("Author:", r.Author)
	add("Ends:", moment(s, r.Status.ScheduledDeleteTime))
	for _, w := range r.Workloads {
		add("Workload:", strings.TrimSpace(w.How+" "+w.Name)+of(w.Baseline))
	}
	for _, one := range r.Resources {
		state := map[bool]string{true: "ready", false: "not ready"}[one.Ready]
		if one.Failed {
			state = "failed"
		}
		add("Resource:", fmt.Sprintf("%s of plugin %s, %s", one.Name, one.Plugin, state))
	}
	for _, e := range r.Endpoints {
		add("Endpoint:", e.Name+" "+e.Target)
	}
	return rows.String() + r.Status.line(len("Routing key:  "))
}

// state implements shown, and known does.
func (r report) state() status { return r.Status }

func (r report) known() json.RawMessage { return r.Spec }

// line returns the line Status of a report with the value at a column, and a line for each caveat
// that the message does not have.
func (s status) line(column int) string {
	word := map[bool]string{true: "ready", false: "not ready (" + s.Reason + ")"}[s.Ready]
	out := fmt.Sprintf("%-*s", column, "Status:") + show.Indented(show.Plain(word)+": "+s.Message) + "\n"
	for _, caveat := range s.Caveats {
		if !strings.Contains(s.Message, caveat) {
			out += fmt.Sprintf("%-*s", column, "Caveat:") + show.Plain(caveat) + "\n"
		}
	}
	return out
}

// of names the baseline of a workload, where it has one.
func of(baseline string) string {
	if baseline == "" {
		return ""
	}
	return " of " + baseline
}

// moment shows a time of a report as people are shown times.
func moment(s *command.Session, text string) string {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return at.In(s.Now().Location()).Format("2006-01-02 15:04:05 MST")
}

// listed returns reports for people.
func listed(s *command.Session, reports []shown) string {
	rows := show.Grid{{"NAME", "KEY", "READY", "REASON", "AUTHOR", "CREATED", "ENDS"}}
	for _, one := range reports {
		r := one.(report)
		ready := map[bool]string{true: "yes", false: "no"}[r.Status.Ready]
		rows = append(rows, []string{r.Name, r.RoutingKey, ready, r.Status.Reason, r.Author, moment(s, r.CreatedAt), moment(s, r.Status.ScheduledDeleteTime)})
	}
	return rows.String()
}
