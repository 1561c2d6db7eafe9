package tunnelholders

import (
	"cmp"
	"context"
	"slices"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/reconcilers/tunnelholders/holders"
)

// Takeover is a tunnel that a user took from another user's live session.
type Takeover struct {
	// Workload is the external workload.
	Workload holders.Workload
	// From and By are the names of the users in the cluster.
	From, By string
}

// maxTakeovers is how many takeovers wait to be reported; further ones are only logged.
const maxTakeovers = 64

// report queues a takeover, without blocking.
func (t *Tunnels) report(one Takeover) {
	t.config.Logger.Info("a tunnel was taken", "workload", one.Workload.Namespace+"/"+one.Workload.Name, "from", one.From, "by", one.By)
	select {
	case t.takeovers <- one:
	default:
	}
}

// reportAll reports takeovers until ctx ends.
func (t *Tunnels) reportAll(ctx context.Context) {
	for {
		select {
		case one := <-t.takeovers:
			if t.config.Report != nil {
				t.config.Report(ctx, one)
			}
		case <-ctx.Done():
			return
		}
	}
}

// heldTunnel is a tunnel that a live session holds at the proxy in a pod.
type heldTunnel struct {
	*tunnelv1.Held
	pod string
}

// heldAt returns the tunnels that are held, in order.
func heldAt(j holders.Judgement) (out []heldTunnel) {
	for _, h := range j.Held {
		if held := h.Elsewhere(); held != nil {
			out = append(out, heldTunnel{held, h.Pod})
		}
	}
	slices.SortFunc(out, func(a, b heldTunnel) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetUid(), b.GetUid()))
	})
	return out
}

// heldElsewhere returns those that are held at other proxies than the one in a pod.
func heldElsewhere(all []heldTunnel, pod string) (out []*tunnelv1.Held) {
	for _, one := range all {
		if one.pod != pod {
			out = append(out, one.Held)
		}
	}
	return out
}
