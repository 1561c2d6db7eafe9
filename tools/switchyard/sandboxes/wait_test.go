package sandboxes

import (
	"bytes"
	"testing"
	"time"

	"switchyard.dev/tools/switchyard/command"
)

func TestWhatADeletionWaitsForIsPrintedOnceItTakesLong(t *testing.T) {
	var errs bytes.Buffer
	now := time.Unix(0, 0)
	s := command.New(command.Config{Name: "switchyard", Err: &errs, Now: func() time.Time { return now }})
	p := progress{s: s, word: "still being deleted", since: s.Now(), patient: true}
	steps := status{Message: "Delete steps: drop."}
	p.shows(steps)
	if errs.Len() > 0 {
		t.Errorf("at once it prints %q", errs.String())
	}
	now = now.Add(quiet)
	p.shows(steps)
	p.shows(steps)
	if errs.String() != "still being deleted: Delete steps: drop.\n" {
		t.Errorf("then it prints %q", errs.String())
	}
}
