package externalworkload

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
)

// servers answers who asks where API servers are, and counts.
type servers struct {
	client.Reader
	fails error
	asked int
}

func (s *servers) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	s.asked++
	if slice, ok := o.(*discoveryv1.EndpointSlice); ok && s.fails == nil {
		slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.9.9.9"}}}
	}
	return s.fails
}

// tunnelAt is an external workload whose tunnel ends at an address, and whose endpoints
// lead to others.
func tunnelAt(address string, leading ...string) Input {
	yes := true
	w := &crdv1.SignadotExternalWorkload{ObjectMeta: metav1.ObjectMeta{Name: "w", Namespace: "ns", UID: "w"}}
	w.Status.Tunnel = &crdv1.TunnelStatus{Info: &crdv1.TunnelInfo{TunnelProxyPodIP: address}}
	holder := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: address}}}}
	return Input{Workload: w, Holders: []corev1.Pod{holder}, Slices: []discoveryv1.EndpointSlice{{
		ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: "w", Controller: &yes}}},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: leading}},
	}}}
}

func TestAPIServerAddressesAreReadOnlyWhenNeeded(t *testing.T) {
	for _, tt := range []struct {
		name  string
		in    Input
		asked int
	}{
		{"nothing leads to it yet", tunnelAt("10.1.2.3"), 1},
		{"something leads elsewhere", tunnelAt("10.1.2.3", "10.1.2.4"), 1},
		{"something leads there", tunnelAt("10.1.2.3", "10.1.2.3"), 0},
		{"something leads there, written otherwise", tunnelAt("fd00:0:0::3", "fd00::3"), 0},
		{"its address is refused anyway", tunnelAt("::ffff:10.1.2.3", "10.1.2.3"), 0},
		{"its address is loopback", tunnelAt("127.0.0.1"), 0},
		{"its address is none", tunnelAt("here"), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			live := &servers{}
			if err := tt.in.gatherServers(t.Context(), live); err != nil || live.asked != tt.asked || slices.Contains(tt.in.Servers, "10.9.9.9") != (tt.asked > 0) {
				t.Errorf("asked %d times: %v, %v", live.asked, tt.in.Servers, err)
			}
		})
	}
}

func TestWithoutTheRightToKnowAPIServersNoTunnelIsLedTo(t *testing.T) {
	in := tunnelAt("10.1.2.3")
	forbidden := apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "kubernetes", errors.New("nobody said so"))
	if err := in.gatherServers(t.Context(), &servers{fails: forbidden}); err != nil || !strings.Contains(in.ServersRefused, "nobody said so") {
		t.Errorf("%q, %v", in.ServersRefused, err)
	}
	in.Now, in.Limits = time.Unix(0, 0), Limits{}.withDefaults()
	if tunnel, _ := tunnelOf(in); tunnel.Address.IsValid() || !tunnel.Turns.Equal(in.Now.Add(apply.RefusedAgain)) {
		t.Errorf("it is led to %s, and looked at again at %s", tunnel.Address, tunnel.Turns)
	}
	if err := in.gatherServers(t.Context(), &servers{fails: errors.New("no answer")}); err == nil {
		t.Error("what may be another time is not tried again")
	}
}
