package local

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"switchyard.dev/tests/traffic"
	"switchyard.dev/tests/wait"
	"switchyard.dev/tools/cache"
	"switchyard.dev/tools/demo"
)

//go:embed developer.yaml sandbox.yaml
var manifests embed.FS

// sandbox is the name of the sandbox in sandbox.yaml, and its routing key.
const sandbox = "laptop"

// patience is how long the story waits for what is to come about.
const patience = 60 * time.Second

// story is what the acts share.
type story struct {
	step     func(format string, args ...any)
	client   *http.Client
	customer string // base URL of HotROD's customer service, by cluster address
	at       *workstation
	watch    *watcher
	run      *exec.Cmd // switchyard run, while it does
	figures  []string
}

// Programs are those of this machine that the story runs, by their main packages.
var Programs = map[string]string{"switchyard": "./routeserver/cmd/switchyard", "customer": "./tools/demo/cmd/customer"}

// program is the path of one of Programs.
func program(name string) string { return filepath.Join(cache.Dir(), "tools", "local", name) }

// Prepare makes the cluster with Switchyard and HotROD, and the programs of the workstation.
func Prepare(ctx context.Context, c demo.Config) error {
	for name, main := range Programs {
		build := exec.CommandContext(ctx, "go", "build", "-o", program(name), main)
		build.Dir, build.Stderr = c.Root, os.Stderr
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
		if err := build.Run(); err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
	}
	return demo.Prepare(ctx, c)
}

// Story tells the story in a prepared cluster and prints its figures at the end. It needs to
// run inside (demo.Cluster.Inside). An error means that the story could not be told; a figure
// that is short does not.
func Story(ctx context.Context) (err error) {
	s := &story{step: demo.Steps(), client: traffic.NewClient()}
	if s.customer, err = demo.ServiceURL(ctx, "hotrod", "customer", 8081); err != nil {
		return err
	}
	s.step("a workstation: a machine that reaches the API server of the cluster, and nothing else of it")
	if s.at, err = newWorkstation(ctx); err != nil {
		return errors.Join(err, s.at.remove())
	}
	defer func() { err = errors.Join(err, s.stop(), s.at.remove()) }()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	for _, act := range []func(context.Context) error{s.outside, s.begin, s.connect, s.see, s.restart} {
		if err := act(ctx); err != nil {
			return err
		}
		if s.watch == nil {
			s.watch = newWatcher(s.customer, sandbox)
		}
	}
	go s.watch.run(watching)
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
	fmt.Println()
	for _, figure := range s.figures {
		fmt.Println(figure)
	}
	return nil
}

// figure notes a measured figure for the end.
func (s *story) figure(name, value, unit, target string, holds bool) {
	verdict := map[bool]string{true: "holds", false: "short"}[holds]
	s.figures = append(s.figures, fmt.Sprintf("%s %s %s (target %s): %s", name, value, unit, target, verdict))
}

// shows prints a command of the workstation and what it says. It does not fail with it.
func (s *story) shows(ctx context.Context, argv ...string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c := s.at.command(ctx, argv...)
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
	text, err := manifests.ReadFile("sandbox.yaml")
	if err != nil {
		return err
	}
	file := filepath.Join(s.at.folder, "sandbox.yaml")
	if err := put(file, text); err != nil {
		return err
	}
	s.step("a sandbox in which customer is a process of the workstation")
	fmt.Print(indent(string(text)))
	s.shows(ctx, program("switchyard"), "sandbox", "apply", "-f", file, "--wait=false")
	s.step("no process is there yet: requests with the key fail visibly, others reach the baseline")
	if err := s.until(ctx, "no workstation is connected", func(a answer) bool { return a.status == http.StatusServiceUnavailable }); err != nil {
		return err
	}
	return s.side(ctx)
}

// side prints what is answered without and with the key.
func (s *story) side(ctx context.Context) error {
	for _, key := range []string{"", sandbox} {
		header := "(no key)"
		if key != "" {
			header = "baggage: sd-routing-key=" + key
		}
		a, err := ask(ctx, s.client, s.customer, key)
		if err != nil {
			return err
		}
		fmt.Printf("   GET /customer?customer=900  %-32s ->  %s\n", header, a)
		if key == "" && !a.baseline() {
			return fmt.Errorf("without a key the baseline is to answer, and it was %s", a)
		}
	}
	return nil
}

// until waits until requests with the key are answered as they should be.
func (s *story) until(ctx context.Context, what string, right func(answer) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last answer
	var err error
	for {
		if last, err = ask(ctx, s.client, s.customer, sandbox); err == nil && right(last) {
			return nil
		}
		if wait.For(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("%s: after %s a request with the key is answered %s (%v)", what, patience, last, err)
		}
	}
}

// connect starts the process in the baseline's place.
func (s *story) connect(ctx context.Context) error {
	s.step("switchyard run: the process starts with the environment of the baseline, and requests with the key reach it")
	fmt.Printf("   dora@workstation$ switchyard run --sandbox %s --workload customer -- ./customer\n", sandbox)
	began := time.Now()
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.until(ctx, "switchyard run", answer.local); err != nil {
		return err
	}
	took := time.Since(began)
	s.figure("LOCAL_RUN_TO_FIRST_REQUEST", fmt.Sprintf("%.2f", took.Seconds()), "s", "at most 5", took <= 5*time.Second)
	return s.side(ctx)
}

// start runs switchyard run in a process group of its own.
func (s *story) start(ctx context.Context) error {
	s.run = s.at.command(ctx, program("switchyard"), "run", "--sandbox", sandbox, "--workload", "customer", "--", program("customer"))
	s.run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.OpenFile(filepath.Join(s.at.folder, "run.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.run.Stdout, s.run.Stderr = log, log
	return s.run.Start()
}

// stop ends switchyard run as Ctrl-C does, and prints what it has said.
func (s *story) stop() error {
	if s.run == nil {
		return nil
	}
	_ = syscall.Kill(-s.run.Process.Pid, syscall.SIGINT) // It may have ended.
	ended := make(chan struct{})
	go func() { _ = s.run.Wait(); close(ended) }() // It was interrupted.
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		_ = syscall.Kill(-s.run.Process.Pid, syscall.SIGKILL)
		<-ended
	}
	s.run = nil
	said, err := os.ReadFile(filepath.Join(s.at.folder, "run.log"))
	fmt.Print(indent(string(said)))
	return err
}

// see shows what the process has of its baseline, what the developer sees, and the way into the
// cluster.
func (s *story) see(ctx context.Context) error {
	s.step("what the process has, and what dora sees")
	s.shows(ctx, "sh", "-c", "tr '\\0' '\\n' < /proc/$(pgrep -n -x customer)/environ | grep OTEL")
	s.shows(ctx, program("switchyard"), "connect", "status")
	s.shows(ctx, program("switchyard"), "doctor", "--sandbox", sandbox)
	return nil
}

// restart stops the process and starts it again.
func (s *story) restart(ctx context.Context) error {
	s.step("the process is stopped: requests with the key fail visibly; it is started again")
	if err := s.stop(); err != nil {
		return err
	}
	if err := s.until(ctx, "the process is gone", func(a answer) bool { return a.status == http.StatusServiceUnavailable }); err != nil {
		return err
	}
	if err := s.side(ctx); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.until(ctx, "the process is there again", answer.local); err != nil {
		return err
	}
	return s.side(ctx)
}

// unplug cuts the workstation's link for longer than a tunnel lives without a word.
func (s *story) unplug(ctx context.Context) error {
	s.step("the workstation's cable is pulled: within seconds requests with the key are refused, and soon after it is back they arrive")
	began := time.Now()
	if err := s.at.unplugged(ctx, true); err != nil {
		return err
	}
	if err := s.until(ctx, "the cable is pulled", func(a answer) bool { return a.status == http.StatusServiceUnavailable }); err != nil {
		return err
	}
	noticed := time.Since(began)
	s.figure("LOCAL_LOSS_NOTICED", fmt.Sprintf("%.2f", noticed.Seconds()), "s", "at most 8", noticed <= 8*time.Second)
	if err := s.side(ctx); err != nil {
		return err
	}
	began = time.Now()
	if err := s.at.unplugged(ctx, false); err != nil {
		return err
	}
	if err := s.until(ctx, "the cable is back", answer.local); err != nil {
		return err
	}
	back := time.Since(began)
	s.figure("LOCAL_BACK_AFTER_A_CUT", fmt.Sprintf("%.2f", back.Seconds()), "s", "at most 8", back <= 8*time.Second)
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
	err = s.until(ctx, "another pod has the tunnel", func(a answer) bool {
		now, err := demo.Kubectl(ctx, "", "get", "signadotexternalworkloads", "-A", "-o", "jsonpath={.items[0].status.tunnel.info.tunnelProxyPodName}")
		return err == nil && now != name && now != "" && a.local()
	})
	if err != nil {
		return err
	}
	back := time.Since(began)
	s.figure("LOCAL_BACK_AT_ANOTHER_PROXY", fmt.Sprintf("%.2f", back.Seconds()), "s", "at most 8", back <= 8*time.Second)
	return s.side(ctx)
}

// end deletes the sandbox.
func (s *story) end(ctx context.Context) error {
	s.step("the sandbox is deleted, and the process ends")
	s.shows(ctx, program("switchyard"), "sandbox", "delete", sandbox)
	if err := s.stop(); err != nil {
		return err
	}
	left, err := demo.Kubectl(ctx, "", "get", "signadot", "--all-namespaces", "-o", "name")
	if err != nil {
		return err
	}
	if left = strings.TrimSpace(left); left == "" {
		left = "nothing is left of it"
	}
	fmt.Printf("   %s\n", left)
	return nil
}

// count tells what became of the requests that were made meanwhile.
func (s *story) count() {
	w := s.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Printf("\n   meanwhile: %d requests with the key reached the workstation, %d were refused while it was away; %d without it reached the baseline\n",
		w.keyedLocal, w.keyedRefused, w.plain)
	if w.wrong != "" {
		fmt.Printf("   the last that was wrong: %s\n", w.wrong)
	}
	s.figure("LOCAL_KEYED_AT_BASELINE", fmt.Sprint(w.keyedBaseline), "requests", "0", w.keyedBaseline == 0)
	s.figure("LOCAL_PLAIN_WRONG", fmt.Sprint(w.plainWrong), "requests", "0", w.plainWrong == 0)
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		b.WriteString("   " + line)
	}
	return b.String()
}
