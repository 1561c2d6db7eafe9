package cluster_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/tests/world"
	"switchyard.dev/tunnels/cluster"
	"switchyard.dev/tunnels/policy"
)

func TestMain(m *testing.M) { world.Main(m) }

func TestAddressesHaveTheirService(t *testing.T) {
	w := world.Shared(t)
	c, err := cluster.New(cluster.Config{Access: w.Config, Domain: "corp.local", Reach: policy.ReachCluster})
	w.Must(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	w.Must(c.Synced(t.Context()))

	shop, bank := w.NewNamespace("shop"), w.NewNamespace("bank")
	service := func(namespace string) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cart"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		w.Create(s)
		return s
	}
	hers, his := service(shop), service(bank)
	w.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: bank, Name: "headless"}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}}})
	at := func(s *corev1.Service) netip.Addr { return netip.MustParseAddr(s.Spec.ClusterIP) }
	none := netip.MustParseAddr("10.244.0.3")
	is := func(what string, address netip.Addr, host, want string) {
		t.Helper()
		w.Eventually(what, func() error {
			if got := c.Namespace(address, host); got != want {
				return fmt.Errorf("it is of %q, not %q", got, want)
			}
			return nil
		})
	}
	is("an address of a Service", at(hers), at(hers).String(), shop)
	is("an address of another", at(his), at(his).String(), bank)
	is("an address of a Service, as IPv6", netip.AddrFrom16(at(hers).As16()), "", shop)
	is("an address counts more than a name", at(his), "cart."+shop, bank)
	elsewhere := netip.MustParseAddr("93.184.216.34")
	w.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "out"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}})
	slice := func(namespace, service string, address netip.Addr) {
		w.Create(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address.String()}}}})
	}
	onNode := netip.MustParseAddr("10.250.0.7")
	slice(shop, "cart", none)
	slice(bank, "headless", none)
	slice(bank, "kubelet", onNode)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
	w.Create(node)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: onNode.String()}, {Type: corev1.NodeHostName, Address: "node"}}
	_, err = w.Kube.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	w.Must(err)
	for address, want := range map[netip.Addr]policy.Kind{none: policy.KindPod, onNode: policy.KindNode, elsewhere: policy.KindUnknown} {
		w.Eventually("the kind of "+address.String(), func() error {
			if got := c.Kind(address); got != want {
				return fmt.Errorf("it is %d, not %d", got, want)
			}
			return nil
		})
	}
	is("an ExternalName", elsewhere, "out."+shop+".svc", "")
	is("a name that DNS answers with another address", elsewhere, "cart."+shop+".svc.corp.local", "")
	is("an address of no Service", none, none.String(), "")
	for host, want := range map[string]string{
		"cart." + shop: shop, "CART." + shop + ".": shop, "cart." + shop + ".svc": shop, "cart." + shop + ".svc.corp.local": shop, "pod-0.cart." + shop + ".svc.corp.local.": shop,
		"headless." + bank:                  bank,
		"cart." + shop + ".svc.example.com": "", "cart." + shop + ".example.com": "", "other." + shop: "", "example.com": "", "cart": "", "": "",
	} {
		is(host, none, host, want)
	}
	for host, want := range map[string]bool{"cart." + shop: true, "pod-0.cart." + shop + ".svc.corp.local.": true, "headless." + bank + ".svc": true,
		"out." + shop: false, "other." + shop: false, "cart." + shop + ".example.com": false, "example.com": false, "": false} {
		if got := c.Service(host); got != want {
			t.Errorf("%q names a Service: %t", host, got)
		}
	}
	w.Remove(hers)
	is("an address of a deleted Service", at(hers), "", "")
}
