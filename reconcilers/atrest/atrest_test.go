package atrest_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/reconcilers/atrest"
)

func TestObjectAtRestIsTreatedAsDeleting(t *testing.T) {
	at := time.Date(2026, 11, 23, 7, 0, 0, 0, time.UTC)
	earlier := metav1.NewTime(at.Add(-time.Hour))
	for _, tt := range []struct {
		name         string
		annotation   string
		installation string
		deleted      *metav1.Time
		want         *metav1.Time
	}{
		{"for this installation", atrest.Mark("mine", at), "mine", nil, &metav1.Time{Time: at}},
		{"for one that is gone", atrest.Mark("other", at), "mine", nil, nil},
		{"while nobody knows which one this is", atrest.Mark("", at), "", nil, nil},
		{"not at all", "", "mine", nil, nil},
		{"by something that is no mark", "mine/soon", "mine", nil, nil},
		{"and being deleted", atrest.Mark("mine", at), "mine", &earlier, &earlier},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &metav1.ObjectMeta{DeletionTimestamp: tt.deleted, Annotations: map[string]string{atrest.Annotation: tt.annotation}}
			atrest.ShowAsDeleted("mine")(o)
			if tt.installation == "" {
				o = &metav1.ObjectMeta{Annotations: map[string]string{atrest.Annotation: tt.annotation}}
				atrest.ShowAsDeleted("")(o)
			}
			if got := o.DeletionTimestamp; (got == nil) != (tt.want == nil) || got != nil && !got.Equal(tt.want) {
				t.Errorf("it is being deleted since %v, want %v", got, tt.want)
			}
		})
	}
}
