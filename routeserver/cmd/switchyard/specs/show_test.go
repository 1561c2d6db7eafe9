package specs

import (
	"strings"
	"testing"

	"switchyard.dev/routeserver/cli/session"
)

func TestATerminalObeysNothingOfASandbox(t *testing.T) {
	const clears = "\x1b[2J\u009b31m"
	s := session.New(session.Config{Name: "switchyard"})
	r := report{Name: clears, RoutingKey: clears, CreatedAt: clears, UpdatedAt: clears, Status: status{Reason: clears, Message: clears, ScheduledDeleteTime: clears}}
	g := groupReport{Name: clears, RoutingKey: clears, CreatedAt: clears, UpdatedAt: clears, Status: groupStatus{status: status{Reason: clears, Message: clears, ScheduledDeleteTime: clears}, MatchedSandboxes: []string{clears}}}
	if text := listedGroups(s, []shown{g}); strings.ContainsAny(text, "\x1b\u009b") {
		t.Errorf("a route group is shown as %q", text)
	}
	for _, text := range []string{r.text(s), g.text(s), listed(s, []shown{r})} {
		if strings.ContainsAny(text, "\x1b\u009b") || strings.Count(text, `\u001b[2J\u009b31m`) < 5 {
			t.Errorf("a sandbox is shown as %q", text)
		}
	}
}
