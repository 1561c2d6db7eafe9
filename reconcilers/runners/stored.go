package runners

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/jobexec/results"
)

// Stored implements jobexecv1.RunnersServer.
func (s *server) Stored(r *jobexecv1.StoredRequest, stream grpc.ServerStreamingServer[jobexecv1.Chunk]) error {
	ctx, cancel := context.WithTimeout(stream.Context(), storedWithin)
	defer cancel()
	user, from, job, _, leave, err := s.reader(ctx, r.GetJob())
	if err != nil {
		return err
	}
	defer leave()
	m, err := s.manifest(ctx, job)
	if err != nil {
		return err
	}
	none := status.Errorf(codes.NotFound, "nothing that job %s has left is in the operator's bucket", job.Name)
	if m == nil {
		return none
	}
	f := m.File(results.User, r.GetPath())
	if of, is := strings.CutPrefix(r.GetPath(), "@"); is {
		f = m.File(results.System, of)
	}
	switch {
	case f == nil:
		return status.Errorf(codes.NotFound, "job %s has no stored artifact %.256q", job.Name, r.GetPath())
	case f.Problem != "":
		return status.Errorf(codes.NotFound, "artifact %.256q of job %s is not stored: %s", r.GetPath(), job.Name, f.Problem)
	}
	s.cfg.Logger.Info("a user reads from the bucket", "user", user.Name, "from", from, "job", job.Name, "path", f.Path)
	err = s.cfg.Results.Read(ctx, results.Operator, string(job.UID), f, r.GetOffset(), r.GetTailLines(), func(at uint64, data []byte) error {
		return stream.Send(&jobexecv1.Chunk{Offset: at, Data: data})
	})
	if err != nil && ctx.Err() == nil {
		return s.unreadable(job, err)
	}
	return err
}

// manifest returns what the operator has stored of the last execution of a job; nil: nothing, or it has no bucket. The error is a gRPC
// status.
func (s *server) manifest(ctx context.Context, job *crdv1.Job) (*results.Manifest, error) {
	if s.cfg.Results == nil || !results.OfOperator(job) || !results.Left(job) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, manifestWithin)
	defer cancel()
	m, err := s.cfg.Results.Manifest(ctx, results.Operator, string(job.UID))
	switch {
	case err != nil:
		return nil, s.unreadable(job, err)
	case m == nil || m.Execution != job.Status.Execution.Count:
		return nil, nil
	}
	return m, nil
}

// unreadable returns the answer for a bucket that cannot be read, and logs why.
func (s *server) unreadable(job *crdv1.Job, err error) error {
	s.cfg.Logger.Warn("the bucket with the output of jobs cannot be read", "job", job.Name, "error", err)
	return status.Errorf(codes.Unavailable, "the operator's bucket with the output of job %s cannot be read: try again; the log of the controller manager has the reason", job.Name)
}
