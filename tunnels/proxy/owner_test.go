package proxy_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/world"
	"switchyard.dev/tunnels/proxy"
)

// TestAWorkloadBelongsToASandboxByUID forges the owner reference of an external workload.
func TestAWorkloadBelongsToASandboxByUID(t *testing.T) {
	s := newSite(t)
	x := s.sandbox("one", "ada", 80)
	w := s.connect("ada", "session", 1)
	s.Eventually("her right counts", func() error {
		if all := w.declare(x); !all[0].Open {
			return errors.New("it does not")
		}
		return nil
	})
	world.Edit(s.World, x, func(x *crdv1.SignadotExternalWorkload) { x.OwnerReferences[0].UID = types.UID("forged") })
	s.Eventually("it belongs to no sandbox", func() error {
		if got, _ := s.config.Cluster.Workload(x.Namespace, x.Name); got.Sandbox != "" {
			return errors.New("it belongs to " + got.Sandbox)
		}
		return nil
	})
	if all := w.declare(x); all[0].Open || !strings.Contains(all[0].Refused.GetMessage(), "belongs to no sandbox") {
		t.Errorf("she gets %v", all)
	}
}

// TestAnExternalNameLeavesNoNamespace points a Service of an allowed namespace to another address.
func TestAnExternalNameLeavesNoNamespace(t *testing.T) {
	ranges := filepath.Join(t.TempDir(), "cidr.yaml")
	if err := os.WriteFile(ranges, []byte("version: 1\noutboundIPs: [{cidr: 10.99.99.0/24}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, func(settings *proxy.Settings) { settings.CIDRs = ranges })
	s.lists("ada")
	back := s.listen(s.backend.String())
	host := "out." + s.namespace + ".svc"
	s.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "out"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}})
	s.names.mu.Lock()
	s.names.known = map[string][]string{host: {s.backend.String()}}
	s.names.mu.Unlock()
	w := s.connect("ada", "session", 1)
	if conn, refused := w.to(host, back.port); refused.GetReason() != tunnelv1.Reason_REASON_DESTINATION {
		if conn != nil {
			_ = conn.Close()
		}
		t.Errorf("an ExternalName is reached: %v", refused)
	}
	s.Create(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "out-1", Labels: map[string]string{discoveryv1.LabelServiceName: "out"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{s.backend.String()}}}})
	s.Eventually("an endpoint of the Service is reached", func() error {
		conn, refused := w.to(host, back.port)
		if refused != nil {
			return errors.New(refused.Message)
		}
		return conn.Close()
	})
}
