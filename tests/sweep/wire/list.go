package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// fill serves the list request of a cache for everything of a kind.
func (t trip) fill(r *http.Request, about target) (*http.Response, error) {
	f := t.gate.faults
	first := t.gate.first(about.resource)
	r = r.Clone(r.Context())
	query := r.URL.Query()
	if f.Snapshot != nil && first {
		if version := f.Snapshot(about.resource); version != "" {
			query.Set("resourceVersion", version)
			query.Set("resourceVersionMatch", "Exact")
		}
	}
	if f.Page > 0 {
		if query.Has("continue") {
			return status(r, http.StatusGone, "Expired", "the continue parameter is too old"), nil
		}
		if query.Has("limit") { // A request without a limit follows after that.
			query.Set("limit", strconv.FormatInt(f.Page, 10))
			query.Del("resourceVersion")
			query.Del("resourceVersionMatch")
		}
	}
	r.URL.RawQuery = query.Encode()
	return t.alive(t.next.RoundTrip(r))
}

// stale answers a live read as of the snapshot of its resource, as if it came out of
// an old cache.
func (t trip) stale(r *http.Request, about target) (*http.Response, error) {
	version := ""
	if t.gate.faults.Snapshot != nil {
		version = t.gate.faults.Snapshot(about.resource)
	}
	if version == "" {
		return t.alive(t.next.RoundTrip(r))
	}
	list := r.Clone(r.Context())
	query := list.URL.Query()
	query.Set("resourceVersion", version)
	query.Set("resourceVersionMatch", "Exact")
	if about.name != "" {
		list.URL.Path = strings.TrimSuffix(list.URL.Path, "/"+about.name)
		query.Set("fieldSelector", "metadata.name="+about.name)
		list.Header.Set("Accept", "application/json")
	}
	list.URL.RawQuery = query.Encode()
	response, err := t.alive(t.next.RoundTrip(list))
	if err != nil || about.name == "" || response.StatusCode != http.StatusOK {
		return response, err
	}
	return only(r, response)
}

// only answers with the one object of a list, or that there is none.
func only(r *http.Request, response *http.Response) (*http.Response, error) {
	defer response.Body.Close()
	var list struct {
		Items []map[string]any `json:"items"`
	}
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		return nil, fmt.Errorf("wire: read a list: %w", err)
	}
	if len(list.Items) == 0 {
		return status(r, http.StatusNotFound, "NotFound", "there was none then"), nil
	}
	object := list.Items[0]
	object["apiVersion"], object["kind"] = "meta.k8s.io/v1", "PartialObjectMetadata"
	body, err := json.Marshal(map[string]any{
		"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": object["metadata"],
	})
	if err != nil {
		return nil, err
	}
	return answer(r, http.StatusOK, body), nil
}

// unsupported is how an API server answers that cannot send a list as events.
func unsupported(r *http.Request) *http.Response {
	return status(r, http.StatusUnprocessableEntity, "Invalid", "sendInitialEvents is not supported")
}

// status answers as an API server does when it refuses.
func status(r *http.Request, code int, reason, message string) *http.Response {
	return answer(r, code, fmt.Appendf(nil, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":%q,"message":%q,"code":%d}`,
		reason, message, code))
}

// answer makes an answer.
func answer(r *http.Request, code int, body []byte) *http.Response {
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// unconditional takes out of a write which object and which version of it is meant.
func unconditional(r *http.Request) error {
	if r.Body == nil {
		return nil
	}
	written, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if err != nil {
		return err
	}
	var body map[string]any
	if json.Unmarshal(written, &body) == nil {
		delete(body, "preconditions")
		if metadata, ok := body["metadata"].(map[string]any); ok {
			delete(metadata, "uid")
			delete(metadata, "resourceVersion")
		}
		if written, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(written)), int64(len(written))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(written)), nil }
	return nil
}
