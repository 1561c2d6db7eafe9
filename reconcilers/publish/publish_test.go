package publish

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/publisher"
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

func TestWhatAConfigMapSaysOfTheLog(t *testing.T) {
	mark := event.Before("e")
	mark.Seq = 12
	old := event.Mark{Pos: event.Pos{Epoch: "e", Seq: 12}}
	tests := []struct {
		name  string
		data  map[string]string
		want  publisher.Witness
		fails bool
	}{
		{"what was saved", map[string]string{
			"epoch": "e", "sequence": "12", "checksum": mark.Chain.String(), "since": "2026-11-21T08:00:00Z",
			"epochBefore": "d", "endedBecause": "it was full",
		}, publisher.Witness{
			Mark: mark, Since: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC), Before: "d", Ended: "it was full",
		}, false},
		{"what an older version saved", map[string]string{"epoch": "e", "sequence": "12"}, publisher.Witness{Mark: old}, false},
		{"nothing was saved", nil, publisher.Witness{}, false},
		{"a sequence without an epoch says nothing", map[string]string{"sequence": "12"}, publisher.Witness{}, false},
		{"a sequence that is no number", map[string]string{"epoch": "e", "sequence": "x"}, publisher.Witness{}, true},
		{"a checksum that is none", map[string]string{"epoch": "e", "sequence": "1", "checksum": "x"}, publisher.Witness{}, true},
		{"a time that is none", map[string]string{"epoch": "e", "sequence": "1", "since": "x"}, publisher.Witness{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := witnessOf(tt.data)
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("%v, %v", got, err)
			}
			if err != nil || tt.want == (publisher.Witness{}) {
				return
			}
			again := map[string]string{}
			for key, value := range dataOf(got) {
				if value != nil {
					again[key] = *value
				}
			}
			if diff := cmp.Diff(tt.data, again); diff != "" {
				t.Errorf("written again: %s", diff)
			}
		})
	}
}
