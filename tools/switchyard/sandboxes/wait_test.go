package sandboxes

import (
	"bytes"
	"testing"
	"time"

	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/workflows/sandboxes"
)

func TestASlowDeletionNamesWhatBlocksIt(t *testing.T) {
	var errs bytes.Buffer
	now := time.Unix(0, 0)
	s := command.New(command.Config{Name: "switchyard", Err: &errs, Now: func() time.Time { return now }})
	p := progress{s: s, word: "waiting", since: s.Now(), patient: true}
	steps := sandboxes.Status{Message: "The sandbox is being deleted. It waits for 1 of its RoutingConfigs to be deleted."}
	p.shows(steps)
	if errs.Len() > 0 {
		t.Errorf("at once it prints %q", errs.String())
	}
	now = now.Add(quiet)
	p.shows(steps)
	p.shows(steps)
	if errs.String() != "waiting: The sandbox is being deleted. It waits for 1 of its RoutingConfigs to be deleted.\n" {
		t.Errorf("then it prints %q", errs.String())
	}
}
