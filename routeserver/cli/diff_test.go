package cli_test

import (
	"strings"
	"testing"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/cli"
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
			if got := client().run(t.Context(), "diff", "3", "--archive", log); got.code != cli.ExitOK || !strings.Contains(got.out, c.want) {
				t.Errorf("exit code %d, without\n%s:\n%s%s", got.code, c.want, got.out, got.err)
			}
		})
	}
}
