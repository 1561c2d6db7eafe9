package switchyard_test

import (
	"fmt"
	"strings"
	"testing"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/tools/switchyard/command/exit"
)

// A routing key of a route group may be as long as its sender likes; the published CRD
// knows no limit. One of 1,000 bytes made each row of every table 1,000 columns wide.
func TestALongKeyIsCutInTextAndWholeInJSON(t *testing.T) {
	long := strings.Repeat("abcdefghij", 100)
	quoted := strings.Repeat("\"\\é\x1b", 120)
	for _, key := range []string{long, quoted} {
		log := save(t, "log.jsonl", sealed(t, []event.Fact{
			{Key: event.Log, Time: began, Data: &factv1.Complete{Reason: "first"}},
			declared(key, "sb-alice", "fork-alice", "kubectl"), declared(key[:300], "sb-bob", "fork-bob", "kubectl"), declared("carol", "sb-carol", "fork-alice", "kubectl"),
			observed("fork-alice", "10.96.0.11", true), withdrawn(key, "sb-alice"),
		}))
		for _, c := range []struct {
			args  string
			shows bool
		}{
			{"table --at 5", true}, {"diff 1 5", true}, {"diff 5", true}, {"history --member ForkedWorkload/shop/fork-alice", false}, {"watch --once", false},
			{"history --key KEY", true}, {"explain deployment/shop/customer --key KEY", true}, {"explain deployment/shop/customer --key KEY --at 5", true},
			{"watch --once --behind 5", true},
		} {
			var args []string
			for _, arg := range strings.Fields(c.args) {
				args = append(args, strings.ReplaceAll(arg, "KEY", key))
			}
			got := client().run(t.Context(), append(args, "--archive", log)...)
			for _, line := range strings.Split(got.out, "\n") {
				if len([]rune(line)) > 300 {
					t.Errorf("%s: a line of %d characters:\n%.300s…", c.args, len(line), line)
				}
			}
			if c.shows && (got.err != "" || !strings.Contains(got.out, "…"+plainEnd(key))) {
				t.Errorf("%s: the key is not there as it begins and ends: exit code %d\n%s%s", c.args, got.code, got.out, got.err)
			}
			if key != long {
				continue // It is written another way in JSON.
			}
			if got := client().run(t.Context(), append(args, "--archive", log, "-o", "json")...); c.shows && !strings.Contains(got.out, key) {
				t.Errorf("%s: the whole key is not in the JSON: exit code %d\n%s", c.args, got.code, got.err)
			}
		}
	}
}

// plainEnd returns the last characters of a key as text shows it.
func plainEnd(key string) string {
	if strings.Contains(key, "\x1b") {
		return `01b"\é\u001b"\é\u001b`
	}
	return key[len(key)-21:]
}

// Keys that people and tools make are shown as they are: they are copied from tables.
func TestAKeyOfAnOrdinaryLengthIsWhole(t *testing.T) {
	for _, key := range []string{"k7q2m9x4v1tz8", "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", strings.Repeat("k", 64)} {
		log := save(t, "log.jsonl", sealed(t, []event.Fact{
			declared(key, "sb-alice", "fork-alice", "kubectl"), observed("fork-alice", "10.96.0.11", true), {Key: event.Log, Time: began, Data: &factv1.Complete{Reason: "first"}},
		}))
		if got := client().run(t.Context(), "table", "--archive", log); got.code != exit.OK || !strings.Contains(got.out, fmt.Sprintf("  %s  ", key)) {
			t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
		}
	}
}
