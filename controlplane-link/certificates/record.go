package certificates

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Store keeps values that all replicas share, encrypted.
type Store interface {
	// Certificate returns the value with a name, and its version; version 0: there is none.
	Certificate(ctx context.Context, name string) (value string, version int64, err error)
	// SwapCertificate replaces a value if it has a version, and returns false if it has another one. The new version is the
	// next one. Version 0: it creates the value.
	SwapCertificate(ctx context.Context, name string, version int64, value string) (bool, error)
}

// record is the certificate of a domain in the store: JSON. Its methods are pure.
type record struct {
	// Certificate has the chain and Key its private key, in PEM. Empty: none yet.
	Certificate, Key string `json:",omitempty"`
	// By is the replica that orders, until Until. Empty: none does.
	By    string    `json:",omitempty"`
	Until time.Time `json:",omitzero"`
	// Failures counts the attempts since the last success, Failed and Reason are of the last one. The next order is at Next.
	Failures int       `json:",omitempty"`
	Failed   time.Time `json:",omitzero"`
	Reason   string    `json:",omitempty"`
	Next     time.Time `json:",omitzero"`
	// Tried are the digests of the settings of these attempts: changed settings are tried at once.
	Tried []string `json:",omitempty"`
}

const (
	// leaseFor bounds an order, after which another replica may order; orderWithin is less.
	leaseFor, orderWithin = 15 * time.Minute, 10 * time.Minute
	// mostTried is how many settings are tried at once.
	mostTried = 5
)

// pauses are those after failures, the last one repeats. An order that fails counts in the limits of authorities.
var pauses = []time.Duration{time.Hour, 4 * time.Hour, 12 * time.Hour}

// parse returns the record of a value; empty: the zero record.
func parse(value string) (r record, err error) {
	if value == "" {
		return r, nil
	}
	return r, json.Unmarshal([]byte(value), &r)
}

// text is the value of a record.
func (r record) text() string {
	text, _ := json.Marshal(r) // texts, times and numbers
	return string(text)
}

// pair returns the certificate; nil: there is none.
func (r record) pair() (*tls.Certificate, error) {
	if r.Certificate == "" {
		return nil, nil
	}
	cert, err := tls.X509KeyPair([]byte(r.Certificate), []byte(r.Key))
	if err != nil {
		return nil, fmt.Errorf("the certificate in the store is damaged: %w", err)
	}
	return &cert, nil
}

// due reports whether a replica orders now, with settings of a digest. due: the certificate is to be renewed.
func (r record) due(now time.Time, settings string, due bool) bool {
	switch {
	case !due, now.Before(r.Until):
		return false
	case !now.Before(r.Next):
		return true
	}
	return r.Failures > 0 && !slices.Contains(r.Tried, settings) && len(r.Tried) < mostTried
}

// leased is the record while a replica orders.
func (r record) leased(by string, now time.Time) record {
	r.By, r.Until = by, now.Add(leaseFor)
	return r
}

// released is the record after an order that was interrupted.
func (r record) released() record {
	r.By, r.Until = "", time.Time{}
	return r
}

// succeeded is the record with a new certificate. If it is due at once, for example by a clock that is wrong, the next order
// waits too.
func (r record) succeeded(now time.Time, certificate, key []byte) record {
	return record{Certificate: string(certificate), Key: string(key), Next: now.Add(pauses[0])}
}

// faulted is the record after a failed order. The next attempt waits at least as long as the server has asked for.
func (r record) faulted(now time.Time, settings string, err error, least time.Duration) record {
	r = r.released()
	pause := pauses[min(r.Failures, len(pauses)-1)]
	pause += time.Duration(rand.Int64N(int64(pause / 4))) //nolint:gosec // no secret
	r.Failures++
	r.Failed, r.Reason, r.Next = now, oneLine(err), now.Add(max(pause, least))
	if !slices.Contains(r.Tried, settings) {
		r.Tried = append(slices.Clone(r.Tried), settings)
	}
	return r
}
