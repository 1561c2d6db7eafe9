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

//go:embed runners.yaml ride.yaml fails.yaml hosted.yaml
var jobFiles embed.FS

// Jobs runs the scenario of jobs in a cluster with Switchyard and HotROD, inside the cluster's network: with a kubeconfig
// alone, then through a control plane from its chart. It returns an error if the scenario failed.
func Jobs(ctx context.Context) (err error) {
	step := demo.Steps()
	step("a developer's machine, which reaches the API server of the cluster and nothing else of it")
	w, err := local.NewWorkstation(ctx)
	if err == nil {
		err = rides{step: step, group: "tests", folder: w.File(""), command: func(ctx context.Context, args ...string) *exec.Cmd {
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
	defer func() { err = errors.Join(err, h.remove()) }()
	through := rides{step: step, group: "tests-of-acme", folder: h.folder, command: func(ctx context.Context, args ...string) *exec.Cmd {
		return h.command(ctx, h.line(args)...)
	}}
	for _, act := range []func(context.Context) error{h.install, h.developer, h.register, through.run} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// rides are jobs of a developer that order rides of HotROD.
type rides struct {
	step          func(format string, args ...any)
	group, folder string
	command       func(ctx context.Context, args ...string) *exec.Cmd
}

// switchyard runs the command line, prints the command and its output, and returns the output.
func (r rides) switchyard(ctx context.Context, args ...string) (out, errs string, err error) {
	fmt.Printf("   developer$ switchyard %s\n", strings.Join(args, " "))
	var stdout, stderr bytes.Buffer
	c := r.command(ctx, args...)
	c.Stdout, c.Stderr = &stdout, &stderr
	err = c.Run()
	for at, text := range map[string]string{"   ": stdout.String(), "   stderr: ": stderr.String()} {
		for line := range strings.Lines(text) {
			fmt.Print(at, line)
		}
	}
	if err != nil {
		err = fmt.Errorf("switchyard %s: %w", strings.Join(args[:2], " "), err)
	}
	return stdout.String(), stderr.String(), err
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
	r.step("a runner group with one pod, and a sandbox with another build of HotROD's customer service")
	for _, args := range [][]string{
		{"jobrunnergroup", "apply", "-f", "runners.yaml", "--set", "name=" + r.group},
		{"sandbox", "apply", "-f", "hosted.yaml"},
	} {
		if _, _, err := r.switchyard(ctx, args...); err != nil {
			return err
		}
	}
	r.step("one job against the baseline, and one against the sandbox: customer 900 is known to the other build alone")
	for sandbox, want := range map[string]string{"": "invalid customer ID", hostedName: "Driver"} {
		if err := r.ride(ctx, sandbox, want); err != nil {
			return err
		}
	}
	r.step("a job that fails: the command ends with the exit code of the script")
	_, _, err = r.switchyard(ctx, "job", "submit", "-f", "fails.yaml", "--set", "group="+r.group, "--attach")
	if failed := (*exec.ExitError)(nil); !errors.As(err, &failed) || failed.ExitCode() != 3 {
		return fmt.Errorf("the exit code is not 3: %w", err)
	}
	for _, args := range [][]string{
		{"job", "list", "--all"}, {"jobrunnergroup", "list"}, {"jobrunnergroup", "delete", r.group}, {"sandbox", "delete", hostedName},
	} {
		if _, _, err := r.switchyard(ctx, args...); err != nil {
			return err
		}
	}
	return nil
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
