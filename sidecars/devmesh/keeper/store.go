package keeper

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/program"
	"switchyard.dev/xds/translate"
)

// store keeps the routes that Envoy last accepted in one file: the SHA-256 of
// the rest, then the resource in the form that each release reads.
type store struct {
	path string
	edge bool // routes are loaded for the sidecar of an edge
	// secret is that of translate.Head.Returning, which is not kept.
	secret string
}

// maxStored bounds the size of the file that is loaded: some 100,000 rules.
const maxStored = 32 << 20

// save replaces the file. The new one is on disk, whole, before the old one is removed, and is
// durable when save returns.
func (s store) save(r translate.Resource) error {
	// The volume outlives the container, so an earlier image may read this.
	r, err := translate.Portable(r, s.secret)
	if err != nil {
		return fmt.Errorf("write the routes out: %w", err)
	}
	body, err := proto.Marshal(&discoveryv3.Resource{Name: r.Name, Version: r.Version, Resource: r.Any})
	if err != nil {
		return fmt.Errorf("write the routes out: %w", err)
	}
	if len(body) > maxStored {
		return fmt.Errorf("the routes have %d bytes and only %d are kept", len(body), maxStored)
	}
	sum := sha256.Sum256(body)
	return program.Replace(s.path, append(sum[:], body...))
}

// load returns the saved routes, if they are whole and have this name.
func (s store) load(name string) ([]translate.Resource, error) {
	f, err := os.Open(s.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxStored+sha256.Size+1))
	if err != nil {
		return nil, err
	}
	if len(content) < sha256.Size || len(content) > maxStored+sha256.Size {
		return nil, fmt.Errorf("%s has %d bytes: it is damaged", s.path, len(content))
	}
	if sum := sha256.Sum256(content[sha256.Size:]); !bytes.Equal(sum[:], content[:sha256.Size]) {
		return nil, fmt.Errorf("%s is damaged", s.path)
	}
	var r discoveryv3.Resource
	if err := proto.Unmarshal(content[sha256.Size:], &r); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", s.path, err)
	}
	if r.GetName() != name || r.GetResource() == nil {
		return nil, fmt.Errorf("%s holds %q and not %q", s.path, r.GetName(), name)
	}
	// The volume outlives the container, so an earlier image may have written this.
	fit, err := translate.Refit(translate.Resource{
		Type: translate.RouteType, Name: r.GetName(), Version: r.GetVersion(), Any: r.GetResource(),
	}, s.edge)
	if err != nil {
		return nil, err
	}
	return []translate.Resource{fit}, nil
}
