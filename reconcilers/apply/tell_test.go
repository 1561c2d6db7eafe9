package apply

import (
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	crdv1 "switchyard.dev/protos/crd/v1"
)

func TestWhichChangesRecordAnEvent(t *testing.T) {
	ready := func(status, reason, message string) *crdv1.SignadotSandbox {
		s := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
		if status != "" {
			s.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: status, Reason: reason, Message: message}}
		}
		return s
	}
	part := func(s *crdv1.SignadotSandbox) *crdv1.SignadotSandbox {
		s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(ready("", "", ""), crdv1.GroupVersion().WithKind("SignadotSandbox"))}
		return s
	}
	of := func(s *crdv1.SignadotSandbox) *crdv1.SignadotSandbox {
		s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(ready("", "", ""), schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Environment"})}
		return s
	}
	going := func(s *crdv1.SignadotSandbox) *crdv1.SignadotSandbox {
		s.DeletionTimestamp = &metav1.Time{}
		return s
	}
	never := ready("", "", "")
	for _, tt := range []struct {
		name          string
		before, after *crdv1.SignadotSandbox
		want          string
	}{
		{"it is ready", ready("False", "ForkProgressing", "m"), ready("True", "Ready", "All is well."), "Normal Ready All is well."},
		{"it ceases to be", ready("True", "Ready", "m"), ready("False", "ForkFailed", "It crashes."), "Warning ForkFailed It crashes."},
		{"another thing stands in the way than before", ready("False", "BaselineNotFound", "m"), ready("False", "ForkFailed", "It crashes."), "Warning ForkFailed It crashes."},
		{"it is wrong from the beginning", never, ready("False", "InvalidSpec", "No id."), "Warning InvalidSpec No id."},
		{"it has only begun", never, ready("False", "Pending", "m"), ""},
		{"it is on its way", ready("False", "Pending", "m"), ready("False", "ForkProgressing", "m"), ""},
		{"it changes, and is on its way again", ready("True", "Ready", "m"), ready("False", "ForkProgressing", "m"), ""},
		{"only the words are others", ready("False", "ForkFailed", "m"), ready("False", "ForkFailed", "n"), ""},
		{"nothing has changed", ready("True", "Ready", "m"), ready("True", "Ready", "m"), ""},
		{"nothing is known", never, never, ""},
		{"it is a part of another object", part(never.DeepCopy()), part(ready("False", "InvalidPatch", "m")), ""},
		{"it is a part of something that is not ours", of(never.DeepCopy()), of(ready("False", "InvalidPatch", "m")), "Warning InvalidPatch m"},
		{"it is being deleted, as was asked for", ready("True", "Ready", "m"), going(ready("False", "Deleting", "Left: 1.")), "Normal Deleting Left: 1."},
		{"there is no reason to say", never, ready("False", "", "m"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, ok := EventOf(tt.before, tt.after)
			if got := strings.TrimSpace(strings.Join([]string{e.Type, e.Reason, e.Note}, " ")); ok != (tt.want != "") || ok && got != tt.want {
				t.Errorf("%q, %t", got, ok)
			}
		})
	}
}

func TestEachCaveatThatBeginsIsAnEvent(t *testing.T) {
	with := func(caveats string) *crdv1.SignadotSandbox {
		s := &crdv1.SignadotSandbox{}
		if caveats != "" {
			s.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionCaveats, Status: "True", Message: caveats}}
		}
		return s
	}
	for _, tt := range []struct{ before, after, want string }{
		{"", "a", "a"}, {"", "a\nb", "a b"}, {"a", "b\na", "b"}, {"a\nb", "b", ""}, {"a", "a", ""}, {"a", "", ""}, {"", "", ""},
	} {
		var got []string
		for _, e := range CaveatsOf(with(tt.before), with(tt.after)) {
			if got = append(got, e.Note); e.Type != "Warning" || e.Reason != "Caveat" {
				t.Errorf("%+v", e)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("from %q to %q: %q, want %q", tt.before, tt.after, got, tt.want)
		}
	}
}

func TestANoteIsBoundedBetweenTwoCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Repeat(rapid.StringN(1, 5, -1).Draw(t, "text"), rapid.IntRange(0, 30).Draw(t, "times"))
		got := bounded(text, 20)
		switch {
		case len(got) > 20 || !utf8.ValidString(got):
			t.Fatalf("%q becomes %q, of %d bytes", text, got, len(got))
		case len(text) <= 20 && got != text:
			t.Fatalf("%q becomes %q", text, got)
		case len(text) > 20 && (!strings.HasPrefix(text, strings.TrimSuffix(got, "…")) || len(got) < 17):
			t.Fatalf("%q becomes %q", text, got)
		}
	})
}
