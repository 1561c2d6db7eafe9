package process

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"switchyard.dev/eventbus/lists"
	"time"
)

// Left is a process that is still running.
type Left struct {
	PID     int
	Command string
}

// String returns its name and ID.
func (l Left) String() string { return fmt.Sprintf("%s (process %d)", l.Command, l.PID) }

// Names returns the names of the processes that go on.
func (r Result) Names() string {
	return strings.Join(lists.Map(r.Left, Left.String), ", ")
}

// listing reads what ps writes of all processes: ID, group, state and command.
func listing(text string, group int) (out []Left) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 4 || f[1] != strconv.Itoa(group) || strings.HasPrefix(f[2], "Z") {
			continue
		}
		if pid, err := strconv.Atoi(f[0]); err == nil {
			out = append(out, Left{pid, strings.Join(f[3:], " ")})
		}
	}
	return out
}

// listed asks ps.
func listed(group int) []Left {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	text, _ := exec.CommandContext(ctx, "ps", "-A", "-o", "pid=,pgid=,stat=,comm=").Output() // without ps none is named
	return listing(string(text), group)
}
