package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"switchyard.dev/controlplane-link/controlplane/artifacts"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/registry"
	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/jobexec/client"
)

// Collector stores what jobs have left in their pods.
type Collector struct {
	Kept *artifacts.Kept
	Dial Dial
}

// Collect stores the output streams and artifacts of a job that has ended, and then releases them in the pod. It can be called
// again. A file that cannot be stored is in the manifest with the problem; an error is temporary.
func (c *Collector) Collect(ctx context.Context, at registry.Cluster, j model.Job, o *crdv1.Job) error {
	e := o.Status.Execution
	from, err := c.Dial(ctx, at, j.Name, e.PodUID)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // nothing is kept in it
	ref := &jobexecv1.ExecutionRef{JobUid: string(o.UID), Execution: uint32(e.Count)}
	kept, err := c.Kept.Manifest(ctx, j.Org, j.Name)
	if err == nil && (kept == nil || kept.Execution != e.Count) {
		err = c.store(ctx, from, ref, j, o)
	}
	if err == nil {
		_, err = from.Release(ctx, ref)
	}
	return err
}

// store stores everything, and the manifest.
func (c *Collector) store(ctx context.Context, from *client.Client, ref *jobexecv1.ExecutionRef, j model.Job, o *crdv1.Job) error {
	of, err := from.Artifacts(ctx, ref)
	if err == nil && !of.GetComplete() {
		err = errors.New("its runner still stores artifacts")
	}
	if err != nil {
		return err
	}
	m := artifacts.Manifest{Execution: int32(ref.GetExecution()), At: time.Now().UTC()}
	for name, kind := range kinds {
		f := artifacts.File{Path: name, Space: artifacts.System, ContentType: "text/plain; charset=utf-8"}
		if err := c.stream(ctx, from, ref, kind, j, &f); err != nil {
			return fmt.Errorf("store %s: %w", name, err)
		}
		m.Files = append(m.Files, f)
	}
	meta := map[string]map[string]string{}
	for _, a := range o.Spec.Artifacts {
		meta[a.Path] = a.Meta
	}
	left := c.Kept.Limits.Job
	for i, a := range of.GetArtifacts() {
		f := artifacts.File{Path: a.GetPath(), Space: artifacts.User, ContentType: a.GetContentType(), Meta: meta[a.GetPath()], Problem: a.GetProblem()}
		switch size := int64(a.GetSize()); {
		case f.Problem != "":
		case i >= c.Kept.Limits.Files:
			f.Problem = fmt.Sprintf("The job has more than %d files.", c.Kept.Limits.Files)
		case size > c.Kept.Limits.File:
			f.Problem = fmt.Sprintf("It has %d bytes, and an artifact can have %d.", size, c.Kept.Limits.File)
		case size > left:
			f.Problem = fmt.Sprintf("It has %d bytes, and %d are left of the %d that artifacts of a job can have.", size, left, c.Kept.Limits.Job)
		default:
			if err := c.artifact(ctx, from, ref, j, a, &f); err != nil {
				return fmt.Errorf("store artifact %q: %w", f.Path, err)
			}
			left -= f.Size
		}
		m.Files = append(m.Files, f)
	}
	return c.Kept.Finish(ctx, j.Org, j.Name, m)
}

// stream stores an output stream, with a marker for bytes that are lost.
func (c *Collector) stream(ctx context.Context, from *client.Client, ref *jobexecv1.ExecutionRef, kind jobexecv1.LogsRequest_Kind, j model.Job, f *artifacts.File) error {
	var at uint64
	return c.Kept.Put(ctx, j.Org, j.Name, f, func(w io.Writer) error {
		write := client.To(w, 0, true)
		_, err := from.Logs(ctx, &jobexecv1.LogsRequest{Ref: ref, Kind: kind}, func(chunk *jobexecv1.Chunk) error {
			if chunk.GetOffset() > at {
				f.Head, f.TailFrom, f.Marker = at, chunk.GetOffset(), len(client.Marker(at, chunk.GetOffset()))
			}
			at = chunk.GetOffset() + uint64(len(chunk.GetData()))
			return write(chunk)
		})
		return err
	})
}

// errOther is that of a file with other bytes than its runner has announced.
var errOther = errors.New("its bytes are not those that the runner has announced")

// artifact stores an artifact, and checks its size and checksum.
func (c *Collector) artifact(ctx context.Context, from *client.Client, ref *jobexecv1.ExecutionRef, j model.Job, a *jobexecv1.ArtifactState, f *artifacts.File) error {
	err := c.Kept.Put(ctx, j.Org, j.Name, f, func(w io.Writer) error {
		var n uint64
		_, err := from.Artifact(ctx, &jobexecv1.ArtifactRequest{Ref: ref, Path: a.GetPath()}, func(chunk *jobexecv1.Chunk) error {
			if n += uint64(len(chunk.GetData())); n > a.GetSize() {
				return errOther
			}
			_, err := w.Write(chunk.GetData())
			return err
		})
		return err
	})
	if errors.Is(err, errOther) || err == nil && (uint64(f.Size) != a.GetSize() || !bytes.Equal(f.SHA256, a.GetSha256())) {
		f.Problem = "It was not stored: " + errOther.Error() + "."
		return nil
	}
	return err
}
