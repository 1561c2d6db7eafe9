// Package credentials reads the file with the API keys of users and the tokens of clusters. It is
// pure. The file has the SHA-256 of each secret, and no secret:
//
//	apiKeys:
//	- sha256: 5e88...      # printf %s "$KEY" | sha256sum
//	  organisation: acme
//	  user: jo@example.com
//	  roles: [developer]   # optional
//	  clusters: [prod]     # or ["*"]: all clusters of the organisation
//	clusterTokens:
//	- sha256: 03ac...
//	  organisation: acme
//	  clusters: [prod]     # one
//
// A secret is the text of at least 32 random bytes, so that its hash needs no salt.
package credentials

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"sigs.k8s.io/yaml"

	"switchyard.dev/controlplane-link/identity"
	linkv1 "switchyard.dev/protos/gen/link/v1"
)

// Key is an API key, or a cluster token: that has no user, and one cluster.
type Key struct {
	SHA256       string   `json:"sha256"`
	Organisation string   `json:"organisation"`
	User         string   `json:"user"`
	Roles        []string `json:"roles"`
	Clusters     []string `json:"clusters"`

	// Sum is SHA256 as bytes.
	Sum [sha256.Size]byte `json:"-"`
}

// File is the content of a file.
type File struct {
	APIKeys       []Key `json:"apiKeys"`
	ClusterTokens []Key `json:"clusterTokens"`
}

const (
	// all names all clusters of an organisation.
	all = "*"
	// minSecret is the length of 32 bytes in base64, the shortest of the usual encodings.
	minSecret = 43
)

// long is a word that can be a secret.
var long = regexp.MustCompile(`[^\s"]{32,}`)

// Parse reads a file. Its errors name the entry, and contain no secret.
func Parse(text []byte) (*File, error) {
	f := &File{}
	if err := yaml.UnmarshalStrict(text, f); err != nil {
		return nil, errors.New(long.ReplaceAllString(err.Error(), "(a long word)"))
	}
	entries := map[[sha256.Size]byte]string{sha256.Sum256(nil): "an empty secret"}
	for n, keys := range [][]Key{f.APIKeys, f.ClusterTokens} {
		for i := range keys {
			entry, k := fmt.Sprintf("%s[%d]", []string{"apiKeys", "clusterTokens"}[n], i), &keys[i]
			if err := k.check(n == 0); err != nil {
				return nil, fmt.Errorf("%s: %w", entry, err)
			}
			if other := entries[k.Sum]; other != "" {
				return nil, fmt.Errorf("%s: sha256 is also that of %s: create another secret", entry, other)
			}
			entries[k.Sum] = entry
		}
	}
	return f, nil
}

// check sets Sum, and returns an error for an entry that is not valid.
func (k *Key) check(ofUser bool) error {
	sum, err := hex.DecodeString(k.SHA256)
	if err != nil || len(sum) != len(k.Sum) {
		return errors.New("sha256 is not 64 hexadecimal digits: write the SHA-256 of the secret, not the secret")
	}
	k.Sum = [sha256.Size]byte(sum)
	switch _, err := identity.Of(k.Organisation, k.Caller()); {
	case err != nil:
		return err
	case ofUser && (k.User == "" || len(k.Clusters) == 0):
		return errors.New(`an API key needs user, and in clusters the names of clusters or "*" for all of the organisation`)
	case !ofUser && (k.User != "" || len(k.Roles) > 0 || len(k.Clusters) != 1 || k.Reaches(all)):
		return errors.New("a cluster token needs one name in clusters, and no user and roles")
	}
	for _, c := range k.Clusters {
		if err := identity.Valid("cluster", c); err != nil && c != all {
			return err
		}
	}
	return nil
}

// Caller returns the user, as agents know it.
func (k *Key) Caller() *linkv1.Caller {
	return &linkv1.Caller{Name: k.User, Roles: k.Roles, ApiKey: true}
}

// Reaches reports whether the key is for a cluster of its organisation.
func (k *Key) Reaches(cluster string) bool {
	return slices.Contains(k.Clusters, cluster) || slices.Contains(k.Clusters, all)
}

// Find returns the API key that a client has sent; nil: it is not known. Its time does not depend on
// the keys of the file, only on their number.
func (f *File) Find(sent string) (found *Key) {
	sum := sha256.Sum256([]byte(sent))
	for i := range f.APIKeys {
		if subtle.ConstantTimeCompare(f.APIKeys[i].Sum[:], sum[:]) == 1 && len(sent) >= minSecret {
			found = &f.APIKeys[i]
		}
	}
	return found
}

// Has reports whether an API key is still one of the same user with the same roles, and reaches a cluster.
func (f *File) Has(key *Key, cluster string) bool {
	return slices.ContainsFunc(f.APIKeys, func(k Key) bool {
		return k.Sum == key.Sum && k.Organisation == key.Organisation && k.User == key.User && slices.Equal(k.Roles, key.Roles) && k.Reaches(cluster)
	})
}
