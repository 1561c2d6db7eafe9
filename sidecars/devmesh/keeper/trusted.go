package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/xds/translate"
)

// trusted decides which certificates are accepted as a route server's: those of the authorities
// that were injected into the pod, or that a trusted route server has announced since. The last
// announcement is kept on disk and outlives the container.
type trusted struct {
	roots          *trust.Roots
	injected, kept []byte
	path           string
	logger         *slog.Logger
}

// newTrusted reads the announcement that is kept at path. It returns nil without injected
// authorities: the sidecar then connects without TLS.
func newTrusted(injected, path string, logger *slog.Logger) (*trusted, error) {
	if injected == "" {
		return nil, nil
	}
	t := &trusted{
		roots:    trust.NewRoots(devmesh.EnvTrust + " of this pod, and the announcements of route servers"),
		injected: []byte(injected), path: path, logger: logger,
	}
	if err := t.roots.Set(t.injected); err != nil {
		return nil, fmt.Errorf("%w: re-create the pod", err)
	}
	kept, err := os.ReadFile(path)
	if err == nil {
		err = t.use(kept)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		logger.Error("the announced authorities cannot be read from disk; only the authorities that the pod was created with are trusted", "file", path, "error", err)
	}
	return t, nil
}

// use trusts the authorities of bundle and the injected ones, and no others.
func (t *trusted) use(bundle []byte) error {
	if _, err := trust.ReadBundle(bundle); err != nil {
		return err
	}
	if err := t.roots.Set(append(append(bytes.Clone(t.injected), '\n'), bundle...)); err != nil {
		return err
	}
	t.kept = bundle
	return nil
}

// authorities returns the roots that certificates of route servers are verified against; nil
// to connect without TLS.
func (t *trusted) authorities() *trust.Roots {
	if t == nil {
		return nil
	}
	return t.roots
}

// take adopts the authorities that a route server announces. They are believed over TLS only.
func (t *trusted) take(ctx context.Context, response *discoveryv3.DeltaDiscoveryResponse) error {
	if t == nil {
		return errors.New("the route server announced authorities over a connection without authentication")
	}
	bundle, err := translate.ReadTrust(response)
	if err != nil || bytes.Equal(bundle, t.kept) {
		return err
	}
	from, _ := peer.FromContext(ctx)
	if from == nil {
		return errors.New("authorities were announced by an unknown peer")
	}
	if _, ok := from.AuthInfo.(credentials.TLSInfo); !ok {
		return errors.New("the route server announced authorities over a connection that is not encrypted")
	}
	if err := t.use(bundle); err != nil {
		return err
	}
	if err := program.Replace(t.path, bundle); err != nil {
		t.logger.Error("the announced authorities could not be saved to disk; a restart begins with the previous ones", "error", err)
	}
	t.logger.Info("the route server has announced new trusted authorities")
	return nil
}

// away returns what to log about a stream that ended with err, and the cause.
func (t *trusted) away(err error) (what string, why error) {
	if t != nil {
		if refusal := t.roots.Refusal(); refusal != nil && strings.Contains(err.Error(), refusal.Error()) {
			return "the certificate of the route server is not trusted; the last routes stay in use. If the pod was disconnected while the authority changed, re-create it", refusal
		}
	}
	return "the route server cannot be reached; the last routes stay in use", err
}
