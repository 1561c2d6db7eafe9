package store

import (
	"context"

	"switchyard.dev/controlplane-link/controlplane/store/database"
)

// sealedCertificate is a value of the table of certificates.
type sealedCertificate struct {
	name, key, text string
	version         int64
}

func scanCertificate(r database.Row) (v sealedCertificate, err error) {
	return v, r.Scan(&v.name, &v.version, &v.key, &v.text)
}

// certificatePlace is what the value is bound to.
func certificatePlace(name string) string { return "certificate " + name }

// Certificate returns a value and its version; version 0: there is none.
func (s *Store) Certificate(ctx context.Context, name string) (value string, version int64, err error) {
	found, err := database.List(ctx, s.db.Reads(), scanCertificate, selectCertificate, name)
	if err != nil || len(found) == 0 {
		return "", 0, err
	}
	value, err = s.keys.Open(found[0].key, certificatePlace(name), found[0].text)
	return value, found[0].version, err
}

// SwapCertificate replaces a value if it has a version, and returns false if it has another one. The new version is the next
// one. Version 0: it creates the value.
func (s *Store) SwapCertificate(ctx context.Context, name string, version int64, value string) (bool, error) {
	query := updateCertificate
	if version == 0 {
		query, version = insertCertificate, 1
	}
	key, text := s.keys.Seal(certificatePlace(name), value)
	n, err := s.db.Observe(ctx, query, name, version, key, text)
	return n == 1, err
}

// resealCertificates encrypts values again that were encrypted with another key than the current one.
func (s *Store) resealCertificates(t *tx) {
	for _, v := range list(t, scanCertificate, selectCertificatesWithout, s.keys.Current()) {
		value, err := s.keys.Open(v.key, certificatePlace(v.name), v.text)
		t.fail(err)
		key, text := s.keys.Seal(certificatePlace(v.name), value)
		t.exec(resealCertificate, v.name, v.version, key, text)
	}
}
