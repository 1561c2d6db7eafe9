package listeners

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"switchyard.dev/tests/figures"
)

// slower is how many times as long an honest call may take beside an attack.
const slower = 3

// Run attacks each listener that has only in its name, one after the other, and then, if only is
// empty, all with the most expensive attacks at once. It prints its findings, and ends with a
// line for each figure. The error is for a figure that could not be measured.
func Run(ctx context.Context, out io.Writer, only string, o Options) (err error) {
	undo, err := Addresses()
	if err != nil {
		return err
	}
	defer undo()
	w, err := Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if attacksLink(only) {
		err := w.openLink(ctx)
		defer func() { _ = w.link.Close() }() // the next run removes its remains
		if err != nil {
			return err
		}
	}
	if err := w.everyPort(ctx); err != nil {
		return err
	}
	findings, err := w.each(ctx, out, only, o)
	if err != nil {
		return err
	}
	var outcome *Outcome
	if only == "" {
		if outcome, err = w.together(ctx, o.Attackers); err != nil {
			return err
		}
	}
	printTable(out, findings)
	for _, f := range findings {
		f.print(out)
	}
	if outcome != nil {
		outcome.print(out)
	}
	return nil
}

// each attacks the listeners one after the other.
func (w *World) each(ctx context.Context, out io.Writer, only string, o Options) (all []Finding, err error) {
	for _, l := range All() {
		if !strings.Contains(l.String(), only) {
			continue
		}
		fmt.Fprintf(out, "%s attacking %s\n", time.Now().Format(time.TimeOnly), l)
		f, err := w.besiege(ctx, l, o)
		if err == nil {
			err = errors.Join(w.randomly(ctx, &f, o), w.silence(ctx, &f, o))
		}
		if err != nil {
			return all, fmt.Errorf("%s: %w", l, err)
		}
		all = append(all, f)
	}
	return all, nil
}

// String returns the listener's name in figures.
func (l *Listener) String() string { return fmt.Sprintf("%s-%s-%d", l.Program.Name, l.Name, l.Port) }

func printTable(out io.Writer, all []Finding) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "listener\thonest p50, p99\tbeside\tunserved\tmemory MiB\tattackers at most\topened\tclosed\trefused\t")
	for _, f := range all {
		fmt.Fprintf(t, "%s\t%s, %s\t%s, %s\t%d of %d\t%.0f to %.0f of %.0f\t%d\t%d\t%d\t%d\t\n", f.Listener,
			short(f.Alone.P50), short(f.Alone.P99), short(f.Beside.P50), short(f.Beside.P99),
			f.Beside.Failed, f.Beside.Failed+f.Beside.Served, f.Before, f.Most, f.Limit, f.Attackers.There, f.Attackers.Opened, f.Attackers.Ended, f.Attackers.Refused)
	}
	_ = t.Flush() // it goes to the standard output
	for _, f := range all {
		for when, c := range map[string]Calls{"alone": f.Alone, "beside the attack": f.Beside} {
			if c.Why != nil {
				fmt.Fprintf(out, "%s, %s: an honest call: %v\n", f.Listener, when, c.Why)
			}
		}
	}
	fmt.Fprintln(out)
}

func short(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

func (f Finding) print(out io.Writer) {
	name := strings.ToUpper(strings.ReplaceAll(f.Listener.String(), "-", "_"))
	figures.Text(out, name+"_P99", fmt.Sprintf("%.2f", f.Ratio()), "times_as_long_beside_the_attack",
		fmt.Sprintf("at most %d, none unserved; %d were", slower, f.Beside.Failed), f.Ratio() <= slower && f.Beside.Failed == 0)
	figures.Text(out, name+"_MEMORY", fmt.Sprintf("%.0f", f.Most), "MiB",
		fmt.Sprintf("under its limit of %.0f, no restart; %d were", f.Limit, f.Restarts), f.Most < f.Limit && f.Restarts == 0)
	f.printRandom(out, name)
	f.Shared.print(out, name)
}
