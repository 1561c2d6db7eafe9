package dryrun

import (
	"slices"
	"testing"
)

func TestDuplicateFindingsAreMerged(t *testing.T) {
	for _, tt := range []struct {
		name string
		// told are pairs of reason and message, in order.
		told, want [][2]string
	}{
		{"the same twice", [][2]string{{"R", "a is not there"}, {"R", "a is not there"}}, [][2]string{{"R", "a is not there"}}},
		{"a part of it after it", [][2]string{{"R", "fork: a is not there"}, {"R", "a is not there"}}, [][2]string{{"R", "fork: a is not there"}}},
		{"more of it after it", [][2]string{{"R", "a is not there"}, {"R", "a is not there, b is taken"}}, [][2]string{{"R", "a is not there, b is taken"}}},
		{"the same with two introductions", [][2]string{{"R", "a is taken"}, {"R", "left out: a is taken"}, {"R", "not routed: a is taken"}}, [][2]string{{"R", "not routed: a is taken"}}},
		{"another reason", [][2]string{{"R", "a is not there"}, {"S", "a is not there"}}, [][2]string{{"R", "a is not there"}, {"S", "a is not there"}}},
		{"nothing after something", [][2]string{{"R", "a is not there"}, {"R", ""}}, [][2]string{{"R", "a is not there"}, {"R", ""}}},
		{"something after nothing", [][2]string{{"R", ""}, {"R", "a is not there"}}, [][2]string{{"R", ""}, {"R", "a is not there"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var all []reported
			for _, f := range tt.told {
				all = deduplicate(all, Finding{Reason: f[0], Message: f[1]})
			}
			var got [][2]string
			for _, f := range all {
				got = append(got, [2]string{f.Reason, f.Message})
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
