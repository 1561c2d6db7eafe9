package history

import (
	"context"
	"sort"

	"github.com/spf13/cobra"

	"switchyard.dev/eventbus/archive"
	"switchyard.dev/eventbus/event"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/messages"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/inprocess"
	"switchyard.dev/tools/switchyard/command/parse"
	"switchyard.dev/tools/switchyard/routing"
)

// Replay returns the command that runs a log into an empty table.
func Replay(s *command.Session) *cobra.Command {
	var live bool
	var to string
	c := &cobra.Command{
		Use:   "replay (FILE | --live)",
		Short: "Run a stored log into an empty table and show it",
		Long: `Apply the events of a log to an empty table, in this process, and show the table
and its hash. The same log produces the same table on any machine; with -o json the
output is equal byte for byte, also to that of "table -o json" for the same version
of the served log.`,
		Example: `  switchyard replay before-the-release.jsonl.gz
  switchyard replay --live --to 14:03 -o json`,
		Args: cobra.MaximumNArgs(1),
	}
	c.Flags().BoolVar(&live, "live", false, "replay the served log instead of a file")
	c.Flags().StringVar(&to, "to", "", "the `version` to stop at (default: the last)")
	c.RunE = func(c *cobra.Command, args []string) error {
		log, err := logOf(c.Context(), s, live, args)
		if err != nil {
			return err
		}
		seq, err := versionIn(s, log, to, log.Header().Tip)
		if err != nil {
			return err
		}
		version, err := inprocess.Until(log, seq)
		if err != nil {
			return err
		}
		server, err := s.Serve(c.Context(), version)
		if err != nil {
			return err
		}
		defer server.Stop()
		return routing.ShowTable(c.Context(), s, server.Client, &routingv1.GetTableRequest{
			At: messages.At(version.Header().TipPos()),
		})
	}
	return c
}

// logOf returns the log that a command works on: of a file, or the one served now.
func logOf(ctx context.Context, s *command.Session, live bool, files []string) (*archive.Log, error) {
	switch {
	case s.Archive != "":
		return nil, exit.Usage.Errorf("name the file as the argument, without --archive")
	case live == (len(files) == 1):
		return nil, exit.Usage.Errorf("give the FILE of an archive, or --live")
	case !live:
		return inprocess.Load(files[0], s.Name)
	}
	h, next, err := served(ctx, s)
	if err != nil {
		return nil, err
	}
	return archive.Collect(h, next)
}

// versionIn returns the sequence that a version of a log is; fallback for none.
func versionIn(s *command.Session, log *archive.Log, text string, fallback uint64) (uint64, error) {
	h := log.Header()
	at, err := parse.At(text, s.Now())
	switch v := at.GetVersion().(type) {
	case *routingv1.At_Position:
		if e := v.Position.GetEpoch(); e != "" && e != h.Epoch {
			return 0, exit.Gone.Errorf("version %s is of another epoch: this log is of epoch %s", text, h.Epoch)
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
