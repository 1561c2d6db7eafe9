// Package credential issues and verifies the user names and passwords, valid for minutes, with
// which clients authenticate to the SOCKS5 port of a tunnel proxy (RFC 1929). It is pure: the
// clock is an argument.
//
// The user name is that of the user in the cluster. The password is its expiry and a keyed hash
// over both, so that proxies need only the key to verify one. The issuer has to check that the
// user may use the proxies.
package credential

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Lifetime is how long a credential is valid.
const Lifetime = 10 * time.Minute

// maxName is the maximum length of a user name in SOCKS5.
const maxName = 255

// purpose separates passwords from anything else that is derived from the key.
const purpose = "switchyard tunnel SOCKS5 v1"

// Issue returns the password of a user, which is valid until expires.
func Issue(key []byte, user string, now time.Time) (password string, expires time.Time, err error) {
	if user == "" || len(user) > maxName {
		return "", time.Time{}, fmt.Errorf("the user name %.80q has %d bytes; SOCKS5 takes 1 to %d: use the tunnel's own protocol", user, len(user), maxName)
	}
	expires = now.Add(Lifetime).Truncate(time.Second)
	until := binary.BigEndian.AppendUint64(nil, uint64(expires.Unix()))
	return base64.RawURLEncoding.EncodeToString(append(until, sum(key, user, until)...)), expires, nil
}

// Check returns nil when the password is the user's and is valid now.
func Check(key []byte, user, password string, now time.Time) error {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(password)
	if err != nil || len(raw) != 8+sha256.Size || len(key) == 0 || user == "" || len(user) > maxName {
		return errors.New("the password is none that tunnel-api issued: ask for one with `switchyard tunnel socks-credential`")
	}
	until := raw[:8]
	if !hmac.Equal(raw[8:], sum(key, user, until)) {
		return errors.New("the password is not that of the user, or was made with another key: ask for one with `switchyard tunnel socks-credential`")
	}
	if expires := time.Unix(int64(binary.BigEndian.Uint64(until)), 0); !now.Before(expires) {
		return fmt.Errorf("the password expired at %s: ask for another with `switchyard tunnel socks-credential`", expires.UTC().Format(time.RFC3339))
	}
	return nil
}

func sum(key []byte, user string, until []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(purpose))
	m.Write(until)
	m.Write([]byte(user))
	return m.Sum(nil)
}
