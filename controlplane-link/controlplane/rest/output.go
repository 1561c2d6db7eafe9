package rest

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/controlplane-link/controlplane/artifacts"
	"switchyard.dev/controlplane-link/controlplane/jobs"
	"switchyard.dev/controlplane-link/controlplane/model"
	v2 "switchyard.dev/protos/controlplane/v2"
)

// raw is an answer that is no JSON. It gets the context of the connection, which does not end with the time for answers.
type raw func(ctx context.Context, w http.ResponseWriter)

const mostTail = 1 << 20

func (h *Handler) streamJobLogs(r *request) (any, error) {
	j, err := h.jobIn(r)
	if err != nil {
		return nil, err
	}
	if h.Streams == nil {
		return nil, fail(http.StatusNotImplemented, "output of jobs is not served by this control plane")
	}
	query := r.URL.Query()
	q := jobs.Request{Job: j, Stream: artifacts.Stdout, Cursor: query.Get("cursor"), Reader: r.caller.Masked + r.caller.Principal.ID}
	switch of := query.Get("type"); of {
	case "", artifacts.Stdout, artifacts.Stderr:
		if of != "" {
			q.Stream = of
		}
	default:
		return nil, fail(http.StatusBadRequest, "type is %q; use %s or %s", of, artifacts.Stdout, artifacts.Stderr)
	}
	if text := query.Get("tailLines"); text != "" {
		if q.Tail, err = strconv.ParseUint(text, 10, 32); err != nil || q.Tail > mostTail {
			return nil, fail(http.StatusBadRequest, "tailLines is %q; it can be 0 to %d", text, mostTail)
		}
	}
	serve, err := h.Streams.Serve(q)
	if err != nil {
		return nil, as(err, jobs.ErrCursor, http.StatusBadRequest, err.Error())
	}
	return raw(serve), nil
}

// kept returns a job, and the manifest of its files; nil: none are collected yet.
func (h *Handler) kept(r *request) (model.Job, *artifacts.Manifest, error) {
	j, err := h.jobIn(r)
	if err != nil {
		return j, nil, err
	}
	if h.Kept == nil {
		return j, nil, fail(http.StatusNotImplemented, "artifacts are not stored by this control plane")
	}
	if space := r.URL.Query().Get("space"); space != "" && space != artifacts.User && space != artifacts.System {
		return j, nil, fail(http.StatusBadRequest, "space is %q; use %s or %s", space, artifacts.User, artifacts.System)
	}
	m, err := h.Kept.Manifest(r.Context(), j.Org, j.Name)
	return j, m, err
}

func (h *Handler) listJobArtifacts(r *request) (any, error) {
	_, m, err := h.kept(r)
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

// artifact returns the stored file that a request names.
func (h *Handler) artifact(r *request) (model.Job, *artifacts.Manifest, *artifacts.File, error) {
	j, m, err := h.kept(r)
	if err != nil {
		return j, nil, nil, err
	}
	name, space := r.URL.Query().Get("path"), r.URL.Query().Get("space")
	switch {
	case name == "":
		return j, nil, nil, fail(http.StatusBadRequest, "path is missing; name a file of the list of artifacts")
	case m == nil && !j.Attempt.Phase.Final():
		return j, nil, nil, fail(http.StatusNotFound, "artifact not found: the job has not ended")
	case m == nil:
		return j, nil, nil, fail(http.StatusNotFound, "artifact not found: what the job has left is not collected yet, or was lost")
	}
	f := m.File(space, name)
	if of, is := strings.CutPrefix(name, "@"); f == nil && is {
		f = m.File(artifacts.System, of)
	}
	switch {
	case f == nil:
		return j, nil, nil, fail(http.StatusNotFound, "artifact not found")
	case f.Problem != "":
		return j, nil, nil, fail(http.StatusNotFound, "artifact not found: %s", f.Problem)
	}
	return j, m, f, nil
}

func (h *Handler) getJobArtifact(r *request) (any, error) {
	_, m, f, err := h.artifact(r)
	if err != nil {
		return nil, err
	}
	sum, at := base64.StdEncoding.EncodeToString(f.SHA256), m.At.Format(time.RFC3339)
	return v2.JobArtifactInfo{ChecksumSHA256: &sum, ContentLength: &f.Size, ContentType: &f.ContentType, LastModified: &at, Metadata: f.Meta}, nil
}

func (h *Handler) downloadJobArtifact(r *request) (any, error) {
	j, m, f, err := h.artifact(r)
	if err != nil {
		return nil, err
	}
	req := r.Request
	return raw(func(ctx context.Context, w http.ResponseWriter) {
		file, err := h.Kept.Open(ctx, j.Org, j.Name, f)
		if err != nil {
			h.Logger.WarnContext(ctx, "an artifact cannot be read", "job", j.Name, "path", f.Path, "error", err)
			r.status = http.StatusInternalServerError
			h.write(w, r, errorBody(r, "the artifact cannot be read"))
			return
		}
		defer func() { _ = file.Close() }()                             // it was only read
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // a recorder of a test has none
		header := w.Header()
		header.Set("Content-Type", "application/octet-stream")
		if f.ContentType != "" {
			header.Set("Content-Type", f.ContentType)
		}
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Content-Security-Policy", "sandbox")
		header.Set("Content-Disposition", "attachment")
		header.Set("Cache-Control", "private, no-cache")
		header.Set("Etag", `"`+hex.EncodeToString(f.SHA256)+`"`)
		http.ServeContent(w, req.WithContext(ctx), path.Base(f.Path), m.At, file)
	}), nil
}
