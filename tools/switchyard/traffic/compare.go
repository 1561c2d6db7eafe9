package traffic

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/textproto"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"switchyard.dev/sidecars/traffic/published"
	"switchyard.dev/sidecars/traffic/recorded"
	"switchyard.dev/sidecars/traffic/recording"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/local"
	"switchyard.dev/tools/switchyard/local/header"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/comparison/noise"
	"switchyard.dev/workflows/replay"
)

const aboutCompare = `Send recorded requests of a sandbox's forks again, each --runs times to the fork, with its
routing key, and to the baseline, without one, and compare the answers. The runs of the baseline
show what varies by itself: a difference is red only outside of that, and yellow if it
can be such a variation. Requests with red differences are sent as often again, and the difference
counts if it is there in all runs. The exit code is 1 if a difference is red.

--dir is a folder of traffic record --out-dir; --sandbox with --for records first, as
traffic record does. GET, HEAD and OPTIONS over HTTP are sent; gRPC and other methods can change data,
and are sent only where --replay names the method and the path, with {} for parts of the path
that are numbers or other IDs. Other requests are listed with the reason.

Credentials are not recorded: --header sets a header in each request. Requests are sent through
a tunnel, as those of proxy, to the Service of the baseline. Names and addresses of
the pods of both sides are no differences, if you can list pods in the namespace.`

// compare is what the flags of traffic compare ask for.
type compare struct {
	s       *command.Session
	tunnel  *local.Tunnel
	dir     string
	live    recording.Asked
	rules   []string
	headers []string
	replay.Config
}

func compareCommand(s *command.Session) *cobra.Command {
	o := &compare{s: s}
	c := &cobra.Command{
		Use: "compare --dir FOLDER", Short: "Compare answers of a sandbox's forks with those of their baselines", Args: cobra.NoArgs, Long: aboutCompare,
		Example: "  switchyard traffic compare --dir ./pr-12\n  switchyard traffic compare --sandbox pr-12 --for 1m --header \"Authorization: Bearer $TOKEN\"\n  switchyard traffic compare --dir ./pr-12 --replay \"POST /cart/{}/items\" -o json",
	}
	f := c.Flags()
	f.StringVarP(&o.dir, "dir", "d", "", "`folder` with recorded requests")
	f.StringVar(&o.live.Sandbox, "sandbox", "", "`name` of a sandbox to record first")
	f.StringVar(&o.live.Workload, "workload", "", "with --sandbox, record only the fork of the baseline with this `name`")
	f.DurationVar(&o.live.For, "for", 0, "with --sandbox, how long to record, at most 1h")
	f.StringArrayVar(&o.rules, "replay", nil, "send also requests with this `\"METHOD PATH\"`, which can change data; repeatable")
	f.StringArrayVar(&o.headers, "header", nil, "set this `\"NAME: VALUE\"` in each request; repeatable")
	f.IntVar(&o.Runs, "runs", 3, "how often each request is sent to each side, 1 to 20")
	f.IntVar(&o.Most, "most", 20, "send at most this number of recorded requests of each endpoint")
	o.tunnel = local.NewTunnel(s, f)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := o.check(); err != nil {
			return err
		}
		return o.run(c.Context())
	}
	return c
}

// maxRuns bounds --runs.
const maxRuns = 20

// check evaluates the flags.
func (o *compare) check() error {
	switch {
	case (o.dir == "") == (o.live.Sandbox == ""):
		return exit.Usage.Errorf("give --dir FOLDER with recorded requests, or --sandbox NAME and --for to record some first")
	case o.dir != "" && (o.live.For != 0 || o.live.Workload != ""):
		return exit.Usage.Errorf("--for and --workload are for --sandbox")
	case o.dir == "" && (o.live.For <= 0 || o.live.For > recording.Longest):
		return exit.Usage.Errorf("--sandbox needs --for, more than 0 and at most %s", recording.Longest)
	case o.Runs < 1 || o.Runs > maxRuns:
		return exit.Usage.Errorf("--runs is from 1 to %d, not %d", maxRuns, o.Runs)
	case o.Most < 1:
		return exit.Usage.Errorf("--most is at least 1, not %d", o.Most)
	}
	for _, text := range o.rules {
		rule, err := replay.ParseRule(text)
		if err != nil {
			return exit.Usage.Errorf("--replay %w", err)
		}
		o.Rules = append(o.Rules, rule)
	}
	o.Header = http.Header{}
	for _, text := range o.headers {
		name, value, ok := strings.Cut(text, ":")
		if name = textproto.TrimString(name); !ok || name == "" || strings.ContainsAny(name, " \t") {
			return exit.Usage.Errorf("--header %q is not \"NAME: VALUE\"", name)
		}
		o.Header.Add(name, textproto.TrimString(value))
	}
	return nil
}

// run reads or records the requests, compares, and prints the report.
func (o *compare) run(ctx context.Context) error {
	if o.dir == "" {
		dir, err := os.MkdirTemp("", "switchyard-traffic-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := o.record(ctx, dir); err != nil {
			return err
		}
		o.dir = dir
	}
	requests, err := o.read()
	if err != nil {
		return err
	}
	cluster, err := o.s.Writer()
	if err != nil {
		return err
	}
	if access, err := o.s.Cluster.Rest(); err == nil {
		o.Custom = header.Custom(ctx, access, o.s.Cluster.Namespace)
	}
	o.Find = func(ctx context.Context, workload string, port uint32) (replay.Target, error) {
		ctx, cancel := o.s.Patiently(ctx)
		defer cancel()
		return replay.Find(ctx, cluster, workload, port)
	}
	var report *replay.Report
	err = o.tunnel.During(ctx, func(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error)) (err error) {
		o.Dial = dial
		report, err = replay.Run(ctx, o.Config, requests)
		return err
	})
	if err == nil {
		err = o.s.Show.Report(report, reportText(o.s.Show, report))
	}
	switch {
	case err != nil:
		return err
	case report.Verdict == "":
		return exit.Failed.Errorf("no request was compared, of %d recorded ones: the reasons are listed above", len(requests))
	}
	return exit.No.Unless(report.Verdict != noise.Red)
}

// record records requests into a folder. Their lines are notes here.
func (o *compare) record(ctx context.Context, dir string) error {
	notes, printer := *o.s, *o.s.Show
	printer.Form, notes.Out, notes.Show = show.Table, o.s.Err, &printer
	return recordTo(ctx, &notes, o.live, target{dir: dir})
}

// read returns the requests of the folder, and notes which credentials they lack.
func (o *compare) read() (all []replay.Request, err error) {
	in := os.DirFS(o.dir)
	metas, err := recorded.List(in)
	if metas == nil && err != nil {
		return nil, exit.Failed.Errorf("%w", err)
	}
	o.note(err)
	lacking := map[string]int{}
	for _, m := range metas {
		r := replay.Request{ID: m.MiddlewareRequestID, Workload: m.DestWorkload, Port: m.Capture.Port, Method: m.Method, Target: m.RequestURI, Host: m.Host, Protocol: m.Proto, Missing: missing(m)}
		if r.Header, r.Body, err = recorded.Request(in, r.ID); err != nil {
			o.note(err)
			r.Missing = "its recording cannot be read"
		}
		all = append(all, r)
		for _, name := range credentials {
			if slices.Contains(m.Capture.Request.Elided, name) && o.Header.Get(name) == "" {
				lacking[name]++
			}
		}
	}
	for _, name := range credentials {
		if n := lacking[name]; n > 0 {
			o.note(fmt.Errorf("%s had the header %s, which is not recorded: set it with --header", show.Many(n, "request"), name))
		}
	}
	return all, nil
}

// credentials are headers that are never recorded.
var credentials = []string{"authorization", "authentication", "cookie"}

// missing returns why a recording does not have all of a request's body; empty: it does.
func missing(m published.Meta) string {
	part := m.Capture.Request
	switch {
	case part == nil:
		return "its metadata is not whole"
	case part.BodyCut:
		return fmt.Sprintf("only %d of %d bytes of its body are recorded", part.BodyRecorded, part.BodySize)
	case slices.ContainsFunc(part.Elided, func(name string) bool { return strings.HasPrefix(name, "$") || strings.HasPrefix(name, "body:") }):
		return "parts of its body were removed from the recording"
	}
	return ""
}

func (o *compare) note(err error) {
	if err != nil {
		_, _ = fmt.Fprintf(o.s.Err, "Note: %s\n", show.Plain(err.Error()))
	}
}
