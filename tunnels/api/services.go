package api

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/eventbus/wake"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// maxGone is how many deleted Services are remembered, for clients that return with a position.
const maxGone = 4096

// services are the Services of the cluster, and when each changed. It is safe for concurrent use.
type services struct {
	domain, epoch string
	changed       wake.Signal

	mu   sync.Mutex
	last uint64 // the newest change
	// floor is the newest change that was dropped.
	floor uint64
	there map[types.NamespacedName]entry
	gone  []departed // the oldest first
}

// entry is a Service, with the number of its last change.
type entry struct {
	service *tunnelv1.Service
	at      uint64
}

// departed is a deleted Service, with the number of the change that deleted it.
type departed struct {
	name types.NamespacedName
	at   uint64
}

func newServices(domain string) *services {
	var epoch [8]byte
	_, _ = rand.Read(epoch[:]) // never fails
	return &services{domain: domain, epoch: hex.EncodeToString(epoch[:]), there: map[types.NamespacedName]entry{}}
}

// set records a Service. An update without a difference is ignored.
func (s *services) set(o *corev1.Service) {
	told, name := serviceOf(o, s.domain), types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, ok := s.there[name]; ok && sameService(have.service, told) {
		return
	}
	s.last++
	s.there[name] = entry{told, s.last}
	s.changed.Send()
}

// remove records that a Service was deleted.
func (s *services) remove(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.there[name]; !ok {
		return
	}
	delete(s.there, name)
	s.last++
	s.gone = append(s.gone, departed{name, s.last})
	if more := len(s.gone) - maxGone; more > 0 {
		s.floor = s.gone[more-1].at
		s.gone = slices.Delete(s.gone, 0, more)
	}
	s.changed.Send()
}

// difference is the changes between two positions.
type difference struct {
	changed []*tunnelv1.Service
	gone    []*tunnelv1.ServiceName
	to      uint64
}

// since returns the changes after a change, in the namespaces for which visible returns true; 0
// is the beginning. It returns false when changes after that one are no longer in memory.
func (s *services) since(after uint64, visible func(namespace string) bool) (difference, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := difference{to: s.last}
	if after > s.last || after != 0 && after < s.floor {
		return d, false
	}
	for name, e := range s.there {
		if e.at > after && visible(name.Namespace) {
			d.changed = append(d.changed, e.service)
		}
	}
	slices.SortFunc(d.changed, func(a, b *tunnelv1.Service) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	if after == 0 {
		return d, true
	}
	for _, g := range s.gone {
		// A Service that exists again is reported as changed.
		if _, back := s.there[g.name]; g.at > after && !back && visible(g.name.Namespace) {
			d.gone = append(d.gone, &tunnelv1.ServiceName{Namespace: g.name.Namespace, Name: g.name.Name})
		}
	}
	return d, true
}

// namespaces returns the namespaces that have Services, sorted.
func (s *services) namespaces() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for name := range s.there {
		out = append(out, name.Namespace)
	}
	return lists.Unique(out)
}

// serviceOf returns the message that describes a Service.
func serviceOf(o *corev1.Service, domain string) *tunnelv1.Service {
	out := &tunnelv1.Service{Namespace: o.Namespace, Name: o.Name}
	if o.Spec.Type != corev1.ServiceTypeExternalName {
		addresses := o.Spec.ClusterIPs
		if len(addresses) == 0 {
			addresses = []string{o.Spec.ClusterIP}
		}
		out.Addresses = append(out.Addresses, lists.Filter(addresses, func(a string) bool {
			return a != "" && a != corev1.ClusterIPNone
		})...)
	}
	short := o.Name + "." + o.Namespace
	out.DnsNames = []string{short, short + ".svc", fmt.Sprintf("%s.svc.%s", short, domain)}
	for _, p := range o.Spec.Ports {
		port := &tunnelv1.ServicePort{Name: p.Name, Port: uint32(p.Port), Protocol: string(cmp.Or(p.Protocol, corev1.ProtocolTCP))}
		if p.AppProtocol != nil {
			port.AppProtocol = *p.AppProtocol
		}
		out.Ports = append(out.Ports, port)
	}
	return out
}

func sameService(a, b *tunnelv1.Service) bool {
	return slices.Equal(a.GetAddresses(), b.GetAddresses()) && slices.Equal(a.GetDnsNames(), b.GetDnsNames()) &&
		slices.EqualFunc(a.GetPorts(), b.GetPorts(), func(a, b *tunnelv1.ServicePort) bool {
			return a.GetName() == b.GetName() && a.GetPort() == b.GetPort() && a.GetProtocol() == b.GetProtocol() && a.GetAppProtocol() == b.GetAppProtocol()
		})
}
