package transparency

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/transparency/differences"
	"switchyard.dev/tests/transparency/rig"
	"switchyard.dev/tests/transparency/suite"
	"switchyard.dev/tests/transparency/suites"
	"switchyard.dev/tools/apps"
)

// Run is one run of some or all groups.
type Run struct {
	Size
	// Table is that of the differences that there are.
	Table []differences.Row
	// Out receives the results.
	Out io.Writer

	// Found are the differences that were found, and Tally the requests with and without
	// a key on one connection.
	Found []Difference
	Tally suites.Tally
	// Previews are the differences of previews that neither nginx has nor a rule allows, of so many cases that were
	// Compared.
	Previews []OfPreview
	Compared int
	// Changed are the differences that a capture makes, of so many cases that were Watched. Captured counts the exchanges.
	Changed  []Difference
	Watched  int
	Captured *trafficv1.CaptureCounts
	// Worse are the cases of h2spec that pass behind a stock Envoy and not here.
	Worse []string

	trials []trial

	mu  sync.Mutex
	its apps.Apps
	all all
	rig *rig.Rig
}

// Group is a part of it by name.
type Group struct {
	Name string
	run  func(*Run, context.Context) error
}

// Groups are all of them, in the order in which they run.
func Groups() []Group {
	return []Group{{"suites", (*Run).suites}, {"keys", (*Run).keys}, {"previews", (*Run).previews}, {"capture", (*Run).captured}}
}

// Do runs one group or one suite, or all when only is empty. root is the folder of this
// repository.
func (r *Run) Do(ctx context.Context, root, only string) (err error) {
	if r.its, err = apps.Find(ctx, root); err != nil {
		return err
	}
	r.all = applications(r.its)
	r.trials = plan(r.all, r.its, r.Size)
	all := Groups()
	if r.trials = slices.DeleteFunc(r.trials, func(t trial) bool { return only != "suites" && !chosen(only, t.suite.Name()) }); len(r.trials) > 0 && only != "" {
		only = "suites"
	}
	if all = slices.DeleteFunc(all, func(g Group) bool { return !chosen(only, g.Name) }); len(all) == 0 {
		return fmt.Errorf("there is no group and no suite %q", only)
	}
	if r.rig, err = rig.New(ctx, r.all.list()...); err != nil {
		return err
	}
	for _, g := range all {
		if err = g.run(r, ctx); err != nil {
			err = fmt.Errorf("%s: %w", g.Name, err)
			break
		}
	}
	if closed := r.rig.Close(); err == nil {
		err = closed
	}
	return err
}

func chosen(only, name string) bool { return only == "" || only == name }

// suites runs every trial, some at once: most of them wait. More than three would exceed one
// sidecar's memory limit, and it would answer with 503.
func (r *Run) suites(ctx context.Context) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(3)
	for _, t := range r.trials {
		work.Go(func() error {
			if err := r.try(ctx, t); err != nil {
				return fmt.Errorf("%s, %s: %w", t.app.Name, t.suite.Name(), err)
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	strange := 0
	for _, d := range r.Found {
		if !d.Allowed {
			strange++
		}
	}
	figures.Text(r.Out, "transparency_differences_not_in_the_table", strange, "cases", "0", strange == 0)
	figures.Text(r.Out, "transparency_h2spec_worse_than_stock", len(r.Worse), "cases", "0", len(r.Worse) == 0)
	return nil
}

// try runs a suite in all ways at once, and prints the differences.
func (r *Run) try(ctx context.Context, t trial) error {
	ways := r.rig.Ways(t.app)
	var bare, through, bareKeyed, keyed, stock suite.Seen
	work, together := errgroup.WithContext(ctx)
	run := func(seen *suite.Seen, to suite.Target) {
		work.Go(func() (err error) {
			*seen, err = t.suite.Run(together, to)
			return err
		})
	}
	run(&bare, ways.Bare)
	run(&through, ways.Through)
	if !t.keyless {
		run(&keyed, ways.Keyed)
		run(&bareKeyed, ways.BareKeyed)
	}
	if t.stock {
		run(&stock, ways.Stock)
	}
	if err := work.Wait(); err != nil {
		return err
	}
	if err := r.again(ctx, t.suite, ways.Bare, ways.Through, bare, through); err != nil {
		return err
	}
	if err := r.again(ctx, t.suite, ways.BareKeyed, ways.Keyed, bareKeyed, keyed); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report(t, "without a key", bare, through)
	if !t.keyless {
		r.report(t, "with a key", bareKeyed, keyed)
	}
	if t.stock {
		worse := Worse(t.suite.Name(), stock, through, r.Table)
		fmt.Fprintf(r.Out, "%s, %s, beside a stock Envoy: %d cases, %d worse\n", t.app.Name, t.suite.Name(), len(through), len(worse))
		for _, c := range worse {
			fmt.Fprintf(r.Out, "    %s: %s\n", c, through[c])
		}
		r.Worse = append(r.Worse, worse...)
	}
	return nil
}

// again runs the cases that differ, and should not, once more where a suite can: what
// both ways have seen then counts.
func (r *Run) again(ctx context.Context, s suite.Suite, to, through suite.Target, bare, seen suite.Seen) error {
	choosy, can := s.(suite.Choosy)
	var names []string
	for _, d := range Compare(s.Name(), bare, seen, r.Table) {
		if !d.Allowed {
			names = append(names, d.Case)
		}
	}
	if !can || len(names) == 0 {
		return nil
	}
	for target, into := range map[suite.Target]suite.Seen{to: bare, through: seen} {
		now, err := choosy.Just(names).Run(ctx, target)
		if err != nil {
			return err
		}
		maps.Copy(into, now)
	}
	return nil
}

// report prints the differences between the bare application and a way. r's lock is held by the
// caller.
func (r *Run) report(t trial, way string, bare, through suite.Seen) {
	found := Compare(t.suite.Name(), bare, through, r.Table)
	r.Found = append(r.Found, found...)
	fmt.Fprintf(r.Out, "%s, %s, %s: %d cases, %d the same\n", t.app.Name, t.suite.Name(), way, len(bare), len(bare)-len(found))
	for _, d := range found {
		fmt.Fprintf(r.Out, "    %s\n", d)
	}
}

// keys sends keys now and then on one connection, while the key's route comes and goes.
func (r *Run) keys(ctx context.Context) error {
	tally, changes, err := alternate(ctx, r.rig, r.all.podinfo, r.Alternate)
	if err != nil {
		return err
	}
	r.Tally = tally
	beside := fmt.Sprintf("0 of %d, %d with a key, %d changes of its route", tally.Requests, tally.Keyed, changes)
	if tally.First != "" {
		fmt.Fprintf(r.Out, "podinfo, keys: first %s\n", tally.First)
	}
	figures.Text(r.Out, "transparency_keys_astray", tally.Astray, "requests", beside, tally.Astray == 0)
	figures.Text(r.Out, "transparency_keys_failed", tally.Failed, "requests", beside, tally.Failed == 0)
	figures.Text(r.Out, "transparency_keys_connections", tally.Connections, "connections", "one of h1 and one of h2", tally.Connections == 2)
	return nil
}
