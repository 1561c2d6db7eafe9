package serve

import (
	"google.golang.org/grpc/metadata"

	"switchyard.dev/xds/delta"
	"switchyard.dev/xds/translate"
)

// Bundles has whom clients are to trust: eventbus/trust has one.
type Bundles interface {
	// Bundle returns the authorities, as PEM, nil while they are not known, and a channel
	// that is closed when there are others.
	Bundle() ([]byte, <-chan struct{})
}

// now is a channel that is closed.
var now = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// followTrust has the stream told whom to trust, if its client asks for that.
func (s *stream) followTrust() {
	if s.Trust != nil && len(metadata.ValueFromIncomingContext(s.rpc.Context(), translate.TrustKey)) > 0 {
		s.trust = now
	}
}

// tellTrust sends whom to trust, and notes when that changes.
func (s *stream) tellTrust() error {
	var bundle []byte
	if bundle, s.trust = s.Trust.Bundle(); bundle == nil {
		return nil
	}
	resource, err := translate.Trust(bundle)
	if err != nil {
		return err
	}
	turn := s.await()
	if turn == nil {
		return nil
	}
	defer turn.end()
	return s.write(&delta.Response{Type: translate.TrustType, Resources: []translate.Resource{resource}}, turn)
}
