package grant

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
)

// With returns a Signer that uses a private key.
func With(key *ecdsa.PrivateKey) Signer {
	return func(message []byte) ([]byte, error) {
		digest := sha256.Sum256(message)
		return ecdsa.SignASN1(rand.Reader, key, digest[:])
	}
}
