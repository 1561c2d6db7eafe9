package outbound

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/world"
	"switchyard.dev/tunnels/cluster"
)

// Names of Services that the cluster has are looked up as often as a user likes; those of others, such
// as an ExternalName, are not.
func TestLookUpsOfServicesAreNotBounded(t *testing.T) {
	w := world.New(t)
	known, err := cluster.New(cluster.Config{Access: w.Config})
	w.Must(err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- known.Run(ctx) }()
	defer func() { stop(); w.Must(<-ended) }()
	shop := w.NewNamespace("shop")
	for name, spec := range map[string]corev1.ServiceSpec{
		"cart":     {Ports: []corev1.ServicePort{{Port: 80}}},
		"headless": {ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}},
		"out":      {Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"},
	} {
		w.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: name}, Spec: spec})
	}
	w.Must(known.Synced(t.Context()))
	g := newGate(t, 100)
	g.cfg.Cluster = known
	for host, bounded := range map[string]bool{"cart." + shop: false, "pod-0.headless." + shop + ".svc.cluster.local": false, "out." + shop: true, "other." + shop: true} {
		who := Who{Via: "carrier", User: host, From: ada.From}
		exhausted := false
		for range 1000 {
			_, refused := g.Open(t.Context(), who, host, 1)
			exhausted = exhausted || refused.GetReason() == tunnelv1.Reason_REASON_EXHAUSTED
		}
		if exhausted != bounded {
			t.Errorf("look-ups of %s are bounded: %t", host, exhausted)
		}
	}
}
