package restarts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"switchyard.dev/tests/figures"
)

// Run restarts each application so many times, without a key and with one, tells what
// became of the requests, and prints a figure for each application and kind of caller:
// the requests lost behind the sidecar in all restarts together, against those of the
// bare application beside it.
func Run(ctx context.Context, w io.Writer, apps []App, times int) (err error) {
	type row struct{ app, key, caller string }
	bare, meshed := map[row]int{}, map[row]int{}
	var rows []row
	for _, a := range apps {
		if err := a.Install(ctx); err != nil {
			return fmt.Errorf("install %s: %w", a.Name, err)
		}
		for run := range times {
			for _, keyed := range []bool{false, true} {
				outcomes, err := Restart(ctx, a, keyed)
				if err != nil {
					return errors.Join(fmt.Errorf("restart %s: %w", a.Name, err), a.Remove(ctx))
				}
				for _, o := range outcomes {
					r := row{o.App, keyWord(o.Keyed), o.Caller}
					if run == 0 {
						rows = append(rows, r)
					}
					bare[r] += Lost(o.Bare)
					meshed[r] += Lost(o.Meshed)
					fmt.Fprintf(w, "%s %-7s %-7s %-3s bare:   %s\n", time.Now().Format(time.TimeOnly), r.app, r.key, r.caller, o.Bare)
					fmt.Fprintf(w, "%s %-7s %-7s %-3s meshed: %s\n", time.Now().Format(time.TimeOnly), r.app, r.key, r.caller, o.Meshed)
				}
			}
		}
		if err := a.Remove(ctx); err != nil {
			return err
		}
	}
	for _, r := range rows {
		name := strings.ToUpper(fmt.Sprintf("restart_%s_%s_%s", r.app, r.key, r.caller))
		figures.Told(w, name, meshed[r], fmt.Sprintf("requests_lost_in_%d_restarts", times),
			fmt.Sprintf("at most %d, as bare beside it", bare[r]), meshed[r] <= bare[r])
	}
	return nil
}

func keyWord(keyed bool) string {
	if keyed {
		return "keyed"
	}
	return "plain"
}
