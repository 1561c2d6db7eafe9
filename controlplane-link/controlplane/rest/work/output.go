package work

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"switchyard.dev/controlplane-link/controlplane/jobs"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/decode"
	"switchyard.dev/controlplane-link/controlplane/rest/failure"
	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobexec/results"
)

// Raw is an answer that is no JSON. It gets the context of the connection, which does not end with the time for answers.
// With an error it has written nothing.
type Raw func(ctx context.Context, w http.ResponseWriter) error

// writeWithin bounds each write of a download: a client that reads nothing does not keep the file open.
const writeWithin = 2 * time.Minute

// paced is a writer of which each write has a time.
type paced struct {
	http.ResponseWriter
	within time.Duration
}

// Write implements http.ResponseWriter.
func (p paced) Write(part []byte) (int, error) {
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(p.within)) // a recorder of a test has none
	return p.ResponseWriter.Write(part)
}

// download returns a paced writer with the headers of a file that browsers save, and do not show as a page of this site.
func download(out http.ResponseWriter, media, disposition, cached string) http.ResponseWriter {
	header := out.Header()
	header.Set("Content-Type", media)
	header.Set("Content-Disposition", disposition)
	header.Set("Cache-Control", cached)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "sandbox")
	return paced{out, writeWithin}
}

const mostTail = 1 << 20

// StreamLogs returns an output stream of the job in the path, as Raw.
func (w Work) StreamLogs(r *Call) (any, error) {
	j, err := w.jobIn(r)
	if err != nil {
		return nil, err
	}
	if w.Streams == nil {
		return nil, failure.New(http.StatusNotImplemented, "output of jobs is not served by this control plane")
	}
	query := r.URL.Query()
	of := cmp.Or(query.Get("type"), results.Stdout)
	q := jobs.Request{Job: j, Stream: of, Cursor: query.Get("cursor"), Reader: r.Caller.Masked + r.Caller.Principal.ID}
	if of != results.Stdout && of != results.Stderr {
		return nil, failure.New(http.StatusBadRequest, "type is %q; use %s or %s", of, results.Stdout, results.Stderr)
	}
	tail, err := decode.Number(query, "tailLines", 0, 0, mostTail)
	if err != nil {
		return nil, err
	}
	q.Tail = uint64(tail)
	serve, err := w.Streams.Serve(q)
	if err != nil {
		return nil, failure.As(err, jobs.ErrCursor, http.StatusBadRequest, err.Error())
	}
	return Raw(func(ctx context.Context, out http.ResponseWriter) error {
		serve(ctx, out)
		return nil
	}), nil
}

// kept returns a job, and the manifest of its files; nil: none are collected yet.
func (w Work) kept(r *Call) (model.Job, *results.Manifest, error) {
	j, err := w.jobIn(r)
	if err != nil {
		return j, nil, err
	}
	if w.Kept == nil {
		return j, nil, failure.New(http.StatusNotImplemented, "artifacts are not stored by this control plane")
	}
	if space := r.URL.Query().Get("space"); space != "" && space != results.User && space != results.System {
		return j, nil, failure.New(http.StatusBadRequest, "space is %q; use %s or %s", space, results.User, results.System)
	}
	m, err := w.Kept.Manifest(r.Context(), j.Org, j.Name)
	return j, m, err
}

// ListArtifacts returns the files that the job in the path has left.
func (w Work) ListArtifacts(r *Call) (any, error) {
	_, m, err := w.kept(r)
	if err != nil {
		return nil, err
	}
	out := []v2.JobArtifact{}
	if m == nil {
		return out, nil
	}
	space, at := r.URL.Query().Get("space"), m.At.Format(time.RFC3339)
	for _, f := range m.Files {
		if space != "" && f.Space != space {
			continue
		}
		of := v2.JobArtifact{Path: f.Path, Space: v2.JobArtifactSpace(f.Space), Size: &f.Size}
		if f.Problem != "" {
			of.Problem, of.Size = &f.Problem, nil
		} else {
			of.LastModified = &at
		}
		out = append(out, of)
	}
	slices.SortFunc(out, func(a, b v2.JobArtifact) int { return strings.Compare(string(a.Space)+a.Path, string(b.Space)+b.Path) })
	return out, nil
}

// nothing returns why nothing is stored of a job.
func nothing(j model.Job) string {
	switch a := j.Attempt; {
	case !a.Phase.Final():
		return "the job has not ended"
	case a.Output == crdv1.OutputKept:
		return fmt.Sprintf("what the job has left is not collected yet from cluster %q", j.Cluster)
	case a.Output == crdv1.OutputLost:
		return "what the job has left was lost before it was collected"
	case a.Executions > 0:
		return "nothing is kept of the executions of the job"
	}
	return "the job has never begun"
}

// artifact returns the stored file that a request names.
func (w Work) artifact(r *Call) (model.Job, *results.Manifest, *results.File, error) {
	j, m, err := w.kept(r)
	if err != nil {
		return j, nil, nil, err
	}
	name, space := r.URL.Query().Get("path"), r.URL.Query().Get("space")
	switch {
	case name == "":
		return j, nil, nil, failure.New(http.StatusBadRequest, "path is missing; name a file of the list of artifacts")
	case m == nil:
		return j, nil, nil, failure.New(http.StatusNotFound, "artifact not found: %s", nothing(j))
	}
	f := m.File(space, name)
	if of, is := strings.CutPrefix(name, "@"); f == nil && is {
		f = m.File(results.System, of)
	}
	switch {
	case f == nil:
		return j, nil, nil, failure.New(http.StatusNotFound, "artifact not found")
	case f.Problem != "":
		return j, nil, nil, failure.New(http.StatusNotFound, "artifact not found: %s", f.Problem)
	}
	return j, m, f, nil
}

// GetArtifact describes the file of query path.
func (w Work) GetArtifact(r *Call) (any, error) {
	_, m, f, err := w.artifact(r)
	if err != nil {
		return nil, err
	}
	sum, at := base64.StdEncoding.EncodeToString(f.SHA256), m.At.Format(time.RFC3339)
	return v2.JobArtifactInfo{ChecksumSHA256: &sum, ContentLength: &f.Size, ContentType: &f.ContentType, LastModified: &at, Metadata: f.Meta}, nil
}

// DownloadArtifact returns the contents of the file of query path, as Raw.
func (w Work) DownloadArtifact(r *Call) (any, error) {
	j, m, f, err := w.artifact(r)
	if err != nil {
		return nil, err
	}
	req := r.Request
	return Raw(func(ctx context.Context, out http.ResponseWriter) error {
		file, err := w.Kept.Open(ctx, j.Org, j.Name, f)
		if err != nil {
			w.Logger.WarnContext(ctx, "an artifact cannot be read", "job", j.Name, "path", f.Path, "error", err)
			return failure.New(http.StatusInternalServerError, "the artifact cannot be read")
		}
		defer func() { _ = file.Close() }() // it was only read
		out = download(out, cmp.Or(f.ContentType, "application/octet-stream"), "attachment", "private, no-cache")
		out.Header().Set("Etag", `"`+hex.EncodeToString(f.SHA256)+`"`)
		http.ServeContent(out, req.WithContext(ctx), path.Base(f.Path), m.At, file)
		return nil
	}), nil
}
