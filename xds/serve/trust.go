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

// asksForTrust reports whether the client is to be told whom to trust.
func (s *stream) asksForTrust() bool {
	return s.Trust != nil && len(metadata.ValueFromIncomingContext(s.rpc.Context(), translate.TrustKey)) > 0
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
