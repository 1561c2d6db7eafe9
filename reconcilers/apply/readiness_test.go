package apply

import (
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
)

func TestATurnOfReadinessIsSeen(t *testing.T) {
	type ready struct{ status, reason, message string }
	tests := []struct {
		name         string
		before, then *ready
		want         bool
	}{
		{"a first condition", nil, &ready{"False", "Pending", "m"}, true},
		{"the status changes", &ready{"False", "Pending", "m"}, &ready{"True", "Ready", "m"}, true},
		{"only the reason changes", &ready{"False", "Pending", "m"}, &ready{"False", "ForkFailed", "m"}, true},
		{"only the message changes", &ready{"False", "Pending", "m"}, &ready{"False", "Pending", "n"}, false},
		{"nothing is known yet", nil, nil, false},
	}
	object := func(r *ready) *crdv1.ForkedWorkload {
		w := &crdv1.ForkedWorkload{}
		if r != nil {
			w.Status.Conditions = []crdv1.StatusCondition{{
				Type: crdv1.ConditionReady, Status: r.status, Reason: r.reason, Message: r.message,
			}}
		}
		return w
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := turned(object(tt.before), object(tt.then)); (got != nil) != tt.want {
				t.Errorf("turned gives %+v, want one: %v", got, tt.want)
			}
		})
	}
}
