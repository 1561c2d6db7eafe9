package replay

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"text/template"

	"github.com/cockroachdb/datadriven"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/tests/fakecluster"
)

// person writes the objects of stories. What a story says of their status is written under
// the operator's name instead: publish.CauseOf passes over who wrote a status, and the fake
// client does not tell it from the rest.
const person = client.FieldOwner("kubectl")

//go:embed objects.tmpl
var templates string

// filled returns the objects of a short command, or the input of objects.
func filled(d *datadriven.TestData) (string, error) {
	names := slices.DeleteFunc(slices.Clone(d.CmdArgs), func(a datadriven.CmdArg) bool { return len(a.Vals) > 0 })
	t, err := template.New("").Funcs(template.FuncMap{
		"times": func(n int) []struct{} { return make([]struct{}, n) },
		"names": func() []datadriven.CmdArg { return names },
		"values": func(of string) []string {
			arg, _ := d.Arg(of)
			return arg.Vals
		},
		"join": strings.Join, "namespace": path.Dir, "name": path.Base,
	}).Parse(templates)
	if d.Cmd == "objects" && err == nil {
		t, err = t.New("objects").Parse(d.Input)
	}
	var out strings.Builder
	if err == nil {
		err = t.ExecuteTemplate(&out, d.Cmd, strings.ReplaceAll(d.Input, "\n", "\n  "))
	}
	return out.String(), err
}

// objects creates objects, and merges those that are there with what is said of them.
func (o *operator) objects(ctx context.Context, d *datadriven.TestData) error {
	text, err := filled(d)
	if err != nil {
		return err
	}
	documents, err := fakecluster.Documents([]byte(text))
	for _, one := range documents {
		u := versioned(one)
		patch, unwritable := u.MarshalJSON()
		err = errors.Join(err, unwritable)
		merged := o.cluster.Client.Patch(ctx, u.DeepCopy(), client.RawPatch(types.MergePatchType, patch), person)
		if apierrors.IsNotFound(merged) {
			merged = o.cluster.Client.Create(ctx, u.DeepCopy(), person)
		}
		if err = errors.Join(err, merged); err == nil && one["status"] != nil {
			err = o.cluster.Client.Status().Patch(ctx, u, client.RawPatch(types.MergePatchType, patch), apply.FieldOwner)
		}
	}
	return err
}

// versioned fills in the version of an object, which stories leave out.
func versioned(d fakecluster.Document) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: d}
	version, other := map[string]string{
		"Deployment": "apps/v1", "Service": "v1", "Pod": "v1", "Secret": "v1", "Rollout": "argoproj.io/v1alpha1", "VirtualService": "networking.istio.io/v1", "NetworkPolicy": "networking.k8s.io/v1",
		"HTTPRoute": "gateway.networking.k8s.io/v1", "GRPCRoute": "gateway.networking.k8s.io/v1",
	}[u.GetKind()]
	if u.SetAPIVersion(crdv1.APIVersion); other {
		u.SetAPIVersion(version)
	}
	return u
}

// delete deletes objects.
func (o *operator) delete(ctx context.Context, d *datadriven.TestData) (err error) {
	for _, arg := range d.CmdArgs {
		parts := strings.Split(arg.Key, "/")
		u := versioned(fakecluster.Document{"kind": parts[0]})
		u.SetName(parts[len(parts)-1])
		u.SetNamespace(strings.Join(parts[1:len(parts)-1], ""))
		err = errors.Join(err, o.cluster.Client.Delete(ctx, u))
	}
	return err
}

// rollout gives Deployments the pods that they ask for, unless they are paused.
func (o *operator) rollout(ctx context.Context) error {
	var all appsv1.DeploymentList
	err := o.cluster.Client.List(ctx, &all)
	for i := range all.Items {
		d := &all.Items[i]
		n, was := int32(1), d.DeepCopy()
		if d.Spec.Paused {
			n = 0
		} else if d.Spec.Replicas != nil {
			n = *d.Spec.Replicas
		}
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
		err = errors.Join(err, o.cluster.Client.Status().Patch(ctx, d, client.MergeFrom(was), apply.FieldOwner))
	}
	return err
}

// status returns the conditions of objects: of those that are not True what they say.
func (o *operator) status(ctx context.Context, d *datadriven.TestData) (string, error) {
	var out strings.Builder
	for _, arg := range d.CmdArgs {
		kind, name, _ := strings.Cut(arg.Key, "/")
		objects, err := o.cluster.List(ctx, kind)
		if err != nil {
			return "", err
		}
		found := false
		for _, object := range objects {
			known := strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
			if c, ok := object.(crdv1.Conditioned); ok && (name == "" || name == known) {
				found = true
				fmt.Fprintf(&out, "%s %s\n%s", kind, known, conditions(*c.StatusConditions()))
			}
		}
		if name != "" && !found {
			return "", fmt.Errorf("there is no %s", arg.Key)
		}
	}
	return out.String(), nil
}

func conditions(all []crdv1.StatusCondition) string {
	out, right := "", ""
	for i, c := range all {
		switch before := slices.IndexFunc(all, func(b crdv1.StatusCondition) bool { return b.Message == c.Message }); {
		case c.Type == crdv1.ConditionCaveats:
			out += "  Caveat: " + strings.ReplaceAll(c.Message, "\n", "\n  Caveat: ") + "\n"
		case c.Status == "True" && (c.Reason == c.Type || c.Reason == ""):
			right += " " + c.Type
		case c.Status == "True":
			right += fmt.Sprintf(" %s(%s)", c.Type, c.Reason)
		case before < i:
			out += fmt.Sprintf("  %s=%s %s: as %s\n", c.Type, c.Status, c.Reason, all[before].Type)
		default:
			out += fmt.Sprintf("  %s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	if right != "" {
		out += "  True:" + right + "\n"
	}
	return out
}
