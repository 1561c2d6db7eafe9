package proxy

import (
	"context"
	"fmt"
	"maps"
	"reflect"

	"switchyard.dev/eventbus/lists"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/cluster"
	"switchyard.dev/tunnels/inbound"
)

// review is the outcome of a declaration, as far as it was evaluated.
type review struct {
	w *workstation
	// seen has the verdict on each workload, with the workload that it was made for.
	seen map[inbound.Key]verdict
	// held are the workloads that the workstation holds according to these verdicts.
	held map[inbound.Key]bool
	// took is the revision of the declaration that last took each workload.
	took map[inbound.Key]uint64
}

// verdict is a decision, with the workload that it was made for.
type verdict struct {
	workload cluster.Workload
	found    bool
	refused  *tunnelv1.Refused
}

// evaluate returns the outcome of the current declaration; nil when there is none.
func (r *review) evaluate(ctx context.Context) *tunnelv1.Declared {
	w := r.w
	w.mu.Lock()
	declared := w.declared
	w.mu.Unlock()
	if declared == nil {
		return nil
	}
	now := &tunnelv1.Declared{Revision: declared.Revision}
	held := map[inbound.Key]bool{}
	wanted := map[inbound.Key]bool{}
	for _, t := range declared.Tunnels {
		key := inbound.Key{Namespace: t.GetNamespace(), Name: t.GetName()}
		wanted[key] = true
		state := &tunnelv1.TunnelState{Namespace: key.Namespace, Name: key.Name}
		var workload cluster.Workload
		take := t.GetTake() && r.took[key] != declared.Revision
		if workload, state.Refused = r.decide(ctx, key, take); state.Refused.GetReason() == tunnelv1.Reason_REASON_TAKEN {
			state.Holder = r.holder(key, workload)
		}
		if state.Refused == nil {
			if take {
				r.took[key] = declared.Revision
			}
			state.Open, held[key] = true, true
			for _, p := range workload.Ports {
				state.Ports = append(state.Ports, &tunnelv1.Port{Baseline: p.Baseline, LocalAddress: p.Local})
			}
		}
		now.Tunnels = append(now.Tunnels, state)
	}
	for key := range r.held {
		if !held[key] {
			w.holder.Release(key)
		}
	}
	r.held = held
	r.forget(wanted)
	return now
}

// forget drops the state of tunnels that are not declared any more, so that they can be declared
// again.
func (r *review) forget(wanted map[inbound.Key]bool) {
	maps.DeleteFunc(r.seen, func(key inbound.Key, _ verdict) bool { return !wanted[key] })
	maps.DeleteFunc(r.took, func(key inbound.Key, _ uint64) bool { return !wanted[key] })
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	for key := range r.w.taken {
		if !wanted[key] {
			delete(r.w.taken, key)
		}
	}
}

// decide opens a tunnel, or returns the refusal. take also takes it from any other session.
func (r *review) decide(ctx context.Context, key inbound.Key, take bool) (cluster.Workload, *tunnelv1.Refused) {
	if refused := r.takenBy(key); refused != nil && !take {
		return cluster.Workload{}, refused
	}
	workload, found := r.w.main.cfg.Cluster.Workload(key.Namespace, key.Name)
	if seen, is := r.seen[key]; is && !take && seen.found == found && reflect.DeepEqual(seen.workload, workload) {
		return workload, seen.refused
	}
	refused := r.may(ctx, key, workload, found)
	if refused == nil {
		ports := lists.Map(workload.Ports, func(p cluster.Port) int32 { return p.Baseline })
		if take {
			if refused = r.w.holder.Take(workload, ports); refused == nil {
				r.w.mu.Lock()
				delete(r.w.taken, key)
				r.w.mu.Unlock()
			}
			return workload, refused
		}
		if r.held[key] && !r.w.holder.Holds(key) {
			// Another session took it; the call of NotifyLost that reports it follows.
			if refused = r.takenBy(key); refused == nil {
				refused = taken(key, "another workstation")
			}
			return workload, refused
		}
		refused = r.w.holder.Hold(workload, ports)
	}
	// An undecided verdict, and a tunnel that another session holds, are tried again at the next
	// evaluation.
	if reason := refused.GetReason(); reason != tunnelv1.Reason_REASON_UNAVAILABLE && reason != tunnelv1.Reason_REASON_TAKEN {
		r.seen[key] = verdict{workload, found, refused}
	}
	return workload, refused
}

// may returns why the workstation may not hold a workload, or nil.
func (r *review) may(ctx context.Context, key inbound.Key, workload cluster.Workload, found bool) *tunnelv1.Refused {
	switch {
	case !found:
		return &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_NOT_FOUND,
			Message: fmt.Sprintf("SignadotExternalWorkload %.253s does not exist: check that its sandbox does.", key)}
	case workload.Sandbox == "":
		return &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_FORBIDDEN,
			Message: fmt.Sprintf("SignadotExternalWorkload %s belongs to no sandbox, so its requests cannot be sent to a workstation.", key)}
	case len(workload.Ports) == 0:
		return &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_NOT_FOUND,
			Message: fmt.Sprintf("SignadotExternalWorkload %s lists no ports: add some to the sandbox.", key)}
	}
	refused := r.w.main.cfg.Access.MayUpdate(ctx, r.w.who(), workload.Sandbox)
	if refused.GetReason() == tunnelv1.Reason_REASON_UNAVAILABLE && r.held[key] && r.w.holder.Holds(key) {
		return nil // a tunnel that was allowed stays open
	}
	return refused
}

// takenBy returns the refusal of a workload that another session has taken, or nil.
func (r *review) takenBy(key inbound.Key) *tunnelv1.Refused {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	by, is := r.w.taken[key]
	if !is {
		return nil
	}
	delete(r.seen, key)
	return taken(key, inbound.Described(by, r.w.user.Name))
}

// holder returns the user that holds a workload that was refused as taken, by another session: it can be the same user.
func (r *review) holder(key inbound.Key, workload cluster.Workload) string {
	r.w.mu.Lock()
	by, is := r.w.taken[key]
	r.w.mu.Unlock()
	if is {
		return by
	}
	return r.w.holder.HeldBy(workload)
}

func taken(key inbound.Key, by string) *tunnelv1.Refused {
	return &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_TAKEN,
		Message: fmt.Sprintf("SignadotExternalWorkload %s was taken over by %.253s, and comes back once no other session serves it.", key, by)}
}
