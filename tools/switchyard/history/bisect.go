package history

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"switchyard.dev/eventbus/archive"
	"switchyard.dev/eventbus/event"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/messages"
	"switchyard.dev/routeserver/bisect"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/inprocess"
	"switchyard.dev/tools/switchyard/show"
)

// cannotTell is the exit code of a command that cannot judge a version.
const cannotTell = 125

// bisection is one run of bisect.
type bisection struct {
	*command.Session
	log       *archive.Log
	good, bad uint64
	// sought: good is only where the log begins, and not known to be good.
	sought  bool
	command []string
	// outcomes are those of the versions that were probed.
	outcomes map[uint64]bisect.Outcome
}

// mostSought is how many versions are tried to find one at which the command succeeds,
// where --good names none.
const mostSought = 64

// Bisect returns the command that finds the event after which a command fails.
func Bisect(s *command.Session) *cobra.Command {
	var live bool
	var good, bad string
	c := &cobra.Command{
		Use:   "bisect (FILE | --live) -- COMMAND ARG...",
		Short: "Find the first event after which a command fails",
		Long: `Find the first event of a log after which a command fails, by bisection. For each
version that is tried a route server on it runs in this process, and the command
is run with

  SIGNADOT_ROUTESERVER, SWITCHYARD_SERVER  the gRPC address of that route server
  SWITCHYARD_ROUTES_URL                    the URL of its published routes API
  SWITCHYARD_VERSION                       the version, epoch/sequence

so that clients of the routes API and switchyard itself read that version. If the
command exits with 0 the version is good, with 125 it cannot be tested, with any
other code it is bad. The output of the command is written to standard error.

The version at --good must be good and that at --bad bad; both are tried first.
--good defaults to the first version of the log. If the command fails there already,
bisect searches backwards from the bad version for one at which it succeeds.
Exit code 0 if the event was found, otherwise 1.`,
		Example: `  switchyard bisect log.jsonl.gz -- switchyard explain deployment/shop/customer --key k7q2m9x4v1tz8
  switchyard bisect --live --good 14:03 -- ./smoke-test.sh`,
	}
	c.Flags().BoolVar(&live, "live", false, "bisect the served log instead of a file")
	c.Flags().StringVar(&good, "good", "", "a `version` that is good (default: the first one, or one found by searching backwards)")
	c.Flags().StringVar(&bad, "bad", "", "a `version` that is bad (default: the last one)")
	c.RunE = func(c *cobra.Command, args []string) error {
		dash := c.ArgsLenAtDash()
		if dash < 0 || dash == len(args) {
			return exit.Usage.Errorf("give the command behind --, for example: %s bisect log.jsonl.gz -- ./smoke-test.sh", s.Name)
		}
		log, err := logOf(c.Context(), s, live, args[:dash])
		if err != nil {
			return err
		}
		first, err := inprocess.FirstWhole(log)
		if err != nil {
			return err
		}
		b := &bisection{Session: s, log: log, sought: good == "", command: args[dash:], outcomes: map[uint64]bisect.Outcome{}}
		if b.good, err = versionIn(s, log, good, first); err != nil {
			return err
		}
		if b.bad, err = versionIn(s, log, bad, log.Header().Tip); err != nil {
			return err
		}
		return b.run(c.Context())
	}
	return c
}

func (b *bisection) run(ctx context.Context) error {
	for _, bound := range []uint64{b.good, b.bad} {
		if _, err := inprocess.Until(b.log, bound); err != nil {
			return err
		}
	}
	found, err := b.find(func(v uint64) (bisect.Outcome, error) { return b.probe(ctx, v) })
	switch {
	case errors.Is(err, bisect.ErrBounds) && b.sought:
		return exit.No.Errorf("not found: there is no version before %d, so no event of this log can have broken it", b.bad)
	case errors.Is(err, bisect.ErrBounds):
		return exit.Usage.Errorf("--good must be a version before --bad, not %d and %d", b.good, b.bad)
	case errors.Is(err, bisect.ErrNotGood):
		return exit.No.Errorf("not found: the command does not succeed at version %d already, which should be good; name an earlier one with --good, or see whether the command works", b.good)
	case errors.Is(err, bisect.ErrNotBad):
		return exit.No.Errorf("not found: the command does not fail at version %d, which should be bad", b.bad)
	case err != nil:
		return err
	}
	found.Probes = len(b.outcomes)
	return b.show(ctx, found)
}

// find finds the event, with a good version that it seeks itself where none was named
// and the log begins with one that is not.
func (b *bisection) find(probe func(uint64) (bisect.Outcome, error)) (bisect.Result, error) {
	found, err := bisect.Find(b.good, b.bad, probe)
	if !b.sought || !errors.Is(err, bisect.ErrNotGood) {
		return found, err
	}
	fmt.Fprintf(b.Err, "the command does not succeed at version %d, where the log begins: looking for a version at which it does\n", b.good)
	good, ok, err := bisect.Seek(b.good, b.bad, mostSought, probe)
	if err != nil {
		return found, err
	}
	if !ok {
		return found, exit.No.Errorf("not found: the command succeeds at none of %s that were tried, from %d to %d; name one with --good, or see whether the command works",
			show.Many(len(b.outcomes), "version"), b.good, b.bad)
	}
	return bisect.Find(good, b.bad, probe)
}

// probe runs the command against a version, once.
func (b *bisection) probe(ctx context.Context, version uint64) (bisect.Outcome, error) {
	if known, ok := b.outcomes[version]; ok {
		return known, nil
	}
	server, err := b.Serve(ctx, b.log.Until(version))
	if err != nil {
		return 0, err
	}
	defer server.Stop()
	at := event.Pos{Epoch: b.log.Header().Epoch, Seq: version}
	command := exec.CommandContext(ctx, b.command[0], b.command[1:]...)
	command.Env = append(os.Environ(),
		"SIGNADOT_ROUTESERVER="+server.GRPCAddress(),
		"SWITCHYARD_SERVER="+server.GRPCAddress(),
		"SWITCHYARD_ROUTES_URL=http://"+server.RESTAddress()+"/api/v1/workloads/routing-rules",
		"SWITCHYARD_VERSION="+show.Place(messages.Position(at)),
	)
	command.Stdout, command.Stderr = b.Err, b.Err
	// It may leave processes behind that hold its output.
	command.WaitDelay = 5 * time.Second
	began := b.Now()
	err = command.Run()
	outcome := bisect.Bad
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case err == nil:
		outcome = bisect.Good
	case errors.As(err, &ended) && ended.ExitCode() == cannotTell:
		outcome = bisect.Unknown
	case !errors.As(err, &ended):
		return 0, fmt.Errorf("the command cannot be run: %w", err)
	case ended.ExitCode() < 0:
		return 0, fmt.Errorf("the command was ended at version %d: %w", version, err)
	}
	b.outcomes[version] = outcome
	fmt.Fprintf(b.Err, "version %d: %s (%s)\n", version, outcome, b.Now().Sub(began).Round(time.Millisecond))
	return outcome, nil
}

// show prints the result: the event, and the decisions that it changed.
func (b *bisection) show(ctx context.Context, found bisect.Result) error {
	server, err := b.Serve(ctx, b.log.Until(found.FirstBad))
	if err != nil {
		return err
	}
	defer server.Stop()
	ctx, cancel := b.Patiently(ctx)
	defer cancel()
	epoch := b.log.Header().Epoch
	at := func(seq uint64) *routingv1.At {
		return messages.At(event.Pos{Epoch: epoch, Seq: seq})
	}
	diff, err := server.Client.Diff(ctx, &routingv1.DiffRequest{From: at(found.LastGood), To: at(found.FirstBad)})
	if err != nil {
		return err
	}
	var suspects []*routingv1.Event
	for seq := found.LastGood + 1; seq <= found.FirstBad; seq++ {
		e, err := eventOf(b.log.Event(seq))
		if err != nil {
			return err
		}
		suspects = append(suspects, e)
	}
	report := bisectReport{LastGood: show.Place(diff.GetFrom().GetPosition()), FirstBad: show.Place(diff.GetTo().GetPosition()), Exact: found.Exact(), Probes: found.Probes}
	if err := report.set(suspects, diff); err != nil {
		return err
	}
	text := ""
	if b.Show.Form == show.Table {
		text = b.bisectText(found, suspects, show.ForPeople(diff))
	}
	if err := b.Show.Report(report, text); err != nil {
		return err
	}
	return exit.No.Unless(found.Exact())
}

func (b *bisection) bisectText(found bisect.Result, suspects []*routingv1.Event, diff *routingv1.DiffResponse) string {
	out := fmt.Sprintf("%s\n", b.Show.Paint(show.Bold, fmt.Sprintf("the command fails from event %d on", found.FirstBad)))
	if !found.Exact() {
		out = fmt.Sprintf("the command succeeds at version %d and fails at version %d; it cannot be decided between them, so it is one of these events:\n", found.LastGood, found.FirstBad)
	}
	for i, e := range suspects {
		suspects[i] = show.ForPeople(e)
	}
	out += "\n" + b.Show.Events(suspects) + "\n" + b.Show.Diff(diff)
	if len(diff.GetChanges()) == 0 {
		out += "it made no decision another one: perhaps the command fails for another reason\n"
	}
	return out + fmt.Sprintf("found with %s of %d versions\n", show.Many(found.Probes, "probe"), b.bad-b.good+1)
}
