package sandboxes

import (
	"strings"
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/workflows/sandboxes"
)

func TestATerminalObeysNothingOfASandbox(t *testing.T) {
	const clears = "\x1b[2J\u009b31m"
	s := command.New(command.Config{Name: "switchyard"})
	r := sandboxes.Sandbox{Name: clears, RoutingKey: clears, CreatedAt: clears, UpdatedAt: clears, Status: sandboxes.Status{Reason: clears, Message: clears, Caveats: []string{"\x1b[2J"}, ScheduledDeleteTime: clears}}
	g := sandboxes.Group{Name: clears, RoutingKey: clears, CreatedAt: clears, UpdatedAt: clears, Status: sandboxes.GroupStatus{Status: sandboxes.Status{Reason: clears, Message: clears, ScheduledDeleteTime: clears}, MatchedSandboxes: []string{clears}}}
	if text := listedGroups(s, []sandboxes.Report{g}); strings.ContainsAny(text, "\x1b\u009b") {
		t.Errorf("a route group is shown as %q", text)
	}
	for _, text := range []string{sandboxText(s, r), groupText(s, g), listed(s, []sandboxes.Report{r})} {
		if strings.ContainsAny(text, "\x1b\u009b") || strings.Count(text, `\u001b[2J\u009b31m`) < 5 {
			t.Errorf("a sandbox is shown as %q", text)
		}
	}
}

// The message of a sandbox that is ready has the first caveat, that of another none.
func TestEachCaveatIsShownOnce(t *testing.T) {
	s := command.New(command.Config{Name: "switchyard"})
	for name, tt := range map[string]struct{ status, message, caveats string }{
		"ready":     {"True", "It is ready. A 80 is lost. (+1)", "Caveat:       B has no pods.\n"},
		"not ready": {"False", "It does not start.", "Caveat:       A 80 is lost.\nCaveat:       B has no pods.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &crdv1.SignadotSandbox{}
			o.Name, o.Generation = "x", 2
			o.Status.Conditions = []crdv1.StatusCondition{
				{Type: crdv1.ConditionReady, Status: tt.status, Reason: "R", Message: tt.message, ObservedGeneration: 2},
				{Type: crdv1.ConditionCaveats, Status: "True", Reason: "R", Message: "A 80 is lost.\nB has no pods.", ObservedGeneration: 2},
			}
			if text := sandboxText(s, sandboxes.SandboxOf(o)); !strings.HasSuffix(text, tt.message+"\n"+tt.caveats) {
				t.Errorf("it is shown as %q", text)
			}
			o.Generation = 3
			if text := sandboxText(s, sandboxes.SandboxOf(o)); strings.Contains(text, "Caveat") {
				t.Errorf("caveats of an earlier form are shown: %q", text)
			}
		})
	}
}

// TestListsShowTheAuthor lists a sandbox and a route group with a recorded author, and without.
func TestListsShowTheAuthor(t *testing.T) {
	s := command.New(command.Config{Name: "switchyard"})
	for author, want := range map[string]string{`{"user":"ann@example.com"}`: "ann@example.com", "": ""} {
		box, group := &crdv1.SignadotSandbox{}, &crdv1.SignadotRouteGroup{}
		for _, o := range []crdv1.Object{box, group} {
			o.SetName("x")
			if author != "" {
				o.SetAnnotations(map[string]string{crdv1.AnnotationAuthor: author})
			}
		}
		for _, text := range []string{listed(s, []sandboxes.Report{sandboxes.SandboxOf(box)}), listedGroups(s, []sandboxes.Report{sandboxes.GroupOf(group)})} {
			if !strings.Contains(text, "AUTHOR") || !strings.Contains(text, want) {
				t.Errorf("%q", text)
			}
		}
	}
}
