package process

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

func TestMemoryIsCountedPerProcess(t *testing.T) {
	busy, idle := exec.Command("sh", "-c", "while :; do :; done"), exec.Command("sleep", "60")
	for _, cmd := range []*exec.Cmd{busy, idle} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	}
	if family := Family(os.Getpid()); !slices.Contains(family, busy.Process.Pid) || !slices.Contains(family, idle.Process.Pid) {
		t.Errorf("the family %v lacks %d or %d", family, busy.Process.Pid, idle.Process.Pid)
	}
	told := Busy(busy.Process.Pid, idle.Process.Pid)
	for computes := false; !computes; { // the clock has ticks
		each, _ := told()
		if computes = each[0] > 0; each[1] > 0 {
			t.Fatalf("one that sleeps computes: %v", each)
		}
	}
	if now, most, err := Memory(idle.Process.Pid); err != nil || now <= 0 || most < now {
		t.Errorf("%v MiB in memory, at most %v: %v", now, most, err)
	}
}
