package api

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func service(namespace, name, address string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: address, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}

func all(string) bool { return true }

// told returns a difference as text: changed and deleted Services.
func told(d difference) string {
	var out []string
	for _, s := range d.changed {
		out = append(out, fmt.Sprintf("+%s/%s %s", s.Namespace, s.Name, strings.Join(s.Addresses, ",")))
	}
	for _, s := range d.gone {
		out = append(out, fmt.Sprintf("-%s/%s", s.Namespace, s.Name))
	}
	return strings.Join(out, "; ")
}

func TestServicesAreALogOfChanges(t *testing.T) {
	s := newServices("cluster.local")
	s.set(service("a", "one", "10.0.0.1"))
	s.set(service("b", "two", "10.0.0.2"))
	first, ok := s.since(0, all)
	if !ok || told(first) != "+a/one 10.0.0.1; +b/two 10.0.0.2" {
		t.Fatalf("at first: %s, %t", told(first), ok)
	}
	s.set(service("a", "one", "10.0.0.1"))
	if d, _ := s.since(first.to, all); d.to != first.to {
		t.Error("an update without a difference is a change")
	}
	s.set(service("a", "one", "10.0.0.9"))
	s.remove(types.NamespacedName{Namespace: "b", Name: "two"})
	s.remove(types.NamespacedName{Namespace: "b", Name: "two"})
	s.set(service("b", "three", corev1.ClusterIPNone))
	s.set(service("c", "hidden", "10.0.0.3"))
	s.remove(types.NamespacedName{Namespace: "c", Name: "hidden"})
	for name, c := range map[string]struct {
		after   uint64
		visible func(string) bool
		want    string
	}{
		"all":                {first.to, all, "+a/one 10.0.0.9; +b/three ; -b/two; -c/hidden"},
		"of one namespace":   {first.to, func(n string) bool { return n == "b" }, "+b/three ; -b/two"},
		"a part":             {first.to + 1, all, "+b/three ; -b/two; -c/hidden"},
		"from the beginning": {0, all, "+a/one 10.0.0.9; +b/three "},
		"nothing since":      {first.to + 5, all, ""},
	} {
		if d, ok := s.since(c.after, c.visible); !ok || told(d) != c.want {
			t.Errorf("%s: %q, %t", name, told(d), ok)
		}
	}
	s.set(service("b", "two", "10.0.0.2"))
	if d, _ := s.since(first.to, all); told(d) != "+a/one 10.0.0.9; +b/three ; +b/two 10.0.0.2; -c/hidden" {
		t.Errorf("one that comes back: %q", told(d))
	}
	if _, ok := s.since(first.to+100, all); ok {
		t.Error("a change that is still to come is known")
	}
}

func TestAnOldPositionBeginsAgain(t *testing.T) {
	s := newServices("cluster.local")
	for i := range maxGone + 2 {
		name := fmt.Sprint(i)
		s.set(service("a", name, "10.0.0.1"))
		s.remove(types.NamespacedName{Namespace: "a", Name: name})
	}
	if len(s.gone) != maxGone {
		t.Errorf("%d are remembered", len(s.gone))
	}
	if _, ok := s.since(3, all); ok {
		t.Error("a dropped position is known")
	}
	if d, ok := s.since(4, all); !ok || len(d.gone) != maxGone {
		t.Errorf("a remembered position is unknown: %d, %t", len(d.gone), ok)
	}
}

func TestServicesAreReported(t *testing.T) {
	o := service("shop", "cart", "10.0.0.1")
	o.Spec.ClusterIPs = []string{"10.0.0.1", "fd00::1"}
	protocol := "grpc"
	o.Spec.Ports[0].AppProtocol = &protocol
	got := serviceOf(o, "k8s.example")
	if strings.Join(got.DnsNames, " ") != "cart.shop cart.shop.svc cart.shop.svc.k8s.example" || strings.Join(got.Addresses, " ") != "10.0.0.1 fd00::1" || got.Ports[0].Protocol != "TCP" || got.Ports[0].Port != 80 || got.Ports[0].Name != "http" || got.Ports[0].AppProtocol != "grpc" {
		t.Errorf("%v", got)
	}
	o.Spec.Type = corev1.ServiceTypeExternalName
	if got := serviceOf(o, "k8s.example"); len(got.Addresses) > 0 {
		t.Errorf("a name elsewhere has addresses: %v", got)
	}
}

// A token counts over TLS, and from the same host; one that others could read does not.
func TestATokenInClearDoesNotCount(t *testing.T) {
	for name, c := range map[string]struct {
		from   string
		secure bool
		said   []string
		token  string
		says   string
	}{
		"over TLS":                     {"10.1.2.3:4", true, []string{"Bearer abc"}, "abc", ""},
		"plain, from the same host":    {"127.0.0.1:4", false, []string{"bearer abc"}, "abc", ""},
		"plain, from the host by IPv6": {"[::1]:4", false, []string{"bearer abc"}, "abc", ""},
		"plain, from elsewhere":        {"10.1.2.3:4", false, []string{"Bearer abc"}, "", "revoke"},
		"none":                         {"10.1.2.3:4", true, nil, "", "show a token"},
		"two":                          {"10.1.2.3:4", true, []string{"Bearer abc", "Bearer def"}, "", "show one token"},
		"a password":                   {"10.1.2.3:4", true, []string{"Basic abc"}, "", "show one token"},
	} {
		at, err := net.ResolveTCPAddr("tcp", c.from)
		if err != nil {
			t.Fatal(err)
		}
		p := &peer.Peer{Addr: at}
		if c.secure {
			p.AuthInfo = credentials.TLSInfo{}
		}
		ctx := peer.NewContext(context.Background(), p)
		if c.said != nil {
			ctx = metadata.NewIncomingContext(ctx, metadata.MD{"authorization": c.said})
		}
		token, from, err := shown(ctx)
		if token != c.token || from != c.from || (c.says == "") != (err == nil) || err != nil && (status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %q from %s, %v", name, token, from, err)
		}
	}
}
