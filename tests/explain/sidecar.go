package explain

import (
	"context"
	"fmt"
	"slices"

	"switchyard.dev/tests/sidecar"
)

// podsPerBaseline is how many pods with a sidecar each baseline has.
const podsPerBaseline = 2

// pod is one with a sidecar.
type pod struct {
	*sidecar.Client
	name, baseline string
}

// openSidecars connects the sidecars of all pods.
func (w *World) openSidecars(ctx context.Context, address string) error {
	conn, err := w.dial(address)
	if err != nil {
		return err
	}
	for _, name := range meshed {
		for i := range podsPerBaseline {
			p := &pod{name: fmt.Sprintf("%s-%d", name, i), baseline: name}
			if p.Client, err = sidecar.Open(ctx, conn, p.name+"@"+p.baseline, workload(p.baseline)); err != nil {
				return err
			}
			w.sidecars = append(w.sidecars, p)
			w.running.Go(func() error {
				if err := p.Run(); ctx.Err() == nil {
					return fmt.Errorf("pod %s: %w", p.name, err)
				}
				return nil
			})
		}
	}
	return nil
}

// holds reports whether the sidecar of a pod is held.
func (w *World) holds(name string) bool {
	return slices.ContainsFunc(w.sidecars, func(p *pod) bool { return p.name == name && p.Held() })
}
