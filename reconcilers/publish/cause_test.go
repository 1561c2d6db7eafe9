package publish

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
)

func wrote(manager, subresource string, seconds int64) metav1.ManagedFieldsEntry {
	when := metav1.NewTime(time.Unix(seconds, 0))
	return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, Time: &when}
}

func TestCauseNamesWhoWroteTheObjectLast(t *testing.T) {
	o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "n", Namespace: "ns", UID: "u", Generation: 3}}
	for name, c := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    string
	}{
		"the last one":                      {[]metav1.ManagedFieldsEntry{wrote("kubectl", "", 20), wrote("helm", "", 10)}, "kubectl"},
		"not the one of the status":         {[]metav1.ManagedFieldsEntry{wrote("kubectl", "", 20), wrote("manager", "status", 30)}, "kubectl"},
		"not one without a time":            {[]metav1.ManagedFieldsEntry{wrote("kubectl", "", 20), {Manager: "no-time"}}, "kubectl"},
		"not us, who put a finalizer there": {[]metav1.ManagedFieldsEntry{wrote("kubectl", "", 20), wrote(crdv1.FieldManager, "", 30)}, "kubectl"},
		"us, when there is nobody else":     {[]metav1.ManagedFieldsEntry{wrote(crdv1.FieldManager, "", 30)}, crdv1.FieldManager},
		"nobody":                            {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o.ManagedFields = c.entries
			want := event.Cause{Kind: "Pod", Namespace: "ns", Name: "n", UID: "u", Generation: 3, Manager: c.want}
			if diff := cmp.Diff(want, CauseOf("Pod", o)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The author of the specification is named beside its program, except on objects that only the operator has
// written: the author there is the operator's.
func TestACauseNamesTheAuthor(t *testing.T) {
	o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "n", ManagedFields: []metav1.ManagedFieldsEntry{wrote("agent", "", 20)}}}
	for what, c := range map[string]struct{ annotation, want string }{
		"an author":              {crdv1.Author{User: "switchyard:controlplane:default:jo\x07", Groups: []string{"g"}}.String(), "switchyard:controlplane:default:jo"},
		"none":                   {"", ""},
		"one that does not read": {"{", ""},
	} {
		o.Annotations = map[string]string{crdv1.AnnotationAuthor: c.annotation}
		if got := CauseOf("Pod", o); got.Author != c.want || got.Manager != "agent" {
			t.Errorf("%s: the cause is %+v", what, got)
		}
	}
	o.Annotations, o.ManagedFields = map[string]string{crdv1.AnnotationAuthor: crdv1.Author{User: "mallory"}.String()}, []metav1.ManagedFieldsEntry{wrote(crdv1.FieldManager, "", 1)}
	if got := CauseOf("Pod", o); got.Author != "" {
		t.Errorf("what the operator wrote is caused by %+v", got)
	}
}

func TestCreatedObjectsNameTheirCause(t *testing.T) {
	sandbox := event.Cause{Kind: "SignadotSandbox", Name: "s", UID: "u", Generation: 7, Manager: "kubectl-client-side-apply", Author: "jo"}
	made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "n", Annotations: map[string]string{crdv1.AnnotationOnBehalf: OnBehalf(sandbox)},
		ManagedFields: []metav1.ManagedFieldsEntry{wrote(crdv1.FieldManager, "", 1)},
	}}
	if diff := cmp.Diff(sandbox, CauseOf("Pod", made)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(sandbox, MakerOf("Pod", made)); diff != "" {
		t.Error(diff)
	}
	// A user who writes the object cannot attribute the write to another one.
	made.ManagedFields = append(made.ManagedFields, wrote("mallory", "", 2))
	if got := CauseOf("Pod", made); got.Kind != "Pod" || got.Manager != "mallory" {
		t.Errorf("what mallory wrote is caused by %+v", got)
	}
	made.ManagedFields = made.ManagedFields[:1]
	made.Annotations[crdv1.AnnotationOnBehalf] = "{"
	if got := CauseOf("Pod", made); got.Kind != "Pod" {
		t.Errorf("with an annotation that does not read: %+v", got)
	}
}

func TestACauseComesThroughWhatTheObjectWasMadeFor(t *testing.T) {
	sandbox := event.Cause{Kind: "SignadotSandbox", Name: "s", UID: "u", Generation: 7, Manager: "kubectl"}
	group := event.Cause{Kind: "SignadotRouteGroup", Name: "g", UID: "v", Generation: 1, Manager: "argocd"}
	made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "n", Annotations: map[string]string{crdv1.AnnotationOnBehalf: OnBehalf(sandbox, group)},
		ManagedFields: []metav1.ManagedFieldsEntry{wrote(crdv1.FieldManager, "", 1)},
	}}
	want := sandbox
	want.Via = "SignadotRouteGroup/g"
	if diff := cmp.Diff(want, CauseOf("Pod", made)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(group, MakerOf("Pod", made)); diff != "" {
		t.Errorf("the end of it: %s", diff)
	}
}

// Histories, records and terminals get no control characters.
func TestACauseIsPrintable(t *testing.T) {
	made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "n", Annotations: map[string]string{crdv1.AnnotationOnBehalf: OnBehalf(
			event.Cause{Kind: "Sig\x1b[2J", Namespace: "a\nb", Name: "s\u202e", UID: "u\x00", Manager: "kube\x07ctl"}, event.Cause{Kind: "K\r", Name: "g"})},
		ManagedFields: []metav1.ManagedFieldsEntry{wrote(crdv1.FieldManager, "", 1)},
	}}
	want := event.Cause{Kind: "Sig[2J", Namespace: "ab", Name: "s", UID: "u", Manager: "kubectl", Via: "K/g"}
	if diff := cmp.Diff(want, CauseOf("Pod", made)); diff != "" {
		t.Error(diff)
	}
	made.ManagedFields = []metav1.ManagedFieldsEntry{wrote("a\x1b]0;b", "", 1)}
	if got := CauseOf("Pod", made).Manager; got != "a]0;b" {
		t.Errorf("the manager is %q", got)
	}
}
