package link

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/local"
)

//go:embed runners.yaml ride.yaml fails.yaml hosted.yaml orders.yaml row.yaml
var jobFiles embed.FS

// Jobs runs the scenario of jobs in a cluster with Switchyard and HotROD, inside the cluster's network: with a kubeconfig
// alone, then through a control plane from its chart. It returns an error if the scenario failed.
func Jobs(ctx context.Context) (err error) {
	step := demo.Steps()
	step("a developer's machine, which reaches the API server of the cluster and nothing else of it")
	w, err := local.NewWorkstation(ctx)
	if err == nil {
		err = rides{step: step, group: "tests", by: "with a kubeconfig", folder: w.File(""), command: func(ctx context.Context, args ...string) *exec.Cmd {
			return w.Command(ctx, append([]string{local.Program("switchyard")}, args...)...)
		}}.run(ctx)
	}
	if err = errors.Join(err, w.Remove()); err != nil {
		return err
	}
	h, err := newHosted(step)
	if err != nil {
		return err
	}
	through := rides{step: step, group: "tests-of-acme", by: "through the control plane", folder: h.folder, command: func(ctx context.Context, args ...string) *exec.Cmd {
		return h.command(ctx, h.line(args)...)
	}}
	r := &rows{hosted: h, jobs: through}
	defer func() {
		if err = errors.Join(err, r.remove(context.WithoutCancel(ctx)), h.remove()); err == nil {
			err = r.conclude()
		}
	}()
	for _, act := range []func(context.Context) error{h.install, h.developer, h.register, through.run, r.run} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// rides are jobs of a developer that order rides of HotROD.
type rides struct {
	step func(format string, args ...any)
	// group is the runner group, by how the cluster is reached, and folder that of the developer.
	group, by, folder string
	command           func(ctx context.Context, args ...string) *exec.Cmd
}

// lines prints written text, line by line after a prefix, and keeps it.
type lines struct {
	prefix string
	all    bytes.Buffer
	shown  int
}

func (l *lines) Write(p []byte) (int, error) {
	l.all.Write(p)
	if end := bytes.LastIndexByte(l.all.Bytes(), '\n') + 1; end > l.shown {
		l.print(end)
	}
	return len(p), nil
}

// print prints until an offset.
func (l *lines) print(end int) {
	for line := range strings.Lines(l.all.String()[l.shown:end]) {
		fmt.Println(l.prefix + strings.TrimSuffix(line, "\n"))
	}
	l.shown = end
}

// switchyard runs the command line, prints the command and its output, and returns the output.
func (r rides) switchyard(ctx context.Context, args ...string) (out, errs string, err error) {
	fmt.Printf("   developer$ switchyard %s\n", strings.Join(args, " "))
	stdout, stderr := lines{prefix: "   "}, lines{prefix: "   stderr: "}
	c := r.command(ctx, args...)
	c.Stdout, c.Stderr = &stdout, &stderr
	err = c.Run()
	stdout.print(stdout.all.Len())
	stderr.print(stderr.all.Len())
	if err != nil {
		err = fmt.Errorf("switchyard %s: %w", strings.Join(args[:2], " "), err)
	}
	return stdout.all.String(), stderr.all.String(), err
}

// each runs the command line for each of these arguments.
func (r rides) each(ctx context.Context, commands [][]string) error {
	for _, args := range commands {
		if _, _, err := r.switchyard(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// show prints files of the developer.
func (r rides) show(names ...string) error {
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(r.folder, name))
		if err != nil {
			return err
		}
		fmt.Printf("   %s:\n      %s\n", name, strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n      "))
	}
	return nil
}

// run runs jobs in a runner group.
func (r rides) run(ctx context.Context) error {
	files, err := jobFiles.ReadDir(".")
	for _, f := range files {
		text, unread := jobFiles.ReadFile(f.Name())
		err = errors.Join(err, unread, os.WriteFile(filepath.Join(r.folder, f.Name()), text, 0o600))
	}
	if err != nil {
		return err
	}
	r.step("%s: a runner group with one pod, and a sandbox with another build of HotROD's customer service", r.by)
	if err := r.show("runners.yaml", "hosted.yaml"); err != nil {
		return err
	}
	if err := r.each(ctx, [][]string{
		{"jobrunnergroup", "apply", "-f", "runners.yaml", "--set", "name=" + r.group}, {"sandbox", "apply", "-f", "hosted.yaml"},
	}); err != nil {
		return err
	}
	r.step("one job against the baseline, and one against the sandbox: only the other build knows customer 900")
	if err := r.show("ride.yaml"); err != nil {
		return err
	}
	for _, c := range []struct{ sandbox, want string }{{"", "invalid customer ID"}, {hostedName, "Driver"}} {
		if err := r.ride(ctx, c.sandbox, c.want); err != nil {
			return err
		}
	}
	r.step("a job that fails: the command ends with the exit code of the script")
	if err := r.show("fails.yaml"); err != nil {
		return err
	}
	_, _, err = r.switchyard(ctx, "job", "submit", "-f", "fails.yaml", "--set", "group="+r.group, "--attach")
	if failed := (*exec.ExitError)(nil); !errors.As(err, &failed) || failed.ExitCode() != 3 {
		return fmt.Errorf("the exit code is not 3: %w", err)
	}
	fmt.Println("   the exit code of the command: 3")
	return r.each(ctx, [][]string{{"job", "list", "--all"}, {"jobrunnergroup", "list"}, {"jobrunnergroup", "delete", r.group}, {"sandbox", "delete", hostedName}})
}

// ride runs a job that orders a ride, attached, and gets its artifact.
func (r rides) ride(ctx context.Context, sandbox, want string) error {
	out, errs, err := r.switchyard(ctx, "job", "submit", "-f", "ride.yaml", "--set", "group="+r.group, "--set", "sandbox="+sandbox, "--attach")
	if err != nil {
		return err
	}
	if !strings.Contains(out, want) || !strings.Contains(errs, "a ride for customer 900") {
		return fmt.Errorf("the output of the job is not %q, or its standard error is missing", want)
	}
	name := strings.Fields(errs)[1]
	if _, _, err := r.switchyard(ctx, "job", "get", name); err != nil {
		return err
	}
	if _, _, err := r.switchyard(ctx, "artifact", "get", name, "/tmp/ride.txt", "-o", "ride.txt"); err != nil {
		return err
	}
	report, err := os.ReadFile(filepath.Join(r.folder, "ride.txt"))
	if err == nil && string(report) != out {
		err = fmt.Errorf("the artifact is %q, not the answer %q", report, out)
	}
	return err
}
