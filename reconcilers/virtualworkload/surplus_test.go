package virtualworkload

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
)

// Proxies route to the second Service until they have the fact without it, so its endpoints are not deleted before.
func TestEndpointsAreDeletedWithTheirService(t *testing.T) {
	d := Decision{Surplus: []*corev1.Service{{}}, SurplusSlices: []*discoveryv1.EndpointSlice{{}}}
	if got := d.surplus(); len(got) != 2 {
		t.Errorf("%d objects are deleted after the fact", len(got))
	}
	// act has no client here: it would panic if it deleted any.
	if _, err := act(t.Context(), apply.Writer{}, Input{Workload: &crdv1.VirtualWorkload{}}, d); err != nil {
		t.Error(err)
	}
}
