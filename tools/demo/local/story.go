package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/traffic"
	"switchyard.dev/tools/wait"
)

// patience is the timeout of each condition that the scenario waits for.
const patience = 60 * time.Second

// story is what the acts share.
type story struct {
	step     func(format string, args ...any)
	client   *http.Client
	customer string // base URL of HotROD's customer service, by cluster address
	at       *Workstation
	watch    *Watcher
	run      *Process // switchyard run, while it does
	demo.Figures
}

// Story runs the scenario in a prepared cluster and prints its figures at the end. It must run
// inside the cluster's network (demo.Cluster.Inside). It returns an error if the scenario failed,
// but not if a figure misses its target.
func Story(ctx context.Context) (err error) {
	s := &story{step: demo.Steps(), client: traffic.NewClient()}
	if s.customer, err = demo.ServiceURL(ctx, "hotrod", "customer", 8081); err != nil {
		return err
	}
	s.step("a workstation: a machine that reaches the API server of the cluster, and nothing else of it")
	if s.at, err = NewWorkstation(ctx); err != nil {
		return errors.Join(err, s.at.Remove())
	}
	defer func() { err = errors.Join(err, s.stop(), s.at.Remove()) }()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	for _, act := range []func(context.Context) error{s.outside, s.begin, s.connect, s.see, s.restart} {
		if err := act(ctx); err != nil {
			return err
		}
		if s.watch == nil {
			s.watch = NewWatcher(s.customer, Sandbox)
		}
	}
	go s.watch.Run(watching)
	for _, act := range []func(context.Context) error{s.unplug, s.deleteProxy} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	stop()
	if err := s.end(ctx); err != nil {
		return err
	}
	s.count()
	s.Print()
	return nil
}

// shows prints a command of the workstation and its output. It ignores the exit code of the
// command.
func (s *story) shows(ctx context.Context, argv ...string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c := s.at.Command(ctx, argv...)
	out, err := c.CombinedOutput()
	line := append([]string{filepath.Base(argv[0])}, argv[1:]...)
	fmt.Printf("   dora@workstation$ %s\n", strings.Join(line, " "))
	fmt.Print(indent(string(out)))
	if err != nil {
		fmt.Printf("   [%v]\n", err)
	}
}

// outside shows that names and addresses of the cluster mean nothing on the workstation.
func (s *story) outside(ctx context.Context) error {
	for _, url := range []string{"http://customer.hotrod:8081/", s.customer} {
		s.shows(ctx, "curl", "-sS", "--max-time", "2", url)
	}
	return nil
}

// begin applies the sandbox, to which no workstation is connected yet.
func (s *story) begin(ctx context.Context) error {
	file, text, err := s.at.Sandbox()
	if err != nil {
		return err
	}
	s.step("a sandbox in which customer is a process of the workstation")
	fmt.Print(indent(text))
	s.shows(ctx, Program("switchyard"), "sandbox", "apply", "-f", file, "--wait=false")
	s.step("no process is there yet: requests with the key fail visibly, others reach the baseline")
	if err := s.until(ctx, "no workstation is connected", func(a Answer) bool { return a.Status == http.StatusServiceUnavailable }); err != nil {
		return err
	}
	return s.side(ctx)
}

// side prints the responses without and with the key.
func (s *story) side(ctx context.Context) error {
	for _, key := range []string{"", Sandbox} {
		header := "(no key)"
		if key != "" {
			header = "baggage: sd-routing-key=" + key
		}
		a, err := Ask(ctx, s.client, s.customer, key)
		if err != nil {
			return err
		}
		fmt.Printf("   GET /customer?customer=900  %-32s ->  %s\n", header, a)
		if key == "" && !a.Baseline() {
			return fmt.Errorf("without a key the baseline is to answer, and it was %s", a)
		}
	}
	return nil
}

// until waits until requests with the key are answered as they should be.
func (s *story) until(ctx context.Context, what string, right func(Answer) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last Answer
	var err error
	for {
		if last, err = Ask(ctx, s.client, s.customer, Sandbox); err == nil && right(last) {
			return nil
		}
		if wait.For(ctx, 50*time.Millisecond) != nil {
			return errors.Join(fmt.Errorf("%s: after %s a request with the key is answered %s", what, patience, last), err)
		}
	}
}

// connect starts the process in the baseline's place.
func (s *story) connect(ctx context.Context) error {
	s.step("switchyard run: the process starts with the environment of the baseline, and requests with the key reach it")
	fmt.Printf("   dora@workstation$ switchyard run --sandbox %s --workload customer -- ./customer\n", Sandbox)
	began := time.Now()
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.until(ctx, "switchyard run", Answer.Local); err != nil {
		return err
	}
	took := time.Since(began)
	s.Add("LOCAL_RUN_TO_FIRST_REQUEST", fmt.Sprintf("%.2f", took.Seconds()), "s", "at most 5", took <= 5*time.Second)
	return s.side(ctx)
}

// start runs switchyard run.
func (s *story) start(ctx context.Context) (err error) {
	s.run, err = s.at.Start(ctx, "run", Program("switchyard"), "run", "--sandbox", Sandbox, "--workload", "customer", "--", Program("customer"))
	return err
}

// stop ends switchyard run as Ctrl-C does, and prints its output.
func (s *story) stop() error {
	if s.run == nil {
		return nil
	}
	said, err := s.run.Stop()
	s.run = nil
	fmt.Print(indent(said))
	return err
}

// see shows what the process has of its baseline, what the developer sees, and the way into the
// cluster.
func (s *story) see(ctx context.Context) error {
	s.step("what the process has, and what dora sees")
	s.shows(ctx, "sh", "-c", "tr '\\0' '\\n' < /proc/$(pgrep -n -x customer)/environ | grep OTEL")
	s.shows(ctx, Program("switchyard"), "connect", "status")
	s.shows(ctx, Program("switchyard"), "doctor", "--sandbox", Sandbox)
	return nil
}

// restart stops the process and starts it again.
func (s *story) restart(ctx context.Context) error {
	s.step("the process is stopped: requests with the key fail visibly; it is started again")
	if err := s.stop(); err != nil {
		return err
	}
	if err := s.until(ctx, "the process is stopped", func(a Answer) bool { return a.Status == http.StatusServiceUnavailable }); err != nil {
		return err
	}
	if err := s.side(ctx); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.until(ctx, "the process is there again", Answer.Local); err != nil {
		return err
	}
	return s.side(ctx)
}

// unplug cuts the workstation's link for longer than a tunnel lives without a word.
func (s *story) unplug(ctx context.Context) error {
	s.step("the workstation's cable is pulled: within seconds requests with the key are refused, and soon after it is back they arrive")
	began := time.Now()
	if err := s.at.Unplug(ctx); err != nil {
		return err
	}
	if err := s.until(ctx, "the cable is pulled", func(a Answer) bool { return a.Status == http.StatusServiceUnavailable }); err != nil {
		return err
	}
	noticed := time.Since(began)
	s.Add("LOCAL_LOSS_NOTICED", fmt.Sprintf("%.2f", noticed.Seconds()), "s", "at most 8", noticed <= 8*time.Second)
	if err := s.side(ctx); err != nil {
		return err
	}
	began = time.Now()
	if err := s.at.Plug(ctx); err != nil {
		return err
	}
	if err := s.until(ctx, "the cable is back", Answer.Local); err != nil {
		return err
	}
	back := time.Since(began)
	s.Add("LOCAL_BACK_AFTER_A_CUT", fmt.Sprintf("%.2f", back.Seconds()), "s", "at most 8", back <= 8*time.Second)
	return nil
}

// deleteProxy deletes the pod at which the tunnel ends.
func (s *story) deleteProxy(ctx context.Context) error {
	name, err := demo.Kubectl(ctx, "", "get", "signadotexternalworkloads", "-A", "-o", "jsonpath={.items[0].status.tunnel.info.tunnelProxyPodName}")
	if err != nil {
		return err
	}
	s.step("the pod at which the tunnel ends is deleted (%s)", name)
	began := time.Now()
	if _, err := demo.Kubectl(ctx, "", "delete", "pod", "-n", "signadot", name, "--wait=false"); err != nil {
		return err
	}
	err = s.until(ctx, "another pod has the tunnel", func(a Answer) bool {
		now, err := demo.Kubectl(ctx, "", "get", "signadotexternalworkloads", "-A", "-o", "jsonpath={.items[0].status.tunnel.info.tunnelProxyPodName}")
		return err == nil && now != name && now != "" && a.Local()
	})
	if err != nil {
		return err
	}
	back := time.Since(began)
	s.Add("LOCAL_BACK_AT_ANOTHER_PROXY", fmt.Sprintf("%.2f", back.Seconds()), "s", "at most 8", back <= 8*time.Second)
	return s.side(ctx)
}

// end deletes the sandbox.
func (s *story) end(ctx context.Context) error {
	s.step("the sandbox is deleted, and the process ends")
	s.shows(ctx, Program("switchyard"), "sandbox", "delete", Sandbox)
	if err := s.stop(); err != nil {
		return err
	}
	return demo.PrintLeft(ctx)
}

// count prints the results of the requests made in the meantime.
func (s *story) count() {
	w := s.watch.Counts()
	fmt.Printf("\n   in the meantime: %d requests with the key reached the workstation, %d were refused while it was away; %d without it reached the baseline\n",
		w.KeyedLocal, w.KeyedRefused, w.Plain)
	if w.Wrong != "" {
		fmt.Printf("   the last that was wrong: %s\n", w.Wrong)
	}
	s.Add("LOCAL_KEYED_AT_BASELINE", fmt.Sprint(w.KeyedBaseline), "requests", "0", w.KeyedBaseline == 0)
	s.Add("LOCAL_PLAIN_WRONG", fmt.Sprint(w.PlainWrong), "requests", "0", w.PlainWrong == 0)
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		b.WriteString("   " + line)
	}
	return b.String()
}
