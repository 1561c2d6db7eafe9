package specs

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/sandbox"
	"switchyard.dev/tests/world"
)

// TestASandboxThatGotALongerLifeStays has the controller look at an old form of a sandbox.
func TestASandboxThatGotALongerLifeStays(t *testing.T) {
	w := world.Shared(t)
	old := &crdv1.SignadotSandbox{}
	w.Make(old, `{metadata: {name: lifetime, annotations: {signadot.com/ttl: 1m}}, spec: {id: lifetime}}`)
	later := func() time.Time { return old.CreationTimestamp.Add(2 * time.Minute) }
	r := sandbox.New(sandbox.Config{Access: apply.Access{Client: w.Client, Now: later}})
	changed := old.DeepCopy()
	changed.Annotations[crdv1.AnnotationTTL] = "1h"
	w.Must(w.Client.Update(t.Context(), changed))
	if _, err := r.Reconcile(t.Context(), old.DeepCopy()); !apierrors.IsConflict(err) {
		t.Errorf("an old form was believed: %v", err)
	}
	w.Get(changed)
	changed.Annotations[crdv1.AnnotationTTL] = "1m"
	w.Must(w.Client.Update(t.Context(), changed))
	if _, err := r.Reconcile(t.Context(), changed); err != nil {
		t.Error(err)
	}
	w.Gone(old)
}
