package routingconfig

import (
	"context"
	"fmt"

	"switchyard.dev/reconcilers/forkedworkload"
	"switchyard.dev/reconcilers/receipt"
)

// receipt gives what is known of who has acknowledged the declaration, and sees to
// it that those are asked who have not. Once all have, that is noted on the object:
// it holds for this digest, whatever becomes of proxies, route servers and this
// process.
func (r *Reconciler) receipt(ctx context.Context, in Input, d Decision, p Published) (Receipt, error) {
	if r.config.Receipts == nil {
		return Receipt{Waived: true}, nil
	}
	had := d.Declaration != nil && acknowledged(in)
	if had || !toAsk(in, d, p) {
		r.forget(in.Config.Name)
		return Receipt{Answer: receipt.Answer{Had: had}}, nil
	}
	ask := receipt.Ask{Key: in.Config.RoutingKey(), Digest: digest(in)}
	for _, m := range members(in) {
		w := in.Forks[MemberName{m.Namespace, m.Name}]
		pods, err := forkedworkload.PodsWithSidecar(ctx, r.config.Client, w)
		if err != nil {
			return Receipt{}, fmt.Errorf("find the proxies that can see routing key %q: %w", ask.Key, err)
		}
		ask.Pods = append(ask.Pods, pods...)
	}
	a := r.config.Receipts.Look(ctx, in.Config.Name, ask)
	if a.Had {
		note := map[string]string{AnnotationAcknowledged: ask.Digest}
		if err := r.writer.AddFinalizer(ctx, in.Config, note); err != nil {
			return Receipt{}, err
		}
	}
	return Receipt{Answer: a}, nil
}

// forget ends what is asked for an object.
func (r *Reconciler) forget(name string) {
	if r.config.Receipts != nil {
		r.config.Receipts.Forget(name)
	}
}
