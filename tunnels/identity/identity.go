// Package identity is the user of a workstation, as the API server of the cluster knows it.
// Tokens, certificates and passwords are verified by other packages.
package identity

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
)

// User is a user known to the API server, with all fields that a SubjectAccessReview needs.
type User struct {
	Name   string              `json:"name"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
}

// maxEncoded bounds the text of a user, in bytes.
const maxEncoded = 32 << 10

// Key returns a value that is equal for two users only when all their fields are equal.
func (u User) Key() [sha256.Size]byte {
	text, _ := json.Marshal(u) // contains only strings and sorted maps
	return sha256.Sum256(text)
}

// Encode returns the user as a text.
func (u User) Encode() (string, error) {
	text, err := json.Marshal(u)
	if err == nil && len(text) > maxEncoded {
		err = errors.New("the user has too many groups")
	}
	return string(text), err
}

// Decode reads what Encode returned.
func Decode(text string) (User, error) {
	var u User
	if len(text) > maxEncoded {
		return u, errors.New("the text of a user is too long")
	}
	if err := json.Unmarshal([]byte(text), &u); err != nil {
		return User{}, err
	}
	if u.Name == "" {
		return User{}, errors.New("the user has no name")
	}
	return u, nil
}
