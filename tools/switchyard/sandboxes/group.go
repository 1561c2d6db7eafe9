package sandboxes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// groups is the kind of route groups.
var groups = kind{
	what: specfile.RouteGroup, plural: "route groups", command: "routegroup", of: crdv1.KindRouteGroup,
	report: func(o crdv1.Object) shown { return groupOf(o.(*crdv1.SignadotRouteGroup)) }, listed: listedGroups,
}

func applyGroup(s *command.Session) *cobra.Command {
	c := &cobra.Command{
		Example: "  switchyard routegroup apply -f group.yaml",
		Long: `Create or change a route group. spec.match is evaluated now, and the sandboxes that it
matches become the members of the group: sandboxes that match later are not added until the
file is applied again. A sandbox has the labels of spec.labels in its file, or else those of
its object.`,
	}
	return groups.apply(s, c, func(in *input) (func(context.Context, client.Client) (crdv1.Object, error), error) {
		var asked spec.Group
		f, err := in.read(s, &asked)
		return func(ctx context.Context, cluster client.Client) (crdv1.Object, error) {
			return writeGroup(ctx, s, cluster, f, asked)
		}, err
	})
}

// writeGroup compiles a route group of the sandboxes that match now, and creates it or replaces
// the one that is there.
func writeGroup(ctx context.Context, s *command.Session, cluster client.Client, f *specfile.File, asked spec.Group) (crdv1.Object, error) {
	there := &crdv1.SignadotRouteGroup{}
	unread := cluster.Get(ctx, client.ObjectKey{Name: asked.Name}, there)
	var list crdv1.SignadotSandboxList
	if err := cluster.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list sandboxes, to find those that the route group matches: %w", err)
	}
	known := map[string]map[string]string{}
	for i := range list.Items {
		if o := &list.Items[i]; o.DeletionTimestamp == nil {
			known[o.Name] = labelsOf(o)
		}
	}
	out, err := compile.Group(compile.GroupInput{Group: asked, Sandboxes: known, RoutingKey: there.Spec.RoutingKey})
	var problems specfile.Problems
	switch {
	case errors.As(err, &problems):
		return nil, exit.Usage.Errorf("%w", f.Locate(problems))
	case client.IgnoreNotFound(unread) != nil: // The compiler reports a name that no object can have.
		return nil, groups.refused("read", asked.Name, unread)
	}
	notes := f.Locate(out.Notes)
	before := there.Spec.SandboxNames
	o, err := groups.put(ctx, s, cluster, f, out.Group, there, func() {
		there.Spec.RoutingKey, there.Spec.SandboxNames = out.Group.Spec.RoutingKey, out.Group.Spec.SandboxNames
	})
	if err != nil {
		return nil, err
	}
	for _, note := range notes {
		_, _ = fmt.Fprintln(s.Err, show.Plain("note: "+note.Error()))
	}
	now := out.Group.Spec.SandboxNames
	_, _ = fmt.Fprintln(s.Err, show.Plain(fmt.Sprintf("route group %s has the sandboxes that match now: %s", asked.Name, strings.Join(now, ", "))))
	if left := slices.DeleteFunc(slices.Clone(before), func(name string) bool { return slices.Contains(now, name) }); len(left) > 0 {
		_, _ = fmt.Fprintln(s.Err, show.Plain("no longer in it: "+strings.Join(left, ", ")))
	}
	_, _ = fmt.Fprintln(s.Err, "note: sandboxes that match later are not added; apply the file again to add them")
	return o, nil
}

// labelsOf returns the labels of a sandbox: those of its specification before those of its object.
func labelsOf(o *crdv1.SignadotSandbox) map[string]string {
	out := map[string]string{}
	maps.Copy(out, o.Labels)
	maps.Copy(out, noted[map[string]string](o, crdv1.AnnotationLabels))
	return out
}

// groupReport is a route group as people and scripts are shown it, with the names that the
// published API has.
type groupReport struct {
	Name       string          `json:"name"`
	RoutingKey string          `json:"routingKey"`
	CreatedAt  string          `json:"createdAt"`
	UpdatedAt  string          `json:"updatedAt,omitempty"`
	Author     string          `json:"author,omitempty"`
	Endpoints  []spec.Endpoint `json:"endpoints"`
	// Spec is the specification, if it is known: a file with it can be applied again.
	Spec   json.RawMessage `json:"spec,omitempty"`
	Status groupStatus     `json:"status"`

	description string
}

// groupStatus is how a route group is.
type groupStatus struct {
	status
	MatchedSandboxes []string `json:"matchedSandboxes"`
	ReadySandboxes   int32    `json:"readySandboxes"`
}

// groupOf returns the report of a route group.
func groupOf(o *crdv1.SignadotRouteGroup) groupReport {
	return groupReport{
		Name: o.Name, RoutingKey: o.Spec.RoutingKey, description: o.Annotations[crdv1.AnnotationDescription],
		CreatedAt: o.CreationTimestamp.UTC().Format(time.RFC3339), UpdatedAt: o.Annotations[crdv1.AnnotationUpdatedAt], Author: authorOf(o),
		Endpoints: append([]spec.Endpoint{}, noted[[]spec.Endpoint](o, crdv1.AnnotationEndpoints)...), Spec: known(o),
		Status: groupStatus{status: statusOf(o), MatchedSandboxes: append([]string{}, o.Spec.SandboxNames...), ReadySandboxes: o.Status.ReadySandboxes},
	}
}

// text implements shown, and state and known do.
func (r groupReport) text(s *command.Session) string {
	rows := show.Grid{{"Name:", r.Name}, {"Routing key:", r.RoutingKey}}
	for _, row := range []struct{ title, value string }{
		{"Description:", r.description}, {"Created:", moment(s, r.CreatedAt)}, {"Changed:", moment(s, r.UpdatedAt)}, {"Author:", r.Author},
		{"Sandboxes:", strings.Join(r.Status.MatchedSandboxes, ", ")},
	} {
		if row.value != "" {
			rows = append(rows, []string{row.title, row.value})
		}
	}
	for _, e := range r.Endpoints {
		rows = append(rows, []string{"Endpoint:", e.Name + " " + e.Target})
	}
	return rows.String() + r.Status.line(len("Routing key:  "))
}

func (r groupReport) state() status { return r.Status.status }

func (r groupReport) known() json.RawMessage { return r.Spec }

// listedGroups returns reports for people.
func listedGroups(s *command.Session, reports []shown) string {
	rows := show.Grid{{"NAME", "KEY", "READY", "REASON", "SANDBOXES", "AUTHOR", "CREATED"}}
	for _, one := range reports {
		r := one.(groupReport)
		ready := map[bool]string{true: "yes", false: "no"}[r.Status.Ready]
		sandboxes := fmt.Sprintf("%d of %d ready", r.Status.ReadySandboxes, len(r.Status.MatchedSandboxes))
		rows = append(rows, []string{r.Name, r.RoutingKey, ready, r.Status.Reason, sandboxes, r.Author, moment(s, r.CreatedAt)})
	}
	return rows.String()
}
