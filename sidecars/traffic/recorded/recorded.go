// Package recorded reads requests from a folder in the published form.
package recorded

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"slices"

	"switchyard.dev/sidecars/traffic/published"
)

// List returns the metadata of the requests in a folder, in the order in which they began. The error names those that
// cannot be read; the others are returned too. Folders without metadata are left out.
func List(in fs.FS) (all []published.Meta, err error) {
	entries, wrong := fs.ReadDir(in, ".")
	if wrong != nil {
		return nil, wrong
	}
	for _, e := range entries {
		if _, unfit := published.Folder(e.Name()); unfit != nil || !e.IsDir() {
			continue
		}
		text, wrong := fs.ReadFile(in, path.Join(e.Name(), published.MetaFile))
		if errors.Is(wrong, fs.ErrNotExist) {
			continue
		}
		var m published.Meta
		if wrong == nil {
			wrong = json.Unmarshal(text, &m)
		}
		if wrong == nil && m.MiddlewareRequestID != e.Name() {
			wrong = fmt.Errorf("its metadata is that of request %q", m.MiddlewareRequestID)
		}
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("request %s cannot be read: %w", e.Name(), wrong))
			continue
		}
		all = append(all, m)
	}
	slices.SortStableFunc(all, func(a, b published.Meta) int {
		return cmp.Or(a.When.Compare(b.When), cmp.Compare(a.MiddlewareRequestID, b.MiddlewareRequestID))
	})
	return all, err
}

// Request returns the headers and the recorded part of the body of a request.
func Request(in fs.FS, id string) (http.Header, []byte, error) {
	text, err := fs.ReadFile(in, path.Join(id, published.RequestFile))
	if err != nil {
		return nil, nil, err
	}
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
	if err != nil {
		return nil, nil, fmt.Errorf("request %s cannot be read: %w", id, err)
	}
	body, err := io.ReadAll(r.Body)
	return r.Header, body, err
}
