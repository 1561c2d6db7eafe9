package member

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/publish"
)

// State puts the fact of a member on the log, and reports whether it is there. Without a fact (ok is
// false) it settles the member's key. m has the computed status, which is not written yet: if the log
// does not accept the fact, State sets Ready to False in it. Errors are to be retried.
func State(ctx context.Context, p publish.Publisher, m crdv1.Member, fact event.Fact, ok bool, now time.Time) (stated bool, err error) {
	if !ok {
		p.Settle(Key(m.MemberKind(), m.GetNamespace(), m.GetName()))
		return false, nil
	}
	fact.Time = now
	putting, cancel := context.WithTimeout(ctx, publish.PutTimeout)
	defer cancel()
	_, err = p.Put(putting, fact)
	if err == nil {
		return true, nil
	}
	ready := condition.False(publish.ReasonLogUnavailable, fmt.Sprintf("The routing log cannot be written: %v. Retrying.", err))
	if publish.Refused(err) {
		// Trying again would not help, so it is no error.
		ready = condition.False(publish.ReasonFactRefused, fmt.Sprintf(
			"The routing log refuses the fact about this workload: %s. Choose a baseline with fewer Services.", publish.WhyRefused(err)))
		err = nil
	} else {
		err = fmt.Errorf("state how %s %s/%s is reached: %w", m.MemberKind(), m.GetNamespace(), m.GetName(), err)
	}
	condition.Write(m, condition.Set{crdv1.ConditionReady: ready}, metav1.NewTime(now))
	return false, err
}
