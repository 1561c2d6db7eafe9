package routingconfig

import (
	"context"
	"fmt"

	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/receipt"
	"switchyard.dev/reconcilers/routing"
)

// receipt returns the progress of the acknowledgement of the declaration, and queries the proxies that
// have not acknowledged it. After all have, it records the digest on the object. The record is valid
// for this digest, regardless of later restarts of proxies, route servers and this process.
func (r *Reconciler) receipt(ctx context.Context, in Input, d Decision, p Published) (Receipt, error) {
	if r.config.Receipts == nil {
		return Receipt{Waived: true}, nil
	}
	if had := d.Declaration != nil && in.Acknowledged(); had || !toAsk(in, d, p) {
		r.forget(in.Config.Name)
		if had {
			return Receipt{Answer: receipt.Answer{Had: true}}, nil
		}
		return Receipt{}, r.outdate(ctx, in)
	}
	ask := receipt.Ask{Key: in.Config.RoutingKey(), Digest: in.ToAcknowledge()}
	for _, m := range in.Named() {
		pods, err := baseline.PodsWithSidecar(ctx, r.config.Client, in.Member(m))
		if err != nil {
			return Receipt{}, fmt.Errorf("find the proxies that can see routing key %q: %w", ask.Key, err)
		}
		ask.Pods = append(ask.Pods, pods...)
	}
	a := r.config.Receipts.Look(ctx, in.Config.Name, ask)
	if !a.Had {
		return Receipt{Answer: a}, r.outdate(ctx, in)
	}
	note := map[string]string{routing.AnnotationAcknowledged: ask.Digest}
	return Receipt{Answer: a}, r.writer.AddFinalizer(ctx, in.Config, note)
}

// outdate removes the record of the acknowledged digest after a change. If the same digest returns, it
// has to be acknowledged again, since proxies may have received the rules in between.
func (r *Reconciler) outdate(ctx context.Context, in Input) error {
	if in.Config.Annotations[routing.AnnotationAcknowledged] == "" {
		return nil
	}
	return r.writer.AddFinalizer(ctx, in.Config, map[string]string{routing.AnnotationAcknowledged: ""})
}

// forget stops the query for an object.
func (r *Reconciler) forget(name string) {
	if r.config.Receipts != nil {
		r.config.Receipts.Forget(name)
	}
}
