package restarts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tools/traffic"
)

// Run restarts each application so many times, without a key and with one, and deletes its
// sandbox as often. It prints the outcome of the requests, and a figure for each application and
// kind of caller: the requests lost behind the sidecar, all times together, against those of the
// bare application beside it.
func Run(ctx context.Context, w io.Writer, apps []App, times int) error {
	t := tally{w: w, bare: map[row]int{}, meshed: map[row]int{}}
	for _, a := range apps {
		err := a.Install(ctx)
		for range times {
			if err == nil {
				err = t.once(ctx, a)
			}
		}
		if err = errors.Join(err, a.Remove(ctx)); err != nil {
			return fmt.Errorf("the application that %s: %w", a.Name, err)
		}
	}
	for _, r := range t.rows {
		target, bare := "0, as nothing restarts", 0
		if r.what != ended {
			bare = t.bare[r]
			target = fmt.Sprintf("at most %d, as bare beside it", bare)
		}
		name := strings.ToUpper(fmt.Sprintf("restart_%s_%s_%s", r.app, r.what, r.caller))
		figures.Text(w, name, t.meshed[r], fmt.Sprintf("requests_lost_in_%d", times), target, t.meshed[r] <= bare)
	}
	return nil
}

// The actions: an application's pods restart, or those of its fork, or its sandbox is deleted.
const (
	plain = "plain"
	keyed = "keyed"
	ended = "ended"
)

type row struct{ app, what, caller string }

// tally adds up lost requests.
type tally struct {
	w            io.Writer
	rows         []row
	bare, meshed map[row]int
}

// once does each thing to an application once.
func (t *tally) once(ctx context.Context, a App) error {
	for _, what := range []string{plain, keyed} {
		outcomes, err := Restart(ctx, a, what == keyed)
		if err != nil {
			return err
		}
		for _, o := range outcomes {
			r := row{o.App, what, o.Caller}
			t.add(t.bare, r, "bare", Lost(o.Bare), o.Bare)
			t.add(t.meshed, r, "meshed", Lost(o.Meshed), o.Meshed)
		}
	}
	ledgers, err := End(ctx, a)
	for _, caller := range slices.Sorted(maps.Keys(ledgers)) {
		t.add(t.meshed, row{a.Name, ended, caller}, "meshed", ledgers[caller].FailedCount, ledgers[caller])
	}
	return err
}

func (t *tally) add(to map[row]int, r row, which string, lost int, l *traffic.Ledger) {
	if !slices.Contains(t.rows, r) {
		t.rows = append(t.rows, r)
	}
	to[r] += lost
	fmt.Fprintf(t.w, "%s %s %s %s %s: %s\n", time.Now().Format(time.TimeOnly), r.app, r.what, r.caller, which, l)
}
