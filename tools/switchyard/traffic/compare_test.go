package traffic

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/tests/golden"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/comparison/noise"
	"switchyard.dev/workflows/replay"
)

func TestAReportAsText(t *testing.T) {
	r := &replay.Report{Verdict: noise.Red, Runs: 3, Endpoints: []*replay.Endpoint{
		{Verdict: noise.Red, Workload: "ForkedWorkload/shop/cart", Method: "GET", Path: "/items/{}", Requests: 12, Problems: []string{"decode gzip: it is cut"}, Findings: []*replay.Finding{
			{Verdict: noise.Red, Path: "body/name", Expected: "one", Value: strings.Repeat("two\x1b[2J", 30), Why: "body/name: another value. The baseline had one in all 6 runs.", Requests: 3, Example: "a"},
			{Verdict: noise.Yellow, Path: "answer", Expected: "an answer in 3 of 3 runs", Value: "an answer in 2 of 3 runs", Why: "the fork has not answered each time: EOF", Requests: 1, Example: "b"},
		}},
		{Verdict: noise.Green, Workload: "ForkedWorkload/shop/cart", Method: "GET", Path: "/", Requests: 1},
	}, Unpaired: []replay.Listed{{ID: "c", Method: "GET", Target: "/crash?x=1", Reason: "the fork has not answered in 3 runs, and the baseline has: EOF"}},
		NotReplayed: []replay.Listed{{ID: "d", Method: "POST", Target: "/orders", Reason: "POST can change data, and no rule names this path"}}}
	golden.Compare(t, filepath.Join("testdata", "compare.txt"), reportText(&show.Printer{}, r))
	if got := reportText(&show.Printer{Colours: true}, r); !strings.Contains(got, show.Red+"red   ") {
		t.Errorf("without colours: %q", got)
	}
}

func TestTheFlagsOfCompare(t *testing.T) {
	for _, args := range [][]string{
		{}, {"--sandbox", "a"}, {"--dir", "a", "--sandbox", "a", "--for", "1s"}, {"--dir", "a", "--for", "1s"}, {"--dir", "a", "--workload", "x"}, {"--sandbox", "a", "--for", "2h"},
		{"--dir", "a", "--runs", "0"}, {"--dir", "a", "--runs", "21"}, {"--dir", "a", "--most", "0"}, {"--dir", "a", "--replay", "POST"}, {"--dir", "a", "--header", "token"}, {"--dir", "a", "--header", ": x"},
	} {
		c := compareCommand(command.New(command.Config{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }}))
		c.SetArgs(args)
		c.SilenceErrors, c.SilenceUsage = true, true
		if err := c.Execute(); exit.Of(err) != exit.Usage {
			t.Errorf("%q: %v", args, err)
		}
	}
	o := &compare{dir: "a", rules: []string{"post /a"}, headers: []string{"authorization:  Bearer a:b "}}
	o.Runs, o.Most = 1, 1
	if err := o.check(); err != nil || o.Rules[0] != (replay.Rule{Method: "POST", Path: "/a"}) || o.Header.Get("Authorization") != "Bearer a:b" {
		t.Errorf("%+v, %v", o, err)
	}
}

// What a recording does not have is a reason, or a note, and no request is sent without a part of its body.
func TestRequestsOfARecording(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	f, err := openFolder(path, show.Table, false)
	must(t, err)
	cut, removed, token := exchange("cut"), exchange("removed"), exchange("token")
	cut.Request.BodySize, removed.Request.Elided, token.Request.Elided = 9, []string{"$.card"}, []string{"authorization", "connection", "cookie"}
	token.Request.Headers = []*trafficv1.Header{{Name: "accept", Value: "a"}}
	for i, x := range []*trafficv1.Exchange{cut, removed, token} {
		x.Began.Seconds += int64(i)
	}
	put(t, f, cut, removed, token)
	var notes bytes.Buffer
	o := &compare{s: command.New(command.Config{Zone: time.UTC, Err: &notes}), dir: path, headers: []string{"Cookie: x"}}
	o.Runs, o.Most = 1, 1
	must(t, o.check())
	all, err := o.read()
	must(t, err)
	if len(all) != 3 || all[0].Missing != "only 3 of 9 bytes of its body are recorded" || all[1].Missing == "" || all[2].Missing != "" {
		t.Fatalf("there is %+v", all)
	}
	if got := all[2]; got.Method != "POST" || got.Target != "/add" || got.Host != "cart" || got.Port != 80 || got.Workload != "ForkedWorkload/shop/cart" || string(got.Body) != "one" || got.Header.Get("Accept") != "a" {
		t.Errorf("it is %+v", got)
	}
	if got := notes.String(); got != "Note: 1 request had the header authorization, which is not recorded: set it with --header\n" {
		t.Errorf("the notes are %q", got)
	}
}
