package member_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/publish"
)

// publisher answers every Put with its error.
type publisher struct {
	answer  error
	put     []event.Fact
	settled []event.Key
}

func (p *publisher) Put(_ context.Context, f event.Fact) (event.Pos, error) {
	p.put = append(p.put, f)
	return event.Pos{}, p.answer
}

func (p *publisher) Settle(k event.Key) { p.settled = append(p.settled, k) }

func TestState(t *testing.T) {
	now := time.Unix(1000, 0)
	tests := []struct {
		name         string
		answer       error
		ok           bool
		stated, fail bool
		reason       string
	}{
		{name: "a fact is put on the log", ok: true, stated: true},
		{name: "where there is none nobody waits for one"},
		{name: "one that the log will never take is no error", answer: fmt.Errorf("too large: %w", eventbus.ErrRefused), ok: true, reason: publish.ReasonFactRefused},
		{name: "a log that is away is tried again", answer: errors.New("away"), ok: true, fail: true, reason: publish.ReasonLogUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, w := &publisher{answer: tt.answer}, &crdv1.SignadotExternalWorkload{}
			w.Namespace, w.Name = "ns", "x"
			stated, err := member.State(t.Context(), p, w, event.Fact{Key: member.Key(w.MemberKind(), "ns", "x")}, tt.ok, now)
			if stated != tt.stated || (err != nil) != tt.fail {
				t.Errorf("stated: %t, %v", stated, err)
			}
			if tt.ok != (len(p.put) == 1 && p.put[0].Time.Equal(now)) || tt.ok == (len(p.settled) == 1) {
				t.Errorf("put %v, settled %v", p.put, p.settled)
			}
			c := crdv1.FindCondition(w.Status.Conditions, crdv1.ConditionReady)
			if tt.reason == "" && c != nil || tt.reason != "" && (c == nil || c.Reason != tt.reason || !strings.Contains(c.Message, tt.answer.Error())) {
				t.Errorf("Ready is %+v", c)
			}
		})
	}
}
