package v1_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// at returns a time, so many seconds after a fixed one.
func at(seconds int) metav1.Time {
	return metav1.NewTime(time.Date(2026, 1, 2, 3, 4, seconds, 0, time.UTC))
}

// condition returns a condition with all its fields.
func condition(kind string, status metav1.ConditionStatus, generation int64, seconds int) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, ObservedGeneration: generation, LastTransitionTime: at(seconds), Reason: "Because", Message: "It is so."}
}

func TestSetConditionMovesTheTransitionTimeOnlyWithTheStatus(t *testing.T) {
	var conds []crdv1.StatusCondition
	steps := []struct {
		sentence string
		set      metav1.Condition
		changed  bool
		since    metav1.Time
	}{
		{"the first one is added", condition("Ready", "False", 1, 1), true, at(1)},
		{"the same again changes nothing", condition("Ready", "False", 1, 2), false, at(1)},
		{"a newer generation is a change, not a transition", condition("Ready", "False", 2, 3), true, at(1)},
		{"another status is a transition", condition("Ready", "True", 2, 4), true, at(4)},
		{"another type is added", condition("Accepted", "True", 2, 5), true, at(5)},
	}
	for _, step := range steps {
		if changed := crdv1.SetCondition(&conds, step.set); changed != step.changed {
			t.Errorf("%s: changed is %v", step.sentence, changed)
		}
		have := crdv1.FindCondition(conds, step.set.Type)
		if have == nil || !have.LastTransitionTime.Equal(&step.since) {
			t.Errorf("%s: have %+v, want it since %v", step.sentence, have, step.since)
		}
	}
	if len(conds) != 2 {
		t.Errorf("there are %d conditions, want 2: %+v", len(conds), conds)
	}
}

func TestIsTrueAsksForThePresentGeneration(t *testing.T) {
	var conds []crdv1.StatusCondition
	crdv1.SetCondition(&conds, condition("Ready", "True", 3, 1))
	crdv1.SetCondition(&conds, condition("Accepted", "Unknown", 3, 1))
	for _, c := range []struct {
		sentence   string
		kind       string
		generation int64
		want       bool
	}{
		{"true of this generation", "Ready", 3, true},
		{"true of an older generation says nothing of this one", "Ready", 4, false},
		{"unknown is not true", "Accepted", 3, false},
		{"absent is not true", "Published", 0, false},
	} {
		if have := crdv1.IsTrue(conds, c.kind, c.generation); have != c.want {
			t.Errorf("%s: %v", c.sentence, have)
		}
	}
}

func TestCompleteConditionsHasEveryTypeOnceAndLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SampledFrom([]string{"Ready", "Accepted", "Foreign", "BaselineFound", "Other"})
		types := rapid.SliceOfNDistinct(names, 0, 4, rapid.ID).Draw(t, "types")
		var conds []crdv1.StatusCondition
		for i, name := range rapid.SliceOfNDistinct(names, 0, 5, rapid.ID).Draw(t, "present") {
			crdv1.SetCondition(&conds, condition(name, "True", 1, i))
		}
		before := slices.Clone(conds)
		out := crdv1.CompleteConditions(conds, types, 7, at(9))
		if !cmp.Equal(before, conds) {
			t.Fatal("the conditions given were changed")
		}
		for i, want := range types {
			if out[i].Type != want {
				t.Errorf("place %d has %s, want %s", i, out[i].Type, want)
			}
		}
		for _, c := range out {
			was := crdv1.FindCondition(before, c.Type)
			pending := crdv1.StatusCondition{Type: c.Type, Status: "Unknown", Reason: "Pending", Message: "Not determined yet.", ObservedGeneration: 7, LastTransitionTime: at(9)}
			if was == nil && !cmp.Equal(c, pending) || was != nil && !cmp.Equal(c, *was) {
				t.Errorf("have %+v; before it was %+v", c, was)
			}
		}
		for _, c := range before {
			if crdv1.FindCondition(out, c.Type) == nil {
				t.Errorf("condition %s is lost", c.Type)
			}
		}
		if again := crdv1.CompleteConditions(out, types, 8, at(10)); !cmp.Equal(out, again) {
			t.Errorf("doing it again changed it:\n%s", cmp.Diff(out, again))
		}
	})
}

// everyKind returns an empty object of each kind that the scheme knows.
func everyKind(t *testing.T) map[string]crdv1.Conditioned {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := crdv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	conditioned := reflect.TypeFor[crdv1.Conditioned]()
	out := map[string]crdv1.Conditioned{}
	for kind, typ := range scheme.KnownTypes(crdv1.GroupVersion()) {
		if reflect.PointerTo(typ).Implements(conditioned) {
			out[kind] = reflect.New(typ).Interface().(crdv1.Conditioned)
		}
	}
	if len(out) != 13 {
		t.Fatalf("the scheme has %d kinds with conditions, want 13", len(out))
	}
	return out
}

func TestEveryKindKnowsItsConditionsAndKeepsThem(t *testing.T) {
	for kind, object := range everyKind(t) {
		types := object.ConditionTypes()
		if len(types) < 3 || !slices.Contains(types, crdv1.ConditionAccepted) {
			t.Errorf("%s has the condition types %v; Accepted and two more are the least", kind, types)
		}
		distinct := slices.Clone(types)
		slices.Sort(distinct)
		if len(slices.Compact(distinct)) != len(types) {
			t.Errorf("%s names a condition type twice: %v", kind, types)
		}
		at1 := object.StatusConditions()
		*at1 = crdv1.CompleteConditions(*at1, types, 1, at(0))
		if len(*object.StatusConditions()) != len(types) {
			t.Errorf("%s does not keep the conditions that were put into it", kind)
		}
	}
}

func TestAnEmptyObjectIsWrittenWithoutSpecAndStatus(t *testing.T) {
	// With them, the API server would refuse the object for the required fields
	// that it leaves empty, and so could not be asked to remove a finalizer.
	for kind, object := range everyKind(t) {
		object.SetName("empty")
		written, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if want := `{"metadata":{"name":"empty"}}`; string(written) != want {
			t.Errorf("%s is written as %s, want %s", kind, written, want)
		}
	}
}

func TestRoutingKeyAndDisplayNameFallBackToTheObjectsName(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "object", Annotations: map[string]string{crdv1.AnnotationRoutingKey: "Key/1"}}
	for have, want := range map[string]string{
		(&crdv1.RoutingConfig{ObjectMeta: meta}).RoutingKey():                                                     "Key/1",
		(&crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "k"}}).RoutingKey():                             "k",
		(&crdv1.SignadotSandbox{ObjectMeta: meta, Spec: crdv1.SignadotSandboxSpec{Name: "mine"}}).DisplayName():   "mine",
		(&crdv1.SignadotSandbox{ObjectMeta: meta, Spec: crdv1.SignadotSandboxSpec{ID: "not-this"}}).DisplayName(): "object",
	} {
		if have != want {
			t.Errorf("have %q, want %q", have, want)
		}
	}
}
