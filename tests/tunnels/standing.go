package tunnels

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"switchyard.dev/tests/devmesh/control"
	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/process"
	"switchyard.dev/tools/traffic"
)

// stands is what a process holds, or what several do together.
type stands struct {
	goroutines int
	// memory is in MiB.
	memory float64
	// pid identifies the process, to detect a restart; of several it is the sum.
	pid int
}

// standing returns what each process holds that is to live through everything.
func (w *world) standing() (map[string]stands, error) {
	out := map[string]stands{}
	var wrong []error
	add := func(name string, pid int, count func() (int, error)) {
		now, _, err := process.Memory(pid)
		n, err2 := count()
		if err := errors.Join(err, err2); err != nil {
			wrong = append(wrong, fmt.Errorf("inspect %s: %w", name, err))
			return
		}
		all := out[name]
		out[name] = stands{all.goroutines + n, all.memory + now, all.pid + pid}
	}
	metrics := func(at string) func() (int, error) {
		return func() (int, error) {
			n, err := metric(w.ctx, at, "go_goroutines")
			return int(n), err
		}
	}
	add("manager", w.manager.pid(), metrics(control.ManagerMetrics))
	add("tunnel-api", w.api.PID(), metrics(w.apiPod.IP.String()+":9090"))
	for _, p := range w.proxies {
		// Together: which of them has the workstations is another one in the end.
		add("tunnel-proxies", p.container.pid(), metrics(p.pod.IP.String()+":9090"))
	}
	for i, s := range w.stations {
		add(fmt.Sprintf("workstation-%d", i), s.process.ID(), func() (int, error) {
			now, err := s.look()
			return now.Goroutines, err
		})
	}
	return out, errors.Join(wrong...)
}

// metric returns the sum of a program's metrics of a name.
func metric(ctx context.Context, at, name string) (sum float64, err error) {
	text, err := traffic.Fetch(ctx, asker, "http://"+at+"/metrics")
	if err != nil {
		return 0, err
	}
	found := false
	for line := range strings.Lines(string(text)) {
		if rest, is := strings.CutPrefix(line, name); is && (rest[0] == ' ' || rest[0] == '{') {
			var one float64
			if _, err := fmt.Sscan(rest[strings.LastIndex(rest, " ")+1:], &one); err != nil {
				return 0, fmt.Errorf("read %q: %w", line, err)
			}
			sum, found = sum+one, true
		}
	}
	if !found {
		return 0, fmt.Errorf("%s reports no %s", at, name)
	}
	return sum, nil
}

// What a process may hold more in the end: as many goroutines as serve connections that are
// kept for the next, and memory that Go keeps.
const (
	moreGoroutines = 15
	moreMemory     = 24.0
)

// printStanding prints how the end compares to the beginning.
func printStanding(out io.Writer, scene string, before, after map[string]stands) {
	for _, name := range sortedKeys(before) {
		was, is := before[name], after[name]
		what, note := scene+"-"+name, ""
		if was.pid != is.pid {
			note = "; another process, started in the meantime"
		}
		figures.Text(out, what+"-goroutines", is.goroutines, "goroutines", fmt.Sprintf("at most %d, %d at the beginning%s", was.goroutines+moreGoroutines, was.goroutines, note),
			is.pid != 0 && is.goroutines <= was.goroutines+moreGoroutines)
		figures.Text(out, what+"-memory", fmt.Sprintf("%.1f", is.memory), "MiB", fmt.Sprintf("at most %.1f, %.1f at the beginning%s", was.memory*1.25+moreMemory, was.memory, note),
			is.pid != 0 && is.memory <= was.memory*1.25+moreMemory)
	}
}
