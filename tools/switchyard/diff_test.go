package switchyard_test

import (
	"strings"
	"testing"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/tools/switchyard/command/exit"
)

func TestADifferenceNeverReadsAlikeOnBothSides(t *testing.T) {
	again := observed("fork-alice", "10.96.0.11", true)
	again.Data.(*factv1.WorkloadObserved).Workload.Uid = "uid-of-another"
	moved := observed("fork-alice", "10.96.0.99", true)
	for name, c := range map[string]struct {
		later event.Fact
		want  string
	}{
		"the fork was deleted and made again": {again, "  - ForkedWorkload shop/fork-alice of sandbox sb-alice, UID uid-fork-alice\n" +
			"  + ForkedWorkload shop/fork-alice of sandbox sb-alice, UID uid-of-another: another object of that name\n"},
		"its Service was": {moved, "  - ForkedWorkload shop/fork-alice of sandbox sb-alice, port 8080 to fork-alice.shop.svc:8081 at 10.96.0.11\n" +
			"  + ForkedWorkload shop/fork-alice of sandbox sb-alice, port 8080 to fork-alice.shop.svc:8081 at 10.96.0.99\n"},
	} {
		t.Run(name, func(t *testing.T) {
			log := save(t, "log", sealed(t, append(story()[:3], c.later)))
			if got := client().run(t.Context(), "diff", "3", "--archive", log); got.code != exit.OK || !strings.Contains(got.out, c.want) {
				t.Errorf("exit code %d, without\n%s:\n%s%s", got.code, c.want, got.out, got.err)
			}
		})
	}
}

// "What has changed in the last two hours?" is the first question of the person on duty,
// also on the day on which the operator was installed. Where history was forgotten, or
// lost with an earlier log, the answer is not known, and it is an error.
func TestADifferenceSinceBeforeTheLogBeginsAtItsStart(t *testing.T) {
	anew := story()
	anew[2].Data = &factv1.Complete{Reason: "epoch", RoutingKeys: 1, Workloads: 1}
	forgotten := sealed(t, append([]event.Fact{
		declared("alice", "sb-alice", "fork-alice", "kubectl"), {Key: event.LogFloor, Data: floorData},
	}, append(story()[:2], complete(2))...))[1:]
	for name, c := range map[string]struct {
		log  []event.Stored
		from string
		code exit.Code
		says string
	}{
		"hours before":         {stored(t), "2h", exit.OK, "the log begins at 2026-11-20T15:04:00+01:00, later than the moment asked for: this is the difference since then\n"},
		"a minute before":      {stored(t), "22m", exit.OK, "later than the moment asked for"},
		"within the log":       {stored(t), "15m", exit.OK, ""},
		"a place before it":    {stored(t), "2", exit.Gone, "is not kept; the oldest version is 3"},
		"history is forgotten": {forgotten, "2h", exit.Gone, "is not kept; the oldest version is 5"},
		"a log was lost":       {sealed(t, anew), "2h", exit.Gone, "is not kept; the oldest version is 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := save(t, "log.jsonl", c.log)
			got := client().run(t.Context(), "diff", c.from, "--archive", file, "-o", "json")
			if got.code != c.code || !strings.Contains(got.err, c.says) || c.says == "" && got.err != "" {
				t.Fatalf("exit code %d, want %d and %q\n%s%s", got.code, c.code, c.says, got.out, got.err)
			}
			if strings.HasPrefix(c.says, "the log begins") {
				if start := client().run(t.Context(), "diff", "3", "--archive", file, "-o", "json"); start.out != got.out {
					t.Errorf("it is not what has changed since the start:\n%s\nwant\n%s", got.out, start.out)
				}
				if got := client().run(t.Context(), "diff", c.from, "--exit-code", "--archive", file); got.code != exit.No {
					t.Errorf("with --exit-code: exit code %d", got.code)
				}
			}
		})
	}
	_, address := live(t, story()...)
	if got := client().run(t.Context(), "diff", "2020-01-01T00:00:00Z", "--server", address); got.code != exit.OK || !strings.Contains(got.err, "the log begins at") {
		t.Errorf("of a route server: exit code %d\n%s%s", got.code, got.out, got.err)
	}
	if got := client().run(t.Context(), "diff", "3h", "2h", "--archive", save(t, "log.jsonl", stored(t))); got.code != exit.Gone || strings.Contains(got.err, "since then") {
		t.Errorf("both before it: exit code %d\n%s%s", got.code, got.out, got.err)
	}
}
