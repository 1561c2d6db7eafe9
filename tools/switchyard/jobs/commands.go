package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/sandboxes"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/specfile"
)

const about = `Run scripts in pods of the cluster, against a sandbox, a route group or the baseline: with a
kubeconfig, or with --control-plane in the control plane. A runner group (jobrunnergroup)
has the pods.

With a kubeconfig, submit takes the rights to create jobs, and pods/exec in the namespace of
the runner group; output and artifacts take the right to get pods/log there, a token in the
kubeconfig or --token-file, and port-forwards to the operator and the pod.`

// Commands returns the commands of this package.
func Commands(s *command.Session) []*cobra.Command {
	job := command.Group(&cobra.Command{Use: "job", Short: "Run scripts in the cluster, against a sandbox or the baseline", Aliases: []string{"jobs"}, Long: about},
		submit(s), get(s), list(s), cancel(s), logs(s))
	artifact := command.Group(&cobra.Command{Use: "artifact", Short: "Get the files and the output of jobs", Aliases: []string{"artifacts"}}, download(s))
	groups := runnerGroups(s)
	for _, c := range []*cobra.Command{job, artifact, groups} {
		command.KnowPlane(c.Commands()...)
	}
	return []*cobra.Command{job, artifact, groups}
}

// anywhere is no namespace of runner groups.
var anywhere = new("")

// namespaced adds the flag for the namespace of a runner group.
func namespaced(c *cobra.Command) *string {
	return c.Flags().StringP("namespace", "n", "", "with a kubeconfig, the `namespace` of the runner group (default: the one that has it)")
}

func submit(s *command.Session) *cobra.Command {
	var attach, wait bool
	var retries int
	var patience time.Duration
	c := &cobra.Command{
		Use: "submit -f FILE", Short: "Submit a job", Args: cobra.NoArgs,
		Long: `Submit a job from its published specification. With --attach its output is printed as it comes,
standard output and standard error each to their own, and continued where it was when a
connection is interrupted. With --attach or --wait the exit code is that of the script; 1 if it
has none or the job was canceled. Interrupting this program does not stop the job.`,
		Example: "  switchyard job submit -f test.yaml --set sandbox=pr-12 --attach",
	}
	in := sandboxes.NewInput(c.Flags(), specfile.Job)
	namespace := namespaced(c)
	c.Flags().BoolVar(&attach, "attach", false, "print the output of the job until it ends")
	c.Flags().BoolVar(&wait, "wait", false, "wait until the job ends")
	c.Flags().DurationVar(&patience, "timeout", 0, "timeout of --attach and --wait, not of the job; 0: none")
	c.Flags().IntVar(&retries, "retries", 0, "`times` that the script may run again after an execution with an unknown outcome (default: that of the file, or 0)")
	c.MarkFlagsMutuallyExclusive("attach", "wait")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var asked struct {
			Spec v2.JobSpec `json:"spec"`
		}
		f, err := in.Read(s, &asked)
		if err != nil {
			return err
		}
		if c.Flags().Changed("retries") {
			asked.Spec.Retries = &retries
		}
		if attach && s.Show.Form != show.Table {
			return exit.Usage.Errorf("--attach prints the output of the job, and no %s: use --wait, or omit -o", s.Show.Form)
		}
		at, err := open(c.Context(), s, *namespace)
		if err != nil {
			return err
		}
		ctx, cancel := s.Patiently(c.Context())
		defer cancel()
		job, err := at.submit(ctx, asked.Spec)
		if err != nil {
			return refused(f, err)
		}
		queued := show.Plain(fmt.Sprintf("job %s is queued in runner group %s\n", job.Name, text(job.Spec.RunnerGroup)))
		if !attach && !wait {
			return s.Show.Report(job, queued)
		}
		_, _ = io.WriteString(s.Err, queued)
		return ends(c.Context(), s, at, job, attach, patience)
	}
	return c
}

// refused returns an error of a submission with the position in the file.
func refused(f *specfile.File, err error) error {
	if problems := (specfile.Problems)(nil); errors.As(err, &problems) {
		return exit.Usage.Errorf("%w", f.Locate(problems))
	}
	return err
}

// ends follows a job to its end, and returns its verdict.
func ends(ctx context.Context, s *command.Session, at site, job v2.Job, attach bool, patience time.Duration) error {
	within, cancel := context.WithCancel(ctx)
	if patience > 0 {
		within, cancel = context.WithTimeout(ctx, patience)
	}
	defer cancel()
	job, err := follow(within, s, at, job, attach)
	runs := fmt.Sprintf("it runs on: %s job get %s shows it, and %[1]s job cancel %[2]s stops it", s.Name, job.Name)
	switch {
	case ctx.Err() != nil:
		note(s, fmt.Sprintf("job %s is not followed any more; %s", job.Name, runs))
		return err
	case within.Err() != nil:
		return exit.No.Errorf("job %s has not ended within --timeout %s; %s", job.Name, patience, runs)
	case err != nil:
		return fmt.Errorf("%w; if job %s exists, %s", err, job.Name, runs)
	}
	warn(s, job)
	if !attach {
		if err := s.Show.Report(job, show.Plain(fmt.Sprintf("job %s is %s\n", job.Name, now(job).Phase))); err != nil {
			return err
		}
	}
	return verdict(job)
}

// warn prints the caveat of a job.
func warn(s *command.Session, j v2.Job) {
	if c := now(j).Caveat; c != nil {
		note(s, "caveat: "+*c)
	}
}

func get(s *command.Session) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Show a job and its artifacts", Args: cobra.ExactArgs(1),
		RunE: within(s, anywhere, func(ctx context.Context, at site, args []string) error {
			job, err := at.job(ctx, args[0])
			if err != nil {
				return err
			}
			warn(s, job)
			files, err := at.artifacts(ctx, job.Name)
			if err != nil {
				note(s, "the artifacts of job "+job.Name+" cannot be listed: "+exit.Text(err, s.Name))
			}
			return s.Show.Report(struct {
				v2.Job
				Artifacts []v2.JobArtifact `json:"artifacts"`
			}{job, files}, jobText(s, job, files))
		}),
	}
}

func list(s *command.Session) *cobra.Command {
	var all bool
	c := &cobra.Command{Use: "list", Short: "List the jobs that are queued or running", Args: cobra.NoArgs}
	c.Flags().BoolVar(&all, "all", false, "list those that have ended, too")
	c.RunE = within(s, anywhere, func(ctx context.Context, at site, _ []string) error {
		jobs, err := at.jobs(ctx)
		if err != nil {
			return err
		}
		jobs = slices.DeleteFunc(jobs, func(j v2.Job) bool { return final(j) && !all })
		slices.SortStableFunc(jobs, func(a, b v2.Job) int { return strings.Compare(b.CreatedAt+b.Name, a.CreatedAt+a.Name) })
		if len(jobs) == 0 {
			return s.Show.Report([]v2.Job{}, "no jobs\n")
		}
		return s.Show.Report(jobs, jobRows(s, jobs))
	})
	return c
}

func cancel(s *command.Session) *cobra.Command {
	return &cobra.Command{
		Use: "cancel NAME", Short: "Cancel a job: it does not begin, or its script is stopped", Args: cobra.ExactArgs(1),
		RunE: within(s, anywhere, func(ctx context.Context, at site, args []string) error {
			job, err := at.cancel(ctx, args[0])
			if err != nil {
				return err
			}
			said := fmt.Sprintf("job %s is being canceled\n", job.Name)
			if final(job) {
				said = fmt.Sprintf("job %s has ended: it is %s\n", job.Name, now(job).Phase)
			}
			return s.Show.Report(job, show.Plain(said))
		}),
	}
}

func logs(s *command.Session) *cobra.Command {
	of := stream{}
	c := &cobra.Command{
		Use: "logs NAME", Short: "Print the output of a job until it ends", Args: cobra.ExactArgs(1),
		Long: `Print a stream of a job's output until the job ends. On a terminal, control sequences are escaped
and colours removed. After the end, "artifact get NAME @stdout" writes it to a file.`,
		Example: "  switchyard job logs pr-12-x7k2p\n  switchyard job logs pr-12-x7k2p -s stderr --tail 100",
	}
	c.Flags().StringVarP(&of.name, "stream", "s", "stdout", "stdout or stderr")
	c.Flags().IntVarP(&of.tail, "tail", "t", 0, "begin this `number` of lines before the end; 0: at the beginning")
	c.Flags().BoolVarP(&of.follow, "follow", "f", true, "follow the output until the job ends; --follow=false ends at what there is, with a kubeconfig")
	c.RunE = func(c *cobra.Command, args []string) error {
		if of.name != "stdout" && of.name != "stderr" {
			return exit.Usage.Errorf("--stream is stdout or stderr, not %q", of.name)
		}
		at, err := open(c.Context(), s, "")
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(c.Context())
		defer cancel()
		out := lines(s, s.Out)
		defer out.flush()
		return printed(ctx, at, args[0], &of, out)
	}
	return c
}

// printed writes a stream of a job, and continues it when it was interrupted.
func printed(ctx context.Context, at site, name string, of *stream, to io.Writer) error {
	job, err := at.job(ctx, name)
	for tries := 0; err == nil; job, err = at.changed(ctx, job) {
		if of.follow && !final(job) && now(job).ExecutionCount == 0 {
			continue
		}
		before := of.cursor
		wrong := at.output(ctx, name, of, to)
		if tries++; of.cursor != before {
			tries = 0
		}
		if wrong == nil || exit.Of(wrong) == exit.Usage || tries == mostReads {
			return wrong
		}
	}
	return err
}
