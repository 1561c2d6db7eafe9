package jobs

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/tools/switchyard/command"
)

// site is a cluster or a control plane.
type site interface {
	submit(ctx context.Context, spec v2.JobSpec) (v2.Job, error)
	job(ctx context.Context, name string) (v2.Job, error)
	jobs(ctx context.Context) ([]v2.Job, error)
	cancel(ctx context.Context, name string) (v2.Job, error)
	// changed returns a job when it has changed, or after a second.
	changed(ctx context.Context, was v2.Job) (v2.Job, error)
	// artifacts returns the files of a job; its output has the space system.
	artifacts(ctx context.Context, name string) ([]v2.JobArtifact, error)
	// output writes a stream of a job, and records in it how far it was written.
	output(ctx context.Context, job string, of *stream, to io.Writer) error
	// download writes an artifact, or @stdout or @stderr.
	download(ctx context.Context, job, path string, to io.Writer) error

	apply(ctx context.Context, name string, spec v2.JobRunnerGroupSpec) (v2.JobRunnerGroup, error)
	group(ctx context.Context, name string) (v2.JobRunnerGroup, error)
	groups(ctx context.Context) ([]v2.JobRunnerGroup, error)
	remove(ctx context.Context, name string) error
}

// stream is an output stream of a job, and how far it was read.
type stream struct {
	name   string // stdout or stderr
	follow bool
	tail   int // 0: all of it
	// cursor is the site's; empty: nothing was read yet.
	cursor string
	// of is the execution that has been read to its end.
	of int
}

// pause is for how long changed waits.
const pause = time.Second

// open returns the cluster or the control plane that the user means. namespace is that of runner groups in a cluster;
// empty: any.
func open(ctx context.Context, s *command.Session, namespace string) (site, error) {
	if s.UsesPlane() {
		p, err := s.OpenPlane(ctx)
		return &controlPlane{s, p}, err
	}
	c, err := s.Writer()
	return &cluster{s: s, c: c, namespace: namespace}, err
}

// within returns the action of a command that needs a site, as command.With.
func within(s *command.Session, namespace *string, do func(ctx context.Context, at site, args []string) error) func(*cobra.Command, []string) error {
	return command.With(s, func(ctx context.Context) (site, error) { return open(ctx, s, *namespace) }, do)
}
