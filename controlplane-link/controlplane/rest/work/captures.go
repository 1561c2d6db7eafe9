package work

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"switchyard.dev/controlplane-link/controlplane/captures"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/decode"
	"switchyard.dev/controlplane-link/controlplane/rest/encode"
	"switchyard.dev/controlplane-link/controlplane/rest/failure"
	"switchyard.dev/eventbus/program"
	v2 "switchyard.dev/protos/controlplane/v2"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/har"
	"switchyard.dev/sidecars/traffic/recording"
	"switchyard.dev/workflows/specfile"
)

// mostRequests and someRequests are the maximum and default of query limit.
const mostRequests, someRequests = 1000, 100

var captureMissing = failure.Missing("unable to fetch capture: not found")

// recorder returns what records; an error where nothing is stored.
func (w Work) recorder() (*captures.Recorder, error) {
	if w.Captures == nil {
		return nil, failure.New(http.StatusNotImplemented, "captures are not stored by this control plane: it has no folder or bucket for artifacts")
	}
	return w.Captures, nil
}

// captureIn returns the capture in the path.
func (w Work) captureIn(r *Call) (*captures.Recorder, captures.Capture, error) {
	of, err := w.recorder()
	if err != nil {
		return nil, captures.Capture{}, err
	}
	c, err := of.Store.Capture(r.Context(), r.Org(), r.Vars["captureName"])
	return of, c, captureMissing(err)
}

// ListCaptures returns the captures, the newest first, or those of query sandbox.
func (w Work) ListCaptures(r *Call) (any, error) {
	of, err := w.recorder()
	if err != nil {
		return nil, err
	}
	return encode.List(encode.Capture)(of.Store.Captures(r.Context(), r.Org(), r.URL.Query().Get("sandbox")))
}

// GetCapture returns the capture in the path.
func (w Work) GetCapture(r *Call) (any, error) {
	_, c, err := w.captureIn(r)
	return encode.One(encode.Capture)(c, err)
}

// CreateCapture begins a capture of a sandbox's forks, with a new name.
func (w Work) CreateCapture(r *Call, in decode.Specification[v2.CaptureSpec], _ decode.Tree) (any, error) {
	of, err := w.recorder()
	if err != nil {
		return nil, err
	}
	long, err := time.ParseDuration(cmp.Or(ptr.Deref(in.Spec.Duration, ""), recording.Longest.String()))
	if err != nil || long <= 0 || long > recording.Longest {
		return nil, specfile.Problems{{Path: "spec.duration", Text: fmt.Sprintf("is a time of at most %s, such as 10m", recording.Longest)}}
	}
	s, err := w.Sandbox(r.Context(), r.Org(), in.Spec.Sandbox)
	if errors.Is(err, model.ErrNotFound) || err == nil && !s.DeletedAt.IsZero() {
		return nil, failure.New(http.StatusNotFound, "spec.sandbox: sandbox %q not found", in.Spec.Sandbox)
	}
	if err != nil {
		return nil, err
	}
	c := captures.Capture{
		Org: r.Org(), Cluster: s.Cluster, Sandbox: s.Name, Workload: ptr.Deref(in.Spec.Workload, ""), CreatedAt: r.Now, Until: r.Now.Add(long), Author: r.Caller.Author(),
		Name: s.Name + "-" + strings.ToLower(rand.Text()[:10]),
	}
	err = of.Store.Create(r.Context(), c, r.Event("capture.create", map[string]any{"name": c.Name, "sandbox": c.Sandbox, "workload": c.Workload}))
	return encode.One(encode.Capture)(c, err)
}

// EndCapture ends the capture in the path.
func (w Work) EndCapture(r *Call) (any, error) {
	of, c, err := w.captureIn(r)
	if err == nil && c.EndedAt.IsZero() {
		err = of.Store.End(r.Context(), c, false, r.Now, r.Event("capture.end", map[string]any{"name": c.Name}))
	}
	if err != nil {
		return nil, captureMissing(err)
	}
	return w.GetCapture(r)
}

// RemoveCapture deletes the capture in the path: one that is recorded ends first.
func (w Work) RemoveCapture(r *Call) (any, error) {
	of, c, err := w.captureIn(r)
	if err != nil {
		return nil, err
	}
	if c.EndedAt.IsZero() {
		return nil, captureMissing(of.Store.End(r.Context(), c, true, r.Now, r.Event("capture.delete", map[string]any{"name": c.Name})))
	}
	if err := captures.Delete(r.Context(), of.Files, c); err != nil {
		return nil, err
	}
	return nil, captureMissing(of.Store.Remove(r.Context(), c, r.Event("capture.delete", map[string]any{"name": c.Name})))
}

// ListCapturedRequests returns the metadata of the newest requests of the capture in the path, at most query limit.
func (w Work) ListCapturedRequests(r *Call) (any, error) {
	of, c, err := w.captureIn(r)
	if err != nil {
		return nil, err
	}
	n, err := decode.Number(r.URL.Query(), "limit", someRequests, 0, mostRequests)
	if err != nil {
		return nil, err
	}
	return of.Store.Newest(r.Context(), of.Files, c, n)
}

// DownloadHAR returns the recorded requests of the capture in the path as an HTTP Archive, as Raw.
func (w Work) DownloadHAR(r *Call) (any, error) {
	of, c, err := w.captureIn(r)
	if err != nil {
		return nil, err
	}
	all, err := of.Store.Segments(r.Context(), c)
	if err != nil {
		return nil, err
	}
	return Raw(func(ctx context.Context, out http.ResponseWriter) error {
		out = download(out, "application/json", "attachment; filename=capture.har", "no-store")
		archive := har.New(out, program.Built().Version)
		for _, s := range all {
			err := captures.Read(ctx, of.Files, c, s, func(one *trafficv1.Recorded) error { return archive.Add(one.GetExchange()) })
			if err != nil {
				w.Logger.WarnContext(ctx, "recorded requests cannot be sent", "capture", c.Name, "error", err)
				panic(http.ErrAbortHandler) // so that the client does not take the answer for complete
			}
		}
		return archive.End(recording.Identity(c.Progress.Counts))
	}), nil
}
