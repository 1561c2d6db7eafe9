package member

import (
	"context"
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/apply"
)

// Mapping is one Service of a baseline and the Service that replaces it.
type Mapping struct {
	// From is the name of the baseline Service; empty for the Service of a tunnel without a baseline.
	From string
	// Service is the one to apply; nil if no port of From is routed to the member.
	Service *corev1.Service
	// Ports are the TCP ports with requests that are taken from the baseline, sorted by Port.
	// TargetPort is the port that the baseline's pods listen on, by which its sidecar identifies a
	// connection. While pods of several revisions of the baseline exist, there may be more than one,
	// each with an entry.
	Ports []crdv1.MappedPort
	// Missing are the ports that are not routed to the member, sorted, without duplicates. For one that
	// is in Ports as well, requests fail instead of being served by the baseline.
	Missing []int32
	// Staying are ports with requests that stay at the baseline on purpose: nothing in the spec maps
	// them, or the member cannot serve them. For one that is in Ports, and not in Missing, only the
	// requests to pods of another revision stay.
	Staying []int32
	// Uncarried are those of Missing that no tunnel carries, so that their requests fail.
	Uncarried []int32
}

// AsStated returns the Mappings in a status, without Services to apply, and by Mapping.From the
// Services to keep: for a member with currently unknown Mappings. A deleted Service stays as a name
// without an address, so that its requests fail instead of reaching pods of the baseline. services are
// the candidates for the member's own Services; info may be nil.
func AsStated(info *crdv1.WorkloadRoutingInfo, m metav1.Object, services []corev1.Service) ([]Mapping, map[string]*corev1.Service) {
	standing := map[string]*corev1.Service{}
	if info == nil {
		return nil, standing
	}
	var all []Mapping
	for _, s := range info.Services {
		all = append(all, Mapping{From: s.From, Ports: s.Ports, Missing: slices.Clone(s.MissingPorts)})
		if s.To == "" {
			continue
		}
		standing[s.From] = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: m.GetNamespace(), Name: s.To}}
		if have := serviceNamed(services, s.To); have != nil && apply.IsOwned(have, m.GetUID()) {
			standing[s.From] = have
		}
	}
	return all, standing
}

// SurplusServices returns those of the Services that the member with this UID made and that
// no Mapping wants.
func SurplusServices(services []corev1.Service, m types.UID, wanted []Mapping) []*corev1.Service {
	all := lists.Map(wanted, func(m Mapping) *corev1.Service { return m.Service })
	return Surplus(services, m, lists.Filter(all, func(s *corev1.Service) bool { return s != nil }))
}

// Surplus returns the objects of one kind that the member with this UID made and that are not wanted.
func Surplus[T any, P apply.Object[T]](have []T, m types.UID, wanted []P) (out []P) {
	for i := range have {
		o := P(&have[i])
		if apply.IsOwned(o, m) && !slices.ContainsFunc(wanted, func(w P) bool { return w.GetName() == o.GetName() }) {
			out = append(out, o)
		}
	}
	return out
}

// ApplyAll writes objects of one kind; have are the known ones. refused gets the error of each, and returns those to retry.
func ApplyAll[T any, P apply.Object[T]](ctx context.Context, w apply.Writer, wanted []P, have []T, refused func(name string, err error) error) error {
	var errs []error
	for _, o := range wanted {
		var before P
		if i := slices.IndexFunc(have, func(h T) bool { return P(&h).GetName() == o.GetName() }); i >= 0 {
			before = P(&have[i])
		}
		_, err := apply.Apply(ctx, w, o, before)
		errs = append(errs, refused(o.GetName(), err))
	}
	return errors.Join(errs...)
}

// serviceNamed returns the Service of this name, or nil.
func serviceNamed(services []corev1.Service, name string) *corev1.Service {
	return lists.First(lists.Pointers(services), func(s *corev1.Service) bool { return s.Name == name })
}

// Made is the result of applying the Services of a member.
type Made struct {
	// Services are those that are there, by Mapping.From.
	Services map[string]*corev1.Service
	// ServiceRefusals are why Services were not written, by Mapping.From.
	ServiceRefusals map[string]*apply.Refusal
	// CaptureRefusals are why objects for captures were not written.
	CaptureRefusals map[string]*apply.Refusal
}

// ApplyServices writes the Services of the Mappings for the member with this UID. have are the known
// Services of its namespace; if a write fails, the existing one is kept, as are those in standing.
// Refusals are recorded in Made, which is valid even with an error. Errors are to be retried.
func ApplyServices(ctx context.Context, w apply.Writer, m types.UID, all []Mapping, have []corev1.Service, standing map[string]*corev1.Service) (Made, error) {
	made := Made{Services: map[string]*corev1.Service{}, ServiceRefusals: map[string]*apply.Refusal{}}
	maps.Copy(made.Services, standing)
	var errs []error
	for _, mapping := range all {
		if mapping.Service == nil {
			continue
		}
		before := serviceNamed(have, mapping.Service.Name)
		if before != nil && apply.IsOwned(before, m) {
			made.Services[mapping.From] = before
		}
		s, err := apply.Apply(ctx, w, mapping.Service, before)
		if refusal := new(apply.Refusal); errors.As(err, &refusal) {
			made.ServiceRefusals[mapping.From] = refusal
		} else if err != nil {
			errs = append(errs, err)
		} else {
			made.Services[mapping.From] = s
		}
	}
	return made, errors.Join(errs...)
}

// Mapped returns the Mappings for a status.
func (m Made) Mapped(all []Mapping) []crdv1.ServiceMapping {
	var out []crdv1.ServiceMapping
	for _, mapping := range all {
		s := crdv1.ServiceMapping{From: mapping.From, Ports: mapping.Ports, MissingPorts: mapping.Missing}
		if have := m.Services[mapping.From]; have != nil {
			s.To = have.Name
		}
		out = append(out, s)
	}
	return out
}

// Pairs returns the Mappings for a fact. It returns false while a wanted Service has no address yet: a
// fact with only some of the Services would route the remaining requests to the baseline. A refused
// Service has its name without an address: its requests fail.
func (m Made) Pairs(all []Mapping) ([]*factv1.ServicePair, bool) {
	var out []*factv1.ServicePair
	for _, mapping := range all {
		have := m.Services[mapping.From]
		if have == nil && m.ServiceRefusals[mapping.From] != nil {
			have = mapping.Service
		} else if mapping.Service != nil && !Reachable(have) {
			return nil, false
		}
		if have != nil {
			out = append(out, Pair(mapping.From, mapping.Ports, have))
		}
	}
	return out, true
}

// Pair returns the entry of a fact for a baseline Service: the Service that replaces it, and its ports;
// no ports if to is nil. WorkloadPort is the port that the baseline listens on.
func Pair(from string, ports []crdv1.MappedPort, to *corev1.Service) *factv1.ServicePair {
	p := &factv1.ServicePair{From: from}
	if to != nil {
		p.To, p.ClusterIp = to.Name, to.Spec.ClusterIP
	}
	for _, port := range ports {
		p.Ports = append(p.Ports, &factv1.PortPair{Port: uint32(port.Port), WorkloadPort: uint32(port.TargetPort)})
	}
	return p
}

// Reachable reports whether a Service is there and has got its address.
func Reachable(s *corev1.Service) bool { return s != nil && s.Spec.ClusterIP != "" }
