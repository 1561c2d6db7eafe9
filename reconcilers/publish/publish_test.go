package publish

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/event"
)

func TestCauseNamesWhoWroteTheObjectLast(t *testing.T) {
	entry := func(manager, subresource string, seconds int64) metav1.ManagedFieldsEntry {
		when := metav1.NewTime(time.Unix(seconds, 0))
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, Time: &when}
	}
	o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "n", Namespace: "ns", UID: "u", Generation: 3,
		ManagedFields: []metav1.ManagedFieldsEntry{
			entry("kubectl", "", 20), entry("helm", "", 10), entry("switchyard", "status", 30), {Manager: "no-time"},
		},
	}}
	want := event.Cause{Kind: "Pod", Namespace: "ns", Name: "n", UID: "u", Generation: 3, Manager: "kubectl"}
	if diff := cmp.Diff(want, CauseOf("Pod", o)); diff != "" {
		t.Error(diff)
	}
	o.ManagedFields = nil
	if got := CauseOf("Pod", o).Manager; got != "" {
		t.Error(got)
	}
}

func TestPositionOfAConfigMap(t *testing.T) {
	tests := []struct {
		name  string
		data  map[string]string
		want  event.Pos
		fails bool
	}{
		{"what was saved", map[string]string{"epoch": "e", "sequence": "12"}, event.Pos{Epoch: "e", Seq: 12}, false},
		{"nothing was saved", nil, event.Pos{}, false},
		{"a sequence without an epoch says nothing", map[string]string{"sequence": "12"}, event.Pos{}, false},
		{"a sequence that is no number", map[string]string{"epoch": "e", "sequence": "x"}, event.Pos{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := positionOf(&corev1.ConfigMap{Data: tt.data})
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}
