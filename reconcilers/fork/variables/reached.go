package variables

import (
	"slices"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Reached is the address of another fork of the sandbox, for patches that refer to it.
type Reached struct {
	// Host is the DNS name of its Service; empty when it has none yet.
	Host string
	// Port is the first port of that Service.
	Port int32
}

// ReachedBy returns how a fork is reached: by the first of its Services, by the name of the
// baseline's, which is of, among all that it has.
func ReachedBy(w *crdv1.ForkedWorkload) (reached Reached, of string, all []string) {
	if w.Status.RoutingConfig == nil {
		return Reached{}, "", nil
	}
	for _, m := range w.Status.RoutingConfig.Services {
		if m.To == "" || len(m.Ports) == 0 {
			continue
		}
		all = append(all, m.From)
		if of == "" || m.From < of {
			of, reached = m.From, Reached{Host: m.To + "." + w.Namespace + ".svc", Port: m.Ports[0].Port}
		}
	}
	slices.Sort(all)
	return reached, of, all
}
