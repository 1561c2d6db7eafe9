package member

import (
	"errors"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/condition"
)

// ConditionCaptured is the condition of a member that its second Services, for captures, are written. It is absent if none was refused.
const ConditionCaptured = "CaptureServicesWritten"

// WriteCaptured writes ConditionCaptured, or removes it. now is the transition time.
func (m Made) WriteCaptured(o crdv1.Member, now metav1.Time) {
	names := slices.Sorted(maps.Keys(m.CaptureRefusals))
	if len(names) == 0 {
		condition.Drop(o, ConditionCaptured)
		return
	}
	first := m.CaptureRefusals[names[0]]
	condition.Write(o, condition.Set{ConditionCaptured: condition.False(first.Reason, first.Message)}, now)
}

// RefuseCapture notes that an object for captures was refused, and returns every other error.
func (m *Made) RefuseCapture(name string, err error) error {
	refusal := new(apply.Refusal)
	if !errors.As(err, &refusal) {
		return err
	}
	if m.CaptureRefusals == nil {
		m.CaptureRefusals = map[string]*apply.Refusal{}
	}
	m.CaptureRefusals[name] = refusal
	return nil
}
