package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/figures"
	"switchyard.dev/tools/demo/local"
	"switchyard.dev/tools/wait"
)

// Further ways, to have a script print a line.
const (
	run    way = "run"    // kubectl run
	runner way = "runner" // switchyard job submit, with a pod that is idle
	zero   way = "zero"   // a Job of Switchyard and its runner group with one pod, created together
)

// lines are the ways to print a line, in the order in which they take turns.
var lines = []way{job, sidecar, run, workflow, runner, zero}

const (
	// often is how many jobs are submitted one after the other to the idle pod, for each run of another way.
	often = 10
	// place is the namespace of the idle pod.
	place = "bench-idle"
)

// printed is how long it took until the submitter had the line, and until the end was known; 0: it was not measured.
type printed struct{ line, end []time.Duration }

// jobs measures ways to print a line, and prints the figures.
func jobs(ctx context.Context, out io.Writer, rounds int) error {
	c, err := open()
	if err != nil {
		return err
	}
	d, err := c.desk(ctx)
	if err != nil {
		return err
	}
	defer os.RemoveAll(d.folder) //nolint:errcheck // It is temporary.
	fmt.Fprintf(out, "\na script that prints a line, %d times each way, in turn\n", rounds)
	all := map[way]*printed{}
	for _, w := range lines {
		all[w] = &printed{}
	}
	for round := range rounds + 1 {
		for _, w := range lines {
			times := 1
			if w == runner {
				times = often
			}
			for i := range times {
				line, end, err := d.print(ctx, w, fmt.Sprintf("line-%s-%d-%d", w, round, i))
				if err != nil {
					return fmt.Errorf("%s: %w", w, err)
				}
				if round > 0 { // The first of each includes one-time setup.
					all[w].line, all[w].end = append(all[w].line, line), append(all[w].end, end)
				}
			}
		}
	}
	for _, w := range lines {
		if w != zero {
			figures.Print(out, "cluster-first-line-"+string(w)+"-p50", figures.Millis(all[w].line, 0.5), "ms")
		}
		figures.Print(out, "cluster-until-the-end-"+string(w)+"-p50", figures.Millis(all[w].end, 0.5), "ms")
	}
	figures.AtMost(out, "cluster-first-line-with-an-idle-pod-p50", figures.Millis(all[runner].line, 0.5), "ms", 300)
	figures.AtMost(out, "cluster-first-line-with-an-idle-pod-p99", figures.Millis(all[runner].line, 0.99), "ms", 800)
	figures.AtMost(out, "cluster-from-zero-pods-beside-a-job-with-sidecar", figures.Millis(all[zero].end, 0.5)/figures.Millis(all[sidecar].end, 0.5), "times", 1.3)
	return nil
}

// desk is where a person submits jobs.
type desk struct {
	*cluster
	// folder has a token of a user with all rights, and the specification of a job.
	folder string
}

// desk makes the runner group with an idle pod, and the desk.
func (c *cluster) desk(ctx context.Context) (*desk, error) {
	for _, o := range documents("idle", "") {
		if err := c.Create(ctx, o); client.IgnoreAlreadyExists(err) != nil {
			return nil, fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	token, err := apiserver.Token(ctx, c.kube, place, "user", "", nil)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "bench-jobs-")
	if err != nil {
		return nil, err
	}
	d := &desk{c, folder}
	err = errors.Join(os.WriteFile(d.file("token"), []byte(token), 0o600), os.WriteFile(d.file("job.yaml"), []byte(object("submitted")), 0o600))
	if err != nil {
		return nil, err
	}
	return d, wait.Until(ctx, 3*time.Minute, "the idle pod is ready", func() error {
		g := documents("idle", "")[0]
		for _, o := range documents("idle", "") {
			if o.GetKind() == "JobRunnerGroup" {
				g = o
			}
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(g), g); err != nil {
			return err
		}
		if n, _, _ := unstructured.NestedInt64(g.Object, "status", "readyReplicas"); n == 0 {
			return fmt.Errorf("its status is %v", g.Object["status"])
		}
		return nil
	})
}

func (d *desk) file(name string) string { return filepath.Join(d.folder, name) }

// print has a line printed, removes everything, and returns how long it took until this process had the line and knew of
// the end.
func (d *desk) print(ctx context.Context, w way, name string) (line, end time.Duration, err error) {
	time.Sleep(rand.N(time.Second)) //nolint:gosec // Not in step with the kubelet, that is all.
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	switch w {
	case runner:
		return d.command(ctx, local.Program("switchyard"), "job", "submit", "-f", d.file("job.yaml"), "--namespace", place, "--attach", "--token-file", d.file("token"))
	case run:
		line, end, err = d.command(ctx, "kubectl", "run", name, "--namespace", namespace, "--image", "switchyard.dev/debian:dev", "--restart", "Never", "--attach", "--quiet",
			"--command", "--", "sh", "-c", "echo line")
		pod := &unstructured.Unstructured{}
		pod.SetAPIVersion("v1")
		pod.SetKind("Pod")
		pod.SetNamespace(namespace)
		pod.SetName(name)
		return line, end, errors.Join(err, d.remove(ctx, pod))
	}
	return d.objects(ctx, documents(string(w), name), w != zero)
}

// command runs a program that prints the line and ends with the job.
func (d *desk) command(ctx context.Context, name string, args ...string) (line, end time.Duration, err error) {
	var errs strings.Builder
	c := exec.CommandContext(ctx, name, args...)
	c.Stderr = &errs
	out, err := c.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	if err := c.Start(); err != nil {
		return 0, 0, err
	}
	text, unread := bufio.NewReader(out).ReadString('\n')
	line = time.Since(begun)
	_, rest := io.Copy(io.Discard, out)
	err = c.Wait()
	if end = time.Since(begun); err != nil || unread != nil || rest != nil || text != "line\n" {
		return 0, 0, fmt.Errorf("%s %s printed %q: %w: %s", name, args[0], text, errors.Join(err, unread, rest), errs.String())
	}
	return line, end, nil
}

// objects creates objects, of which the last one runs the script, and removes them. With logs the line is read from the
// log of its pod.
func (d *desk) objects(ctx context.Context, all []*unstructured.Unstructured, logs bool) (line, end time.Duration, err error) {
	last := all[len(all)-1]
	seen, err := d.follow(ctx, last, ended, client.MatchingFields{"metadata.name": last.GetName()})
	if err != nil {
		return 0, 0, err
	}
	printed := make(chan error, 1)
	var at time.Time
	if logs {
		pod, err := d.started(ctx)
		if err != nil {
			return 0, 0, err
		}
		go func() {
			err := d.read(ctx, <-pod)
			at = time.Now()
			printed <- err
		}()
	} else {
		printed <- nil
	}
	begun := time.Now()
	for _, o := range all {
		if err := d.Create(ctx, o); err != nil {
			return 0, 0, fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	if err := <-seen; err != nil {
		return 0, 0, errors.Join(fmt.Errorf("wait for %s %s", last.GetKind(), last.GetName()), err)
	}
	end = time.Since(begun)
	if err := <-printed; err != nil {
		return 0, 0, err
	}
	for _, o := range slices.Backward(all) {
		err = errors.Join(err, client.IgnoreNotFound(d.Delete(ctx, o, client.PropagationPolicy("Background"))))
	}
	return at.Sub(begun), end, errors.Join(err, wait.Until(ctx, patience, "all goes", func() error {
		for _, o := range all {
			if err := d.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopy()); client.IgnoreNotFound(err) != nil || err == nil {
				return errors.Join(err, fmt.Errorf("%s %s is there", o.GetKind(), o.GetName()))
			}
		}
		return d.empty(ctx)
	}))
}

// started returns the name of the next pod of which the main container has started.
func (d *desk) started(ctx context.Context) (<-chan string, error) {
	pod := &unstructured.Unstructured{}
	pod.SetAPIVersion("v1")
	pod.SetKind("Pod")
	pod.SetNamespace(namespace)
	name := make(chan string, 1)
	_, err := d.follow(ctx, pod, func(now *unstructured.Unstructured) (bool, error) {
		containers, _, _ := unstructured.NestedSlice(now.Object, "status", "containerStatuses")
		for _, one := range containers {
			c, _ := one.(map[string]any)
			state, _ := c["state"].(map[string]any)
			if c["name"] == "main" && (state["running"] != nil || state["terminated"] != nil) {
				name <- now.GetName()
				return true, nil
			}
		}
		return false, nil
	})
	return name, err
}

// read reads the line in the log of a pod.
func (d *desk) read(ctx context.Context, pod string) error {
	log, err := d.raw.Get().Namespace(namespace).Resource("pods").Name(pod).SubResource("log").Param("container", "main").Param("follow", "true").Stream(ctx)
	if err != nil {
		return fmt.Errorf("read the log of pod %s: %w", pod, err)
	}
	defer log.Close() //nolint:errcheck // It is only read.
	for text := bufio.NewScanner(log); text.Scan(); {
		if text.Text() == "line" { // The executor of Argo Workflows writes others there.
			return nil
		}
	}
	return fmt.Errorf("the log of pod %s has no line", pod)
}

// documents returns the objects of a file, with this name, and the script of each that prints a line.
func documents(file, name string) (out []*unstructured.Unstructured) {
	for text := range strings.SplitSeq(strings.NewReplacer("NAME", name, "exit 0", "echo line").Replace(object(file)), "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			panic(err) // It is compiled in.
		}
		out = append(out, o)
	}
	return out
}
