package admission_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/admission"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/iocontext/store"
	"switchyard.dev/workflows/podreads"
)

// gave are the rights of the unit that gave the value, for each row of a change of a specification.
var gave = map[string]execunit.Rights{
	"another delete step, where a unit in shop with Secret db, removed since, gave a value that is kept": {
		Namespace: "shop", Reads: []podreads.Read{{Kind: "Secret", Name: "db"}}},
	"another delete step, where a unit in shop with a copy of claim data of namespace pay, removed since, gave a value that is kept": {
		Namespace: "shop", Reads: []podreads.Read{{Kind: "PersistentVolumeClaim", Name: "data", Namespace: "pay"}}},
}

// keptValues are the rows of objects that keep values.
func keptValues() []row {
	const text = "metadata: {name: NAME}\nspec: {ioContextName: NAME, postStop: [{name: drop, type: ExecUnit}]}"
	texts := slices.Sorted(maps.Keys(gave)) // The Secret, the copy of a claim.
	return []row{{texts[0], "yynynn", crdv1.KindLifecycleMethods, text}, {texts[1], "ynnnnn", crdv1.KindLifecycleMethods, text}}
}

// keptBefore returns what the object of a row keeps.
func keptBefore(r row) []admission.Kept {
	rights, keeps := gave[r.says]
	if !keeps {
		return nil
	}
	return []admission.Kept{{At: "spec", Values: map[string]*execunit.Rights{"make.url": &rights}}}
}

// answersForKeptValues has the administrator create an object and keep a value for it, and each user
// change the specification.
func (c *cluster) answersForKeptValues(t *testing.T, r row, name string) {
	o, err := c.write("admin", r, name)
	if err != nil {
		t.Fatal(err)
	}
	values := store.Store{Client: c.as("admin"), Namespace: "signadot"}
	of := o.(*crdv1.SignadotObjectLifecycleMethods)
	c.Must(values.Put(t.Context(), of, "make.url", []byte("x"), store.Giver{Pod: "p", Rights: gave[r.says]}, func(context.Context) error { return nil }))
	for j, u := range columns() {
		body := `{"spec": {"postStop": [{"name": "mended", "type": "ExecUnit"}]}}`
		if u.name == linked().name {
			body = fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}, %s`, crdv1.AnnotationAuthor, linkedAs, body[1:])
		}
		err := c.as(u.name).Patch(t.Context(), of.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(body)), client.DryRunAll)
		if (err == nil) != (r.answers()[j] == 'y') || err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s by %s: %v", r.says, u.name, err)
		}
		if u.name == "builder" && (err == nil || !strings.Contains(err.Error(), "keep the value make.url")) {
			t.Errorf("the builder gets %v", err)
		}
	}
}

// spy adds a unit to a Resource of another user once a unit has succeeded, which reads its output.
func (c *cluster) spy(t *testing.T) {
	c = c.in(t)
	values := store.Store{Client: c.as("admin"), Namespace: "signadot"}
	const spec = "{name: db, pluginName: p, olm: {preStart: [{name: make, type: ExecUnit, outputs: [{name: url}], execUnitTemplate: {podTemplate: {metadata: {namespace: shop}, spec: {containers: [{name: main, image: i}]}}}}%s]}}"
	r := &crdv1.Resource{}
	c.Make(r, "metadata: {name: spied}\nspec: "+fmt.Sprintf(spec, ""))
	m := &crdv1.SignadotObjectLifecycleMethods{}
	c.Read(m, fmt.Sprintf("metadata: {name: spied, ownerReferences: [{apiVersion: signadot.com/v1, kind: Resource, name: spied, uid: %s, controller: true}]}\nspec: {ioContextName: spied}", r.UID))
	c.Must(c.ClientWith(c.As(ownAccount, "system:masters"), schemeOf).Create(t.Context(), m)) // Only the manager writes owners of its kinds.
	c.Must(values.Put(t.Context(), m, "make.url", []byte("x"), store.Giver{Pod: "p", Rights: execunit.Rights{Namespace: "shop"}}, func(context.Context) error { return nil }))
	// The unit that gave the value is taken away by the same change, and the spy runs in pay.
	body := `{"spec": {"olm": {"preStart": [{"name": "spy", "type": "ExecUnit", "inputs": [{"name": "url", "iocontext": {"key": "make.url"}}],
		"execUnitTemplate": {"podTemplate": {"metadata": {"namespace": "pay"}, "spec": {"containers": [{"name": "main", "image": "i"}]}}}}]}}}`
	patch := client.RawPatch("application/merge-patch+json", []byte(body))
	if err := c.as("neighbour").Patch(t.Context(), r.DeepCopy(), patch, client.DryRunAll); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "make.url") {
		t.Errorf("a spy is answered %v", err)
	}
	if err := c.as("admin").Patch(t.Context(), r.DeepCopy(), patch, client.DryRunAll); err != nil {
		t.Errorf("one with the rights is answered %v", err)
	}
}

func TestSourcesThatCanStillSetAValueCount(t *testing.T) {
	read := func(text string) *crdv1.SignadotObjectLifecycleMethods {
		o, _ := row{"", "", crdv1.KindLifecycleMethods, text}.object(t, "x").(*crdv1.SignadotObjectLifecycleMethods)
		return o
	}
	const unit = "spec: {ioContextName: x, preStart: [{name: make, type: ExecUnit, outputs: [{name: url}], execUnitTemplate: {podTemplate: {metadata: {namespace: shop}}}}]}\nstatus: {preCreate: [{name: make, phase: %s}]}"
	for name, tt := range map[string]struct {
		phase, want string
		values      map[string]*execunit.Rights
	}{
		"it has not begun":                  {phase: "Pending", want: "create pods in namespace shop"},
		"it runs":                           {phase: "Running", want: "create pods in namespace shop"},
		"it has failed":                     {phase: "Failed, finished: 2026-11-28T12:00:00Z"},
		"it has failed, with value":         {phase: "Failed, finished: 2026-11-28T12:00:00Z", values: map[string]*execunit.Rights{"make.url": {Namespace: "pay"}}, want: "create pods in namespace pay"},
		"an earlier version kept the value": {phase: "Succeeded, finished: 2026-11-28T12:00:00Z", values: map[string]*execunit.Rights{"make.url": nil}, want: "create pods in namespace shop"},
		"the unit that gave it is unknown":  {phase: "Succeeded, finished: 2026-11-28T12:00:00Z", values: map[string]*execunit.Rights{"gone.x": nil}, want: "create pods; get all secrets; get all configmaps; get all persistentvolumeclaims"},
	} {
		m := read(fmt.Sprintf(unit, tt.phase))
		d := admission.Decide(admission.Input{Object: read("spec: {ioContextName: x}"), Change: admission.Change{Spec: true}, Limits: admission.Limits{}.WithDefaults(), OperatorNamespace: "signadot",
			Kept: []admission.Kept{{At: "spec", Units: m.Spec.PreStart, Status: m.Status.PreCreate, Values: tt.values}}})
		var got []string
		for _, w := range d.Wants {
			got = append(got, w.Access.String())
		}
		if strings.Join(got, "; ") != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
