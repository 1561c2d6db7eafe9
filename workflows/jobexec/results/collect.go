package results

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/jobexec/client"
)

// Collection names the results of a job that has ended, and their place.
type Collection struct {
	*Kept
	// Org and Job name the folder with its files.
	Org, Job string
	// Ref is its last execution, in the runner From.
	Ref  *jobexecv1.ExecutionRef
	From *client.Client
	// Specs are the artifacts of its specification.
	Specs []crdv1.JobArtifact
}

// Collect stores the output streams and artifacts, unless they are stored, and then releases them in the pod. It can be called
// again. A file that cannot be stored is in the manifest with the problem; an error is temporary.
func (c Collection) Collect(ctx context.Context) error {
	kept, err := c.Manifest(ctx, c.Org, c.Job)
	if err == nil && (kept == nil || kept.Execution != int32(c.Ref.GetExecution())) { //nolint:gosec // from a status
		err = c.store(ctx)
	}
	if err == nil {
		_, err = c.From.Release(ctx, c.Ref)
	}
	return err
}

// store stores everything, and the manifest.
func (c Collection) store(ctx context.Context) error {
	of, err := c.From.Artifacts(ctx, c.Ref)
	if err == nil && !of.GetComplete() {
		err = errors.New("its runner still stores artifacts")
	}
	if err != nil {
		return err
	}
	m := Manifest{Execution: int32(c.Ref.GetExecution()), At: time.Now().UTC()} //nolint:gosec // from a status
	for name, kind := range client.Streams {
		f := File{Path: name, Space: System, ContentType: "text/plain; charset=utf-8"}
		if err := c.stream(ctx, kind, &f); err != nil {
			return fmt.Errorf("store %s: %w", name, err)
		}
		m.Files = append(m.Files, f)
	}
	meta := map[string]map[string]string{}
	for _, a := range c.Specs {
		meta[a.Path] = a.Meta
	}
	left := c.Limits.Job
	for i, a := range of.GetArtifacts() {
		f := File{Path: a.GetPath(), Space: User, ContentType: a.GetContentType(), Meta: meta[a.GetPath()], Problem: a.GetProblem()}
		switch size := int64(a.GetSize()); { //nolint:gosec // the size of a file
		case f.Problem != "":
		case i >= c.Limits.Files:
			f.Problem = fmt.Sprintf("The job has more than %d files.", c.Limits.Files)
		case size > c.Limits.File:
			f.Problem = fmt.Sprintf("It has %d bytes, and an artifact can have %d.", size, c.Limits.File)
		case size > left:
			f.Problem = fmt.Sprintf("It has %d bytes, and %d are left of the %d that artifacts of a job can have.", size, left, c.Limits.Job)
		default:
			if err := c.artifact(ctx, a, &f); err != nil {
				return fmt.Errorf("store artifact %q: %w", f.Path, err)
			}
			left -= f.Size
		}
		m.Files = append(m.Files, f)
	}
	return c.Finish(ctx, c.Org, c.Job, m)
}

// stream stores an output stream, with a marker for bytes that are lost.
func (c Collection) stream(ctx context.Context, kind jobexecv1.LogsRequest_Kind, f *File) error {
	at, size := uint64(0), int64(0)
	err := c.Put(ctx, c.Org, c.Job, f, func(w io.Writer) error {
		write := client.To(w, 0, true)
		_, err := c.From.Logs(ctx, &jobexecv1.LogsRequest{Ref: c.Ref, Kind: kind}, func(chunk *jobexecv1.Chunk) error {
			if chunk.GetOffset() > at {
				f.Head, f.TailFrom, f.Marker = at, chunk.GetOffset(), len(client.Marker(at, chunk.GetOffset()))
			}
			at = chunk.GetOffset() + uint64(len(chunk.GetData()))
			if size += int64(len(chunk.GetData())); size > c.Limits.Stream {
				return errOther
			}
			return write(chunk)
		})
		return err
	})
	if errors.Is(err, errOther) {
		f.Problem = fmt.Sprintf("It was not stored: its runner sends more than %d bytes.", c.Limits.Stream)
		return nil
	}
	return err
}

// errOther is that of a file with other bytes than its runner has announced.
var errOther = errors.New("its bytes are not those that the runner has announced")

// artifact stores an artifact, and checks its size and checksum.
func (c Collection) artifact(ctx context.Context, a *jobexecv1.ArtifactState, f *File) error {
	err := c.Put(ctx, c.Org, c.Job, f, func(w io.Writer) error {
		var n uint64
		_, err := c.From.Artifact(ctx, &jobexecv1.ArtifactRequest{Ref: c.Ref, Path: a.GetPath()}, func(chunk *jobexecv1.Chunk) error {
			if n += uint64(len(chunk.GetData())); n > a.GetSize() {
				return errOther
			}
			_, err := w.Write(chunk.GetData())
			return err
		})
		return err
	})
	if errors.Is(err, errOther) || err == nil && (uint64(f.Size) != a.GetSize() || !bytes.Equal(f.SHA256, a.GetSha256())) { //nolint:gosec // the size of a file
		f.Problem = "It was not stored: " + errOther.Error() + "."
		return nil
	}
	return err
}
