package signed

import (
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// maxKeys bounds a key set: one key signs, the others are being replaced.
const maxKeys = 16

// Keys are the public keys of a control plane. The zero value has none.
type Keys struct{ set jose.JSONWebKeySet }

// published returns a public key with its ID.
func published(public crypto.PublicKey) (jose.JSONWebKey, error) {
	key := jose.JSONWebKey{Key: public, Algorithm: string(jose.EdDSA), Use: "sig"}
	thumbprint, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		return key, fmt.Errorf("the ID of a key: %w", err)
	}
	key.KeyID = base64.RawURLEncoding.EncodeToString(thumbprint)
	return key, nil
}

// KeysOf returns a set of public keys.
func KeysOf(public ...ed25519.PublicKey) (Keys, error) {
	var k Keys
	for _, p := range public {
		if len(p) != ed25519.PublicKeySize {
			return Keys{}, fmt.Errorf("a public key of Ed25519 has %d bytes, this one %d", ed25519.PublicKeySize, len(p))
		}
		key, err := published(p)
		if err != nil {
			return Keys{}, err
		}
		k.set.Keys = append(k.set.Keys, key)
	}
	if len(k.set.Keys) > maxKeys {
		return Keys{}, fmt.Errorf("there are %d keys of the control plane: at most %d are accepted", len(k.set.Keys), maxKeys)
	}
	return k, nil
}

// ParseKeys reads a JSON Web Key Set. All of its keys have to be public keys of Ed25519; their IDs
// are derived from the keys, and not read.
func ParseKeys(text []byte) (Keys, error) {
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(text, &set); err != nil {
		return Keys{}, fmt.Errorf("the keys of the control plane are no JSON Web Key Set: %w", err)
	}
	var all []ed25519.PublicKey
	for _, key := range set.Keys {
		public, is := key.Key.(ed25519.PublicKey)
		if !is {
			return Keys{}, fmt.Errorf("key %.64q of the control plane is no public key of Ed25519", key.KeyID)
		}
		all = append(all, public)
	}
	return KeysOf(all...)
}

// String returns the set as a JSON Web Key Set.
func (k Keys) String() string {
	text, err := json.Marshal(k.set)
	if err != nil || len(k.set.Keys) == 0 {
		return `{"keys":[]}`
	}
	return string(text)
}
