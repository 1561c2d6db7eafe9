// Package traffic contains the commands about the requests of sandboxes.
//
//	traffic record                   record.go
//	traffic compare                  compare.go, report.go
//	traffic inspect                  inspect.go, page.go
//	the forms that it writes         output.go
//	replicas and tickets             cluster.go
//
// The operations without flags and files are in sidecars/traffic/recording and workflows/replay.
package traffic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/members"
	"switchyard.dev/sidecars/traffic/published"
	"switchyard.dev/sidecars/traffic/recording"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/show"
)

// Command returns the command of this package.
func Command(s *command.Session) *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "traffic", Short: "Record the requests that sandboxes serve, and compare the answers",
		Long: "Record the requests that the members of sandboxes serve, show them, and compare the answers with those of the\nbaselines; only a kubeconfig is needed.",
	}, recordCommand(s), inspectCommand(s), compareCommand(s))
}

// target is where a recording is written.
type target struct {
	dir, har, file string
	short, clean   bool
}

const about = `Record the requests of the members of a sandbox, with their responses, until you interrupt
it, --for is over, or an hour has passed. A line is printed for each request, or with -o json or
yaml its metadata. The recording is a TrafficCapture, which is deleted at the end: if this
program is killed, the operator ends it within two minutes. At the end the numbers of requests are
printed: seen = stored + sampled out + evicted + lost.

With --capture, an existing TrafficCapture is read: the stored requests, and then new ones, until
it ends, too. Nothing is created, renewed or deleted.

Authorization, cookies and headers of one hop are removed before the first copy, and bodies are
cut after 64 KiB; the metadata states both. You need the rights to fork the workload; get, create,
patch and delete for trafficcaptures and get for pods/log in its namespace (--capture: the two
gets); port-forwards to the operator; and a token in the kubeconfig or --token-file.

--out-dir has a folder for each request, named by its ID, with meta.json, request and response in
the wire format of HTTP/1.1, and all metadata in meta.jsons (with -o yaml meta.yamls); an existing
recording is continued, unless --clean deletes it. --har is an HTTP Archive 1.2. --short
records no bodies and headers: --to-file is a file that metadata is appended to.`

func recordCommand(s *command.Session) *cobra.Command {
	var asked recording.Asked
	var to target
	c := &cobra.Command{
		Use: "record (--sandbox NAME | --capture NAME -n NAMESPACE)", Short: "Record the requests of a sandbox", Args: cobra.NoArgs, Long: about,
		Example: "  switchyard traffic record --sandbox pr-12 --out-dir ./pr-12\n  switchyard traffic record --sandbox pr-12 --workload cart --for 5m --har pr-12.har\n  switchyard traffic record --sandbox pr-12 --short --to-file requests.jsons\n  switchyard traffic record --capture cart -n shop --out-dir ./cart",
	}
	f := c.Flags()
	f.StringVar(&asked.Sandbox, "sandbox", "", "`name` of the sandbox")
	f.StringVar(&asked.Workload, "workload", "", "record only one member: the `name` of its baseline, or the one that the sandbox gives an external or virtual workload")
	f.StringVar(&asked.Capture.Name, "capture", "", "read the existing TrafficCapture with this `name` instead, and leave it as it is")
	f.StringVarP(&asked.Capture.Namespace, "namespace", "n", "", "`namespace` of --capture")
	f.DurationVar(&asked.For, "for", 0, "end after this time, at most 1h; 0: 1h")
	f.StringVar(&to.dir, "out-dir", "", "write a folder for each request into this `folder`")
	f.BoolVar(&to.clean, "clean", false, "delete earlier recordings from --out-dir first")
	f.StringVar(&to.har, "har", "", "write an HTTP Archive to this `file`")
	f.BoolVar(&to.short, "short", false, "record only the metadata of requests")
	f.StringVar(&to.file, "to-file", "", "with --short, append metadata to this `file`")
	c.RunE = func(c *cobra.Command, _ []string) error {
		switch {
		case asked.Capture.Name != "" && (asked.Sandbox != "" || asked.Workload != ""):
			return exit.Usage.Errorf("choose one of --sandbox and --capture; --workload is for --sandbox")
		case (asked.Capture.Name == "") != (asked.Capture.Namespace == ""):
			return exit.Usage.Errorf("give the name and the namespace of a TrafficCapture: --capture NAME -n NAMESPACE; kubectl get trafficcapture -A shows the existing ones")
		case asked.Sandbox == "" && asked.Capture.Name == "":
			return exit.Usage.Errorf("give --sandbox NAME; %s sandbox list shows the existing ones", s.Name)
		case asked.For < 0 || asked.For > recording.Longest:
			return exit.Usage.Errorf("--for is at most %s, not %s", recording.Longest, asked.For)
		case to.dir != "" && to.har != "", to.short && to.dir+to.har != "":
			return exit.Usage.Errorf("choose one of --out-dir, --har and --short")
		case to.file != "" && !to.short:
			return exit.Usage.Errorf("--to-file is for --short: use --out-dir or --har for whole requests")
		case to.clean && to.dir == "":
			return exit.Usage.Errorf("--clean needs --out-dir")
		}
		return recordTo(c.Context(), s, asked, to)
	}
	return c
}

// recordTo records in the cluster that the user means.
func recordTo(ctx context.Context, s *command.Session, asked recording.Asked, to target) error {
	writer, err := s.Writer()
	if err != nil {
		return err
	}
	at, err := open(ctx, s)
	if err != nil {
		return exit.Unavailable.Errorf("%w", err)
	}
	return run(ctx, s, recording.Config{Client: writer, Replicas: at.replicas, Dial: at.dial, Ticket: at.Ticket}, asked, to)
}

// run records, and prints how complete the recording is.
func run(ctx context.Context, s *command.Session, cfg recording.Config, asked recording.Asked, to target) error {
	box := &crdv1.SignadotSandbox{}
	if asked.Workload != "" && cfg.Client.Get(ctx, client.ObjectKey{Name: asked.Sandbox}, box) == nil { // the recording has its error
		if err := unambiguous(box, asked.Workload); err != nil {
			return exit.No.Errorf("%w", err)
		}
	}
	outputs, err := to.open(s)
	if err != nil {
		return exit.Failed.Errorf("%w", err)
	}
	cfg.Note = func(text string) { _, _ = io.WriteString(s.Err, show.Line(text)+"\n") }
	cfg.Each = func(x *trafficv1.Exchange, workload string) error {
		if _, err := published.Folder(x.GetId()); err != nil {
			cfg.Note(fmt.Sprintf("a request of pod %s is left out: %v", x.GetPod(), err))
			return nil
		}
		m := published.MetaOf(x, workload)
		if err := printed(s, m); err != nil {
			return err
		}
		for _, o := range outputs {
			if err := o.add(x, m); err != nil {
				return fmt.Errorf("request %q is not written: %w", x.GetId(), err)
			}
		}
		return nil
	}
	result, err := recording.Record(ctx, cfg, asked)
	comment := ""
	if result != nil && result.Began {
		comment = identity(result)
		cfg.Note(comment)
	}
	for _, o := range outputs {
		err = errors.Join(err, o.end(comment))
	}
	if errors.Is(err, recording.ErrNoSandbox) || errors.Is(err, recording.ErrNoFork) || errors.Is(err, recording.ErrNotReady) || errors.Is(err, recording.ErrNoCapture) {
		return exit.No.Errorf("%w", err)
	}
	return err
}

// unambiguous returns the error of a name that is that of a member of a sandbox, and that of another one or of its baseline: a capture
// with it records both.
func unambiguous(s *crdv1.SignadotSandbox, name string) error {
	in := lists.Filter(members.Of(s), func(m members.Member) bool { return m.Is(name) })
	given := slices.IndexFunc(in, func(m members.Member) bool { return m.Given == name })
	if given < 0 {
		return nil
	}
	other := slices.IndexFunc(in, func(m members.Member) bool { return m.ObjectRef != in[given].ObjectRef })
	if other < 0 {
		return nil
	}
	of := func(m members.Member) string {
		return fmt.Sprintf("%s of baseline %s %s/%s", cmp.Or(m.Given, "the fork"), m.Kind, m.Namespace, m.Name)
	}
	return fmt.Errorf("--workload %s is ambiguous: sandbox %s has %s, and %s; use a name that only one of them has, or record all members without --workload", name, s.Name, of(in[given]), of(in[other]))
}

// open returns the outputs.
func (t target) open(s *command.Session) (out []output, err error) {
	switch {
	case t.dir != "":
		f, err := openFolder(t.dir, s.Show.Form, t.clean)
		return []output{f}, err
	case t.har != "":
		a, err := openArchive(t.har, version())
		return []output{a}, err
	case t.file != "":
		f, err := openShort(t.file, s.Show.Form)
		return []output{f}, err
	}
	return nil, nil
}

// version returns the version of this program.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// printed prints a request: one line, or its metadata with -o json or yaml.
func printed(s *command.Session, m published.Meta) (err error) {
	text := []byte(line(s, m))
	if s.Show.Form != show.Table {
		text, err = record(m, s.Show.Form)
	}
	if err == nil {
		_, err = s.Out.Write(text)
	}
	return err
}

// line returns a request as one line.
func line(s *command.Session, m published.Meta) string {
	status := fmt.Sprint(m.Capture.Status)
	if m.Capture.Response == nil {
		status = "---"
	}
	out := fmt.Sprintf("%s %s %s %s%s %.1fms %s %s", m.When.In(s.Now().Location()).Format("15:04:05.000"), status, m.Method, m.Host, m.RequestURI, m.Capture.MillisecondsToEnd, m.DestWorkload, m.MiddlewareRequestID)
	if m.Capture.Overridden {
		out += " (override)"
	}
	if m.Capture.Problem != "" {
		out += " (" + m.Capture.Problem + ")"
	}
	return show.Line(out) + "\n"
}

// identity states how complete a recording is.
func identity(r *recording.Result) string {
	out := recording.Identity(r.Counts) + fmt.Sprintf("; %d are recorded here", r.Read)
	if len(r.Unanswered) > 0 {
		out += "; without the counts of " + strings.Join(r.Unanswered, ", ")
	}
	return out
}
