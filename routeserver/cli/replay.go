package cli

import (
	"context"
	"fmt"
	"sort"

	"github.com/spf13/cobra"

	"switchyard.dev/eventbus/archive"
	"switchyard.dev/eventbus/event"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

func (a *app) replayCommand() *cobra.Command {
	var live bool
	var to string
	c := &cobra.Command{
		Use:   "replay (FILE | --live)",
		Short: "Run a stored log into an empty table and show it",
		Long: `Run the events of a log into an empty table, in this process, and show the table
and its hash. The same log gives the same table on any machine; with -o json the
output is equal byte for byte, and so it is with what "table -o json" gives for
the same version of the log that is served.`,
		Example: `  switchyard replay before-the-release.jsonl.gz
  switchyard replay --live --to 14:03 -o json`,
		Args: cobra.MaximumNArgs(1),
	}
	c.Flags().BoolVar(&live, "live", false, "replay the log that is served now instead of a file")
	c.Flags().StringVar(&to, "to", "", "the `version` to stop at; the last")
	c.RunE = func(c *cobra.Command, args []string) error {
		log, err := a.logOf(c.Context(), live, args)
		if err != nil {
			return err
		}
		seq, err := a.versionIn(log, to, log.Header().Tip)
		if err != nil {
			return err
		}
		version, err := until(log, seq)
		if err != nil {
			return err
		}
		server, err := a.serve(c.Context(), version)
		if err != nil {
			return err
		}
		defer server.stop()
		return a.showTable(c.Context(), server.client, &routingv1.GetTableRequest{
			At: &routingv1.At{Version: &routingv1.At_Position{Position: positionOf(version.Header().TipPos())}},
		})
	}
	return c
}

func positionOf(p event.Pos) *routingv1.Position {
	return &routingv1.Position{Epoch: p.Epoch, Sequence: p.Seq}
}

// logOf returns the log that a command works on: of a file, or the one served now.
func (a *app) logOf(ctx context.Context, live bool, files []string) (*archive.Log, error) {
	switch {
	case a.flags.archive != "":
		return nil, usage("name the file as the argument, without --archive")
	case live == (len(files) == 1):
		return nil, usage("give the FILE of an archive, or --live")
	case !live:
		return a.load(files[0])
	}
	h, next, err := a.live(ctx)
	if err != nil {
		return nil, err
	}
	return archive.Collect(h, next)
}

// versionIn returns the sequence that a version of a log is; fallback for none.
func (a *app) versionIn(log *archive.Log, text string, fallback uint64) (uint64, error) {
	h := log.Header()
	at, err := a.at(text)
	switch v := at.GetVersion().(type) {
	case *routingv1.At_Position:
		if e := v.Position.GetEpoch(); e != "" && e != h.Epoch {
			return 0, &exit{ExitGone, fmt.Errorf("version %s is of another epoch: this log is of epoch %s", text, h.Epoch)}
		}
		return v.Position.GetSequence(), err
	case *routingv1.At_Time:
		n := sort.Search(int(h.Len()), func(i int) bool {
			t, err := event.RecordedAt(log.Event(h.Floor + uint64(i)).Message)
			return err == nil && t.After(v.Time.AsTime())
		})
		return h.Floor + uint64(n) - 1, nil
	case *routingv1.At_Fresh:
		return h.Tip, nil
	}
	return fallback, err
}
