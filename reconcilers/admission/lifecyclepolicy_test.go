package admission_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/world"
)

// What a Resource controls is changed by the operator alone; garbage collection, status, finalizers
// and deletion go on.
func TestOnlyTheOperatorChangesWhatAResourceControls(t *testing.T) {
	c := &cluster{World: world.New(t), clients: map[string]client.Client{}}
	c.Must(apiserver.EachFromChart("default", func(o *unstructured.Unstructured) error {
		if strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy") && o.GetName() == "signadot-lifecycle-methods" {
			return c.Client.Create(t.Context(), o)
		}
		return nil
	}))
	c.clients["operator"] = c.ClientWith(c.As(ownAccount, "system:masters"), manager.Scheme)
	c.clients["collector"] = c.ClientWith(c.As("system:serviceaccount:kube-system:generic-garbage-collector", "system:masters"), manager.Scheme)
	r := &crdv1.Resource{}
	c.Make(r, "metadata: {name: db}\nspec: {name: db, pluginName: p}")
	owned, free := &crdv1.SignadotObjectLifecycleMethods{}, &crdv1.SignadotObjectLifecycleMethods{}
	c.Make(owned, fmt.Sprintf("metadata: {name: db, finalizers: [a.b/c], ownerReferences: [{apiVersion: signadot.com/v1, kind: Resource, name: db, uid: %s, controller: true}]}\nspec: {ioContextName: db}", r.UID))
	c.Make(free, "metadata: {name: free}\nspec: {ioContextName: free}")
	const spec, unowned = `{"spec": {"preStart": [{"name": "spy", "type": "ExecUnit"}]}}`, `{"metadata": {"ownerReferences": null}}`
	c.Eventually("the policy counts", func() error {
		if err := c.as("admin").Patch(t.Context(), owned.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(spec)), client.DryRunAll); err == nil {
			return fmt.Errorf("the specification is changed")
		}
		return nil
	})
	for _, tt := range []struct {
		says, user string
		of         client.Object
		body       string
		allowed    bool
	}{
		{"its specification", "admin", owned, spec, false},
		{"its owner", "admin", owned, unowned, false},
		{"who controls it", "admin", owned, fmt.Sprintf(`{"metadata": {"ownerReferences": [{"apiVersion": "signadot.com/v1", "kind": "Resource", "name": "db", "uid": %q}]}}`, r.UID), false},
		{"a label", "admin", owned, `{"metadata": {"labels": {"a": "b"}}}`, true},
		{"finalizers", "admin", owned, `{"metadata": {"finalizers": ["a.b/c", "a.b/d"]}}`, true},
		{"one that nothing controls", "admin", free, spec, true},
		{"its specification, by the operator", "operator", owned, spec, true},
		{"its owner, by the garbage collector", "collector", owned, unowned, true},
		{"its specification, by the garbage collector", "collector", owned, spec, false},
	} {
		err := c.as(tt.user).Patch(t.Context(), tt.of.DeepCopyObject().(client.Object), client.RawPatch("application/merge-patch+json", []byte(tt.body)), client.DryRunAll)
		if (err == nil) != tt.allowed || err != nil && !strings.Contains(err.Error(), "is controlled by a Resource") {
			t.Errorf("%s: %v", tt.says, err)
		}
	}
	status := client.RawPatch("application/merge-patch+json", []byte(`{"status": {"phase": "Started"}}`))
	if err := c.as("admin").Status().Patch(t.Context(), owned.DeepCopy(), status); err != nil {
		t.Errorf("its status: %v", err)
	}
	if err := c.as("admin").Patch(t.Context(), owned.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"finalizers": null}}`))); err != nil {
		t.Errorf("its finalizers: %v", err)
	}
	if err := c.as("admin").Delete(t.Context(), owned.DeepCopy()); err != nil {
		t.Errorf("its deletion: %v", err)
	}
}
