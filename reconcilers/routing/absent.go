package routing

import (
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/baseline"
)

// AnnotationMembers on a RoutingConfig is which baselines its members represent, as was
// observed last: so that requests with its key do not reach these baselines when members are
// gone and the log is lost.
const AnnotationMembers = "signadot.com/members"

// How much space baselines take at most, in bytes: an event of the log has eventbus.MaxEvent, and
// the annotations of an object 256 KiB. Members beyond that are left out, so that requests for
// them reach their baselines once they are deleted.
const (
	maxDeclared = 60 << 10
	maxNoted    = 64 << 10
)

// represented is which baseline a member represents, in the namespace of the member.
type represented struct {
	// Kind is that of the routes API.
	Kind     string   `json:"kind"`
	Name     string   `json:"name"`
	Services []served `json:"services,omitempty"`
}

// served is a Service of a baseline, and the one that represents it.
type served struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Ports are pairs of the Service's port and that of the workload.
	Ports [][2]uint32 `json:"ports"`
	// Former: the Service has selected the baseline and no longer does.
	Former bool `json:"former,omitempty"`
}

// represents returns the baseline that a member represents: from its status or, if it has none, from
// AnnotationMembers (noted). It is nil if the baseline is unknown, the member has none, or it is a
// virtual workload.
func (r Routing) represents(m crdv1.SandboxedWorkload, noted map[string]*represented) *represented {
	have := r.Member(m)
	if m.Kind == crdv1.KindVirtualWorkload {
		return nil
	}
	was := noted[NameIn(m).String()]
	if have == nil && was == nil {
		return r.specified(m)
	}
	if have == nil {
		return was
	}
	at, ok := have.BaselineRef()
	if !ok || at.Namespace != m.Namespace {
		return nil
	}
	is := &represented{Kind: baseline.RoutedKind(at), Name: at.Name}
	if have.ObservedBaseline() == nil || have.RoutingInfo() == nil {
		if was != nil && was.Kind == is.Kind && was.Name == is.Name {
			return was
		}
		return nil
	}
	is.Services = servicesOf(have.RoutingInfo())
	return is
}

// servicesOf returns the Services of a baseline that others represent.
func servicesOf(info *crdv1.WorkloadRoutingInfo) []served {
	var out []served
	for _, s := range info.Services {
		if s.To == "" {
			continue
		}
		of := served{From: s.From, To: s.To, Former: info.Former(s.From)}
		for _, p := range s.Ports {
			of.Ports = append(of.Ports, [2]uint32{uint32(p.Port), uint32(p.TargetPort)})
		}
		out = append(out, of)
	}
	return out
}

// Specified is the baseline of a member that does not exist, and its Services.
type Specified struct {
	// Baseline is in the namespace of the member.
	Baseline crdv1.ObjectRef
	Services []crdv1.ServiceMapping
}

// specified returns which baseline a member would represent; nil where that is not known.
func (r Routing) specified(m crdv1.SandboxedWorkload) *represented {
	s, known := r.Specified[NameIn(m)]
	if !known {
		return nil
	}
	return &represented{Kind: baseline.RoutedKind(s.Baseline), Name: s.Baseline.Name, Services: servicesOf(&crdv1.WorkloadRoutingInfo{Services: s.Services})}
}

// Unknown returns the members that do not exist and have no recorded baseline.
func (r Routing) Unknown() []crdv1.SandboxedWorkload {
	var out []crdv1.SandboxedWorkload
	noted := r.noted()
	for _, m := range r.Named() {
		if r.Member(m) == nil && r.represents(m, noted) == nil {
			out = append(out, m)
		}
	}
	return out
}

// noted returns the content of AnnotationMembers, by the name of the member.
func (r Routing) noted() map[string]*represented {
	out := map[string]*represented{}
	if err := json.Unmarshal([]byte(r.Config.Annotations[AnnotationMembers]), &out); err != nil {
		return nil // It is not what we have written.
	}
	return out
}

// Absent reports whether a member that is named does not exist, while it is known which
// baseline it represents: requests for that baseline fail.
func (r Routing) Absent(m crdv1.SandboxedWorkload) bool {
	return r.Member(m) == nil && r.represents(m, r.noted()) != nil
}

// Note returns the wanted content of AnnotationMembers.
func (r Routing) Note() string {
	noted, all, size := r.noted(), map[string]*represented{}, 0
	for _, m := range r.Named() {
		s := r.represents(m, noted)
		if s == nil {
			continue
		}
		name := NameIn(m).String()
		text, _ := json.Marshal(map[string]*represented{name: s}) // It holds nothing that has no form.
		if size += len(text); size > maxNoted {
			break
		}
		all[name] = s
	}
	if len(all) == 0 {
		return ""
	}
	text, _ := json.Marshal(all)
	return string(text)
}

// addBaselines adds the baselines of members to a declaration, those of missing members first. Those of
// existing members can also be added later.
func (r Routing) addBaselines(d *factv1.RoutingDeclared) {
	noted := r.noted()
	size := sizeOf(d)
	for _, absent := range []bool{true, false} {
		for i, m := range r.Named() {
			s := r.represents(m, noted)
			if s == nil || absent != (r.Member(m) == nil) {
				continue
			}
			was := sizeOf(d.Members[i])
			s.addTo(d.Members[i])
			if size += sizeOf(d.Members[i]) - was; size > maxDeclared {
				d.Members[i].Baseline, d.Members[i].Services = nil, nil
				return
			}
		}
	}
}

// sizeOf returns how much a message takes in an event.
func sizeOf(m proto.Message) int {
	text, _ := protojson.Marshal(m) // It has no form only where the API server takes none.
	return len(text)
}

// addTo adds it to a member.
func (s *represented) addTo(m *factv1.Member) {
	m.Baseline = &factv1.ObjectRef{Kind: s.Kind, Namespace: m.GetNamespace(), Name: s.Name}
	for _, of := range s.Services {
		pair := &factv1.ServicePair{From: of.From, To: of.To, Former: of.Former}
		for _, p := range of.Ports {
			pair.Ports = append(pair.Ports, &factv1.PortPair{Port: p[0], WorkloadPort: p[1]})
		}
		m.Services = append(m.Services, pair)
	}
}
