package certificates

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
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
	// Until is the end of the lease of the replica that orders. Zero: none does.
	Until time.Time `json:",omitzero"`
	// Failures counts the attempts since the last success, Failed and Reason are of the last one. The next order is at Next.
	Failures int       `json:",omitempty"`
	Failed   time.Time `json:",omitzero"`
	Reason   string    `json:",omitempty"`
	Next     time.Time `json:",omitzero"`
	// Settings is when the newest settings of these attempts were written: newer ones are tried at once.
	Settings time.Time `json:",omitzero"`
}

// leaseFor bounds an order, after which another replica may order; orderWithin is less.
const leaseFor, orderWithin = 15 * time.Minute, 10 * time.Minute

// pauses are those after failures, the last one repeats. An order that fails counts in the limits of authorities.
var pauses = []time.Duration{time.Hour, 4 * time.Hour, 12 * time.Hour}

// cert returns the certificate; nil: there is none, or none that can be used.
func (r record) cert() *tls.Certificate {
	cert, err := tls.X509KeyPair([]byte(r.Certificate), []byte(r.Key))
	if err != nil {
		return nil
	}
	return &cert
}

// due reports whether a replica may order now, with settings that were written at a time.
func (r record) due(now, settings time.Time) bool {
	return !now.Before(r.Until) && (!now.Before(r.Next) || r.Failures > 0 && settings.After(r.Settings))
}

// leased is the record while a replica orders.
func (r record) leased(now time.Time) record {
	r.Until = now.Add(leaseFor)
	return r
}

// succeeded is the record with a new certificate. If it is due at once, for example by a clock that is wrong, the next order
// waits too.
func (r record) succeeded(now time.Time, certificate, key []byte) record {
	return record{Certificate: string(certificate), Key: string(key), Next: now.Add(pauses[0])}
}

// faulted is the record after a failed order.
func (r record) faulted(now, settings time.Time, err error) record {
	pause := pauses[min(r.Failures, len(pauses)-1)]
	pause += time.Duration(rand.Int64N(int64(pause / 4))) //nolint:gosec // no secret
	r.Failures++
	r.Failed, r.Reason, r.Next = now, oneLine(err), now.Add(pause)
	if settings.After(r.Settings) { // those of another replica can be older
		r.Settings = settings
	}
	return r
}
