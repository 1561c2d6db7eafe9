package history

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"switchyard.dev/eventbus/archive"
	"switchyard.dev/eventbus/audit"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/publisher"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/show"
)

// Audit returns the commands that find where a log was tampered with.
func Audit(s *command.Session) *cobra.Command {
	return command.Group(&cobra.Command{Use: "audit", Short: "Find where a log was tampered with"}, verify(s))
}

func verify(s *command.Session) *cobra.Command {
	var live bool
	var against string
	c := &cobra.Command{
		Use:   "verify (FILE | --live)",
		Short: "Verify that every event follows the one before it",
		Long: `Verify the checksums of a log from its first event to its last, and name the first
event that was altered, dropped, inserted or reordered.

A writer of the log can also recompute the checksums of all events after a change.
Only a mark that was taken earlier and kept elsewhere reveals that: pass it as --mark.
This command prints the mark of the last event. The operator also keeps one in a
ConfigMap in its namespace; --live compares the log with it if your kubeconfig can
read that ConfigMap.

Exit code 0 when the log is intact, 1 when it was tampered with.`,
		Example: `  switchyard audit verify before-the-release.jsonl.gz
  switchyard audit verify --live --mark 4y2kq7m9x1v3tz8b/4711/e39f0123285999c5…`,
		Args: cobra.MaximumNArgs(1),
	}
	c.Flags().BoolVar(&live, "live", false, "verify the served log instead of a file")
	c.Flags().StringVar(&against, "mark", "", "a `mark` that was kept elsewhere, epoch/sequence/checksum")
	c.RunE = func(c *cobra.Command, args []string) error {
		if live == (len(args) == 1) {
			return exit.Usage.Errorf("give the FILE of an archive, or --live")
		}
		mark, err := markIn(against)
		if err != nil {
			return err
		}
		v := verification{Session: s, cfg: audit.Config{Known: mark}}
		if mark != (event.Mark{}) {
			v.kept = "--mark"
		}
		if live {
			return v.live(c.Context())
		}
		return v.file(args[0])
	}
	return c
}

// markIn reads a mark as writtenMark writes it.
func markIn(text string) (event.Mark, error) {
	if text == "" {
		return event.Mark{}, nil
	}
	if parts := strings.Split(text, "/"); len(parts) == 3 && parts[0] != "" {
		seq, err := strconv.ParseUint(parts[1], 10, 64)
		if chain, bad := event.ParseChain(parts[2]); err == nil && bad == nil && seq > 0 {
			return event.Mark{Pos: event.Pos{Epoch: parts[0], Seq: seq}, Chain: chain}, nil
		}
	}
	return event.Mark{}, exit.Usage.Errorf("--mark is epoch/sequence/checksum, with a checksum of 64 hexadecimal digits, not %q", text)
}

func writtenMark(m event.Mark) string { return fmt.Sprintf("%s/%d/%s", m.Epoch, m.Seq, m.Chain) }

// verification is one run of audit verify.
type verification struct {
	*command.Session
	cfg audit.Config
	// kept is where the known mark was stored; note is the reason why it was not used.
	kept, note string
	// lines: places have lines, in a file.
	lines bool
}

func (v *verification) file(path string) error {
	r, err := archive.OpenFile(path)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was only read
	v.lines = true
	return v.verify(r.Header(), r.Next)
}

func (v *verification) live(ctx context.Context) error {
	// Before the log is read, so that the log has reached it.
	kept := v.keptMark(ctx)
	h, next, err := served(ctx, v.Session)
	if err != nil {
		return err
	}
	switch {
	case kept == (event.Mark{}):
	case kept.Epoch != h.Epoch:
		v.note = fmt.Sprintf("the operator keeps the mark of another epoch, %s: the log has begun again since", kept.Epoch)
	default:
		v.cfg.Known, v.kept = kept, "the mark that the operator keeps"
	}
	return v.verify(h, next)
}

// keptMark reads the mark that the operator keeps, where it can be read.
func (v *verification) keptMark(ctx context.Context) event.Mark {
	switch {
	case v.kept != "" || v.Archive != "":
		return event.Mark{}
	case !v.ClusterKnown():
		v.note = "the mark that the operator keeps was not read: the route server was named, so its cluster is not known (name it with --kubeconfig or --context)"
		return event.Mark{}
	}
	reader, err := v.Reader()
	var witness publisher.Witness
	if err == nil {
		witness, err = publish.Epochs{Reader: reader, Namespace: v.Cluster.Namespace}.Load(ctx)
	}
	mark := witness.Mark
	if err != nil {
		v.note = "the mark that the operator keeps could not be read: " + show.Plain(err.Error())
	} else if mark.Chain == (event.Chain{}) {
		v.note = "the operator keeps no mark with a checksum"
		return event.Mark{}
	}
	return mark
}

func (v *verification) verify(h archive.Header, next func() (event.Stored, error)) error {
	v.cfg.Epoch, v.cfg.Floor, v.cfg.Tip = h.Epoch, h.Floor, h.Tip
	if err := v.cfg.Validate(); err != nil {
		return exit.Usage.Errorf("%w", err)
	}
	got, err := audit.Run(next, v.cfg)
	if err != nil {
		return err
	}
	report := auditReport{Intact: got.Finding == nil, Epoch: h.Epoch, Floor: h.Floor, Tip: h.Tip, Events: got.Events, Finding: v.finding(got.Finding)}
	if got.Events > 0 {
		report.Mark = writtenMark(got.Last)
	}
	if got.Held {
		report.Against = writtenMark(v.cfg.Known)
	}
	if err := v.Show.Report(report, v.auditText(report, got)); err != nil {
		return err
	}
	return exit.No.Unless(got.Finding == nil)
}

func (v *verification) finding(f *audit.Finding) *auditFinding {
	if f == nil {
		return nil
	}
	out := &auditFinding{Kind: string(f.Kind), Sequence: f.Seq, Reason: f.Reason}
	if v.lines && f.Kind != audit.Dropped {
		out.Line = f.Index + 2 // after the header line
	}
	if e, err := eventOf(f.Found); err == nil {
		out.Event, _ = show.Written(e) // it is left out when it cannot be written
	}
	return out
}

func (v *verification) auditText(r auditReport, got audit.Report) string {
	log := fmt.Sprintf("events %d to %d of epoch %s", r.Floor, r.Tip, r.Epoch)
	held := ""
	switch {
	case got.Held:
		held = fmt.Sprintf("held against %s, %s/%d\n", v.kept, v.cfg.Known.Epoch, v.cfg.Known.Seq)
	case v.cfg.Known.Seq > 0 && v.cfg.Known.Seq < r.Floor:
		held = fmt.Sprintf("not held against %s: the log no longer keeps event %d\n", v.kept, v.cfg.Known.Seq)
	case v.note != "":
		held = v.note + "\n"
	}
	f := got.Finding
	if f == nil {
		return fmt.Sprintf("%s: %s, each follows the one before it\n%smark to keep: %s\n", v.Show.Paint(show.Green, "intact"), log, held, r.Mark)
	}
	out := fmt.Sprintf("%s: %s %d %s\n  %s\n", v.Show.Paint(show.Red, "tampered with"), "event", f.Seq, happened(f.Kind), show.Plain(f.Reason))
	if r.Finding.Line > 0 {
		out += fmt.Sprintf("  on line %d of the file\n", r.Finding.Line)
	}
	if e, err := eventOf(f.Found); err == nil {
		e = show.ForPeople(e)
		out += fmt.Sprintf("  found: %s, by %s, recorded %s\n", show.Statement(e.GetStatement()), show.Cause(e.GetCause()), v.Show.When(e.GetRecorded()))
	}
	return out + fmt.Sprintf("%s come out before it, of %s\n", show.Many(int(r.Events), "event"), log) + held
}

// happened returns the description of an event kind.
func happened(k audit.Kind) string {
	switch k {
	case audit.Inserted:
		return "was never recorded there: it was inserted"
	case audit.Dropped:
		return "is missing: it was dropped"
	case audit.Reordered:
		return "is not the one that was recorded there: events were reordered"
	case audit.Resealed:
		return "is another one than when the mark was taken"
	case audit.Unreadable:
		return "cannot be read"
	}
	return "was altered"
}
