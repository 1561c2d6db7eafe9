package authority

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"time"
)

// The Secret's keys. The first two are those of the type kubernetes.io/tls.
const (
	dataLeafCert      = "tls.crt"
	dataLeafKey       = "tls.key"
	dataCurrentCert   = "ca.crt"
	dataCurrentKey    = "ca.key"
	dataNextCert      = "next-ca.crt"
	dataNextKey       = "next-ca.key"
	dataNextPublished = "next-ca.published"
	dataRetired       = "retired-ca.crt"
	dataPromoted      = "ca.promoted"
)

// read decodes the State in a Secret's data. Damaged parts count as absent, so that Plan
// creates them again.
func read(data map[string][]byte) State {
	s := State{
		Current:       readPair(data[dataCurrentCert], data[dataCurrentKey]),
		Next:          readPair(data[dataNextCert], data[dataNextKey]),
		NextPublished: readTime(data[dataNextPublished]),
		Promoted:      readTime(data[dataPromoted]),
		Leaf:          readPair(data[dataLeafCert], data[dataLeafKey]),
	}
	for _, cert := range readBundle(data[dataRetired]) {
		s.Retired = append(s.Retired, &Pair{Cert: cert, CertPEM: encode(cert)})
	}
	return s
}

// write is the inverse of read. Keys of retired authorities are not kept:
// nothing may be signed with them any more.
func write(s State) map[string][]byte {
	data := map[string][]byte{}
	put := func(p *Pair, cert, key string) {
		if p != nil {
			data[cert], data[key] = p.CertPEM, p.KeyPEM
		}
	}
	put(s.Leaf, dataLeafCert, dataLeafKey)
	put(s.Current, dataCurrentCert, dataCurrentKey)
	put(s.Next, dataNextCert, dataNextKey)
	for name, at := range map[string]time.Time{dataNextPublished: s.NextPublished, dataPromoted: s.Promoted} {
		if !at.IsZero() {
			data[name] = []byte(at.UTC().Format(time.RFC3339Nano))
		}
	}
	for _, a := range s.Retired {
		data[dataRetired] = append(data[dataRetired], a.CertPEM...)
	}
	return data
}

func readPair(cert, key []byte) *Pair {
	certs := readBundle(cert)
	if _, err := tls.X509KeyPair(cert, key); err != nil || len(certs) != 1 {
		return nil
	}
	if _, err := parseKey(key); err != nil {
		return nil
	}
	return &Pair{Cert: certs[0], CertPEM: cert, KeyPEM: key}
}

func readTime(text []byte) time.Time {
	at, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return time.Time{}
	}
	return at
}

// readBundle decodes the certificates of a PEM text and skips other blocks.
func readBundle(text []byte) []*x509.Certificate {
	var certs []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return certs
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == certBlock {
			certs = append(certs, cert)
		}
	}
}

func encode(certs ...*x509.Certificate) []byte {
	var text bytes.Buffer
	for _, cert := range certs {
		text.Write(pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: cert.Raw}))
	}
	return text.Bytes()
}
