// Package seal encrypts values with keys from a file: AES-256-GCM, with a random nonce, bound to
// the place of the value. The file has a line for each key, an identifier and 32 random bytes in
// base64; the first one encrypts, all of them decrypt:
//
//	2026-11 3q2+7w...      # printf '2026-11 %s\n' "$(openssl rand -base64 32)"
//	2026-05 AAECAw...
//
// To replace the key, add a line at the beginning, encrypt all values again, and remove the old line.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
)

const keyBytes = 32

// Keys are the keys of a file. They are safe for concurrent use.
type Keys struct {
	current string
	all     map[string]cipher.AEAD
}

// Read reads the keys in a file. Its errors contain no key.
func Read(path string) (*Keys, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the keys for secrets: %w", err)
	}
	k, err := Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// Parse parses the text of a file. Its errors contain no key.
func Parse(text string) (*Keys, error) {
	k := &Keys{all: map[string]cipher.AEAD{}}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("line %d has %d words: write an identifier and a key in base64", n, len(fields))
		}
		id := fields[0]
		key, err := base64.StdEncoding.DecodeString(fields[1])
		switch {
		case k.all[id] != nil:
			return nil, fmt.Errorf("line %d: key %q has another line: give each key an identifier of its own", n, id)
		case err != nil || len(key) != keyBytes:
			return nil, fmt.Errorf("line %d: key %q is not %d bytes in base64: create one with openssl rand -base64 %d", n, id, keyBytes, keyBytes)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		if k.all[id], err = cipher.NewGCM(block); err != nil {
			return nil, err
		}
		if k.current == "" {
			k.current = id
		}
	}
	if k.current == "" {
		return nil, fmt.Errorf("no key: write a line with an identifier and %d random bytes in base64", keyBytes)
	}
	return k, nil
}

// Current is the identifier of the key that encrypts.
func (k *Keys) Current() string { return k.current }

// Has reports whether there is a key with an identifier.
func (k *Keys) Has(id string) bool { return k.all[id] != nil }

// Seal encrypts a value for a place with the current key. The same value never results in the same
// text.
func (k *Keys) Seal(place, value string) (id, sealed string) {
	aead := k.all[k.current]
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // it never fails
	return k.current, base64.StdEncoding.EncodeToString(aead.Seal(nonce, nonce, []byte(value), []byte(place)))
}

// Open decrypts a value that was encrypted for a place.
func (k *Keys) Open(id, place, sealed string) (string, error) {
	aead := k.all[id]
	if aead == nil {
		return "", fmt.Errorf("key %q of %s is not in the file of keys: add its line again", id, place)
	}
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil || len(raw) < aead.NonceSize() {
		return "", fmt.Errorf("the value of %s is damaged: set it again", place)
	}
	value, err := aead.Open(nil, raw[:aead.NonceSize()], raw[aead.NonceSize():], []byte(place))
	if err != nil {
		return "", fmt.Errorf("the value of %s is damaged or was encrypted with another key %q: restore the line of the key, or set the value again", place, id)
	}
	return string(value), nil
}
