package traffic

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/local"
	"switchyard.dev/tools/traffic"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/comparison/noise"
	"switchyard.dev/workflows/replay"
)

//go:embed sandbox.yaml
var sandboxFile []byte

const (
	// sandbox is the name in sandbox.yaml.
	sandbox = "pr-12"
	// recordFor is how long requests are recorded, and patience bounds each wait.
	recordFor = 10 * time.Second
	patience  = 3 * time.Minute
)

// story is what the acts share.
type story struct {
	step     func(format string, args ...any)
	at       *local.Workstation
	client   *http.Client
	frontend string // its base URL, by cluster address
	key      string // the routing key of the sandbox
}

// acts are the parts of the scenario, in order.
var acts = []func(*story, context.Context) error{(*story).apply, (*story).record, (*story).inspect, (*story).compare}

// Story runs the scenario in a prepared cluster, inside the cluster's network (demo.Cluster.Inside). It returns an error if the
// scenario failed, and leaves none of its objects.
func Story(ctx context.Context) (err error) {
	s := &story{step: demo.Steps(), client: traffic.NewClient()}
	if s.frontend, err = demo.ServiceURL(ctx, "hotrod", "frontend", 8080); err != nil {
		return err
	}
	s.step("a developer's machine, which reaches the API server of the cluster and nothing else of it")
	s.at, err = local.NewWorkstation(ctx)
	defer func() { err = errors.Join(err, s.at.Remove()) }()
	for _, act := range acts {
		if err == nil {
			err = act(s, ctx)
		}
	}
	if err == nil {
		s.step("the sandbox is deleted")
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_, left := demo.Kubectl(ending, "", "delete", "signadotsandbox", sandbox, "--ignore-not-found", "--timeout=60s")
	return errors.Join(err, left)
}

// notes is the file with what the command line has written to its standard error.
const notes = "notes.log"

// runs runs the command line on the developer's machine, prints the command with its output, and returns its standard output
// and its exit code.
func (s *story) runs(ctx context.Context, args ...string) (out string, code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	fmt.Printf("   dora@workstation$ switchyard %s\n", strings.Join(args, " "))
	to, err := os.Create(s.at.File(notes))
	if err != nil {
		return "", 0, err
	}
	defer to.Close()
	c := s.at.Command(ctx, append([]string{local.Program("switchyard")}, args...)...)
	c.Stderr = to
	text, err := c.Output()
	noted, unread := os.ReadFile(to.Name())
	for line := range strings.Lines(string(noted) + string(text)) {
		fmt.Print("   " + line)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		code, err = exit.ExitCode(), nil
	}
	return string(text), code, errors.Join(err, unread)
}

// succeeds is runs of a command that has to exit with 0.
func (s *story) succeeds(ctx context.Context, args ...string) (out string, err error) {
	out, code, err := s.runs(ctx, args...)
	if err == nil && code != 0 {
		err = fmt.Errorf("switchyard %s: exit code %d", strings.Join(args[:2], " "), code)
	}
	return out, err
}

// apply applies the sandbox.
func (s *story) apply(ctx context.Context) error {
	s.step("a sandbox that forks customer, with another build, and frontend, as it is")
	if err := os.WriteFile(s.at.File("sandbox.yaml"), sandboxFile, 0o600); err != nil {
		return err
	}
	if _, err := s.succeeds(ctx, "sandbox", "apply", "-f", "sandbox.yaml"); err != nil {
		return err
	}
	key, err := demo.Kubectl(ctx, "", "get", "signadotsandbox", sandbox, "-o", "jsonpath={.spec.id}")
	s.key = key
	return err
}

// record records requests that the frontend gets with the routing key, and those that it sends to customer.
func (s *story) record(ctx context.Context) error {
	s.step("the requests of its forks are recorded for %s", recordFor)
	_, code, err := s.recording(ctx, "traffic", "record", "--sandbox", sandbox, "--out-dir", "record", "--for", recordFor.String())
	if err == nil && code != 0 {
		err = fmt.Errorf("switchyard traffic record: exit code %d", code)
	}
	return err
}

// recording is runs of a command that records, to which requests are sent once it does.
func (s *story) recording(ctx context.Context, args ...string) (out string, code int, err error) {
	if err := os.WriteFile(s.at.File(notes), nil, 0o600); err != nil { // of an earlier command
		return "", 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sent := make(chan error, 1)
	go func() {
		err := s.requests(ctx)
		if err != nil {
			cancel()
		}
		sent <- err
	}()
	out, code, err = s.runs(ctx, args...)
	cancel()
	return out, code, errors.Join(<-sent, err)
}

// requests sends requests once they are recorded.
func (s *story) requests(ctx context.Context) error {
	if err := wait.Until(ctx, patience, "the requests are recorded", func() error {
		text, err := os.ReadFile(s.at.File(notes))
		if err == nil && !strings.Contains(string(text), " is ready: ") {
			err = fmt.Errorf("the command has written %s", text)
		}
		return err
	}); err != nil {
		return err
	}
	for _, path := range []string{"/dispatch?customer=123", "/dispatch?customer=392", "/dispatch?customer=731", "/config"} {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.frontend+path, nil)
		if err != nil {
			return err
		}
		r.Header.Set("Baggage", "sd-routing-key="+s.key)
		answer, err := s.client.Do(r)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		if err = errors.Join(err, answer.Body.Close()); err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: status %d", path, answer.StatusCode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *story) inspect(ctx context.Context) error {
	s.step("the recorded requests; on a terminal this is a page")
	out, err := s.succeeds(ctx, "traffic", "inspect", "--dir", "record")
	if n := strings.Count(out, "\n"); err == nil && n != 7 {
		err = fmt.Errorf("%d requests are recorded, not 4 of the frontend and 3 of customer", n)
	}
	return err
}

// compare compares: the names of customers differ each time, and rides vary on both sides.
func (s *story) compare(ctx context.Context) error {
	s.step("each is sent three times to the fork and to the baseline: what differs beyond what varies by itself?")
	if _, code, err := s.runs(ctx, "traffic", "compare", "--dir", "record"); err != nil || code != 1 {
		return errors.Join(err, fmt.Errorf("with a red difference the exit code is 1, and it was %d", code))
	}
	s.step("the same in one command, which records first, as JSON")
	out, code, err := s.recording(ctx, "traffic", "compare", "--sandbox", sandbox, "--for", recordFor.String(), "-o", "json")
	if err != nil || code != 1 {
		return errors.Join(err, fmt.Errorf("with a red difference the exit code is 1, and it was %d", code))
	}
	var r replay.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return fmt.Errorf("read the report: %w", err)
	}
	return onlyTheNames(r)
}

// onlyTheNames returns an error unless the names of customers are red, nothing else is, and every request was compared.
func onlyTheNames(r replay.Report) error {
	var red, compared []string
	for _, e := range r.Endpoints {
		compared = append(compared, fmt.Sprint(e.Requests, " ", e.Method, " ", e.Path))
		for _, f := range e.Findings {
			if f.Verdict == noise.Red {
				red = append(red, e.Path+" "+f.Path)
			}
		}
	}
	switch {
	case len(red) != 1 || red[0] != "/customer body/Name":
		return fmt.Errorf("red is %q, not the names of customers alone", red)
	case len(compared) != 3 || len(r.Unpaired)+len(r.NotReplayed) > 0:
		return fmt.Errorf("compared are %q, unpaired %v, not replayed %v", compared, r.Unpaired, r.NotReplayed)
	}
	return nil
}
