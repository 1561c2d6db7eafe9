package compile_test

import (
	"testing"

	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/spec"
)

func TestAGroupThatMatchesLater(t *testing.T) {
	in := compile.GroupInput{Group: spec.Group{Name: "team", Spec: spec.GroupSpec{Match: &spec.Match{Label: &spec.MatchLabel{Key: "team", Value: "*"}}}}}
	if _, err := compile.Group(in); err == nil {
		t.Error("a group without sandboxes was compiled")
	}
	in.MatchesLater = true
	if _, err := compile.Group(in); err != nil {
		t.Error(err)
	}
	in.Group.Spec.Match.Label.Key = ""
	if _, err := compile.Group(in); err == nil {
		t.Error("a match without a key was compiled")
	}
}
