package member_test

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/member"
)

// The cache of a leader that has just started may still have the deletion of a member that was
// re-created. The facts that an earlier leader published about the new one must not be withdrawn: its
// requests would reach the baseline.
func TestTheEndOfAMemberWhoseNameLivesAgain(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := crdv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name      string
		live      types.UID // of the member that the API server has; empty: none
		withdrawn bool
	}{
		{"the member is being deleted", "shown", true},
		{"the member has gone meanwhile", "", true},
		{"another one has its name", "other", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shown := &crdv1.VirtualWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "v", UID: "shown", Finalizers: []string{"somebody.else/keeps"}}}
			api := fake.NewClientBuilder().WithScheme(scheme)
			if tt.live != "" {
				live := shown.DeepCopy()
				live.UID = tt.live
				api.WithObjects(live)
			}
			built, log := api.Build(), &publisher{}
			e := member.Lifecycle{Kind: crdv1.KindVirtualWorkload, Writer: apply.Writer{Client: built, Live: built}, Publisher: log, Now: time.Now}
			err := e.Deleted(t.Context(), shown)
			if tt.withdrawn != (err == nil) || err != nil && !apierrors.IsConflict(err) {
				t.Errorf("it gives %v", err)
			}
			if tt.withdrawn != (len(log.put) == 1) {
				t.Fatalf("put on the log: %v", log.put)
			}
			if tt.withdrawn {
				if _, ok := log.put[0].Data.(*factv1.WorkloadWithdrawn); !ok {
					t.Errorf("put on the log: %v", log.put)
				}
			}
		})
	}
}
