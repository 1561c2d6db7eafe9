package certificates_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/controlplane-link/certificates"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
)

// A folder is read again, files that cannot be used change nothing, and both are reported.
func TestFolder(t *testing.T) {
	authority, dir := trusttest.New(t, "authority"), t.TempDir()
	now, log, metrics := time.Now(), &bytes.Buffer{}, prometheus.NewRegistry()
	s, err := certificates.New(certificates.Config{
		Domains: []string{"a.example", "b.example"}, Dir: dir, Metrics: metrics,
		Now: func() time.Time { return now }, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	check := func(problem, reason string) certificates.State {
		t.Helper()
		s.Check(t.Context())
		all := s.States()
		if len(all) != 2 || all[0].Domain != "a.example" || !contains(all[1].Problem, problem) || !contains(all[1].Reason, reason) {
			t.Fatalf("problem %q, reason %q: %+v", problem, reason, all)
		}
		return all[1]
	}
	failed := check("There is no certificate for *.b.example: ", trust.CertFile).Failed
	now = now.Add(time.Minute)
	if again := check("no certificate", trust.CertFile).Failed; !again.Equal(failed) || strings.Count(log.String(), "was not renewed") != 2 {
		t.Errorf("failed since %s, not %s: %s", again, failed, log)
	}
	if err := handshake(t, s, "x.a.example", authority.Bundle()); err == nil || !strings.Contains(err.Error(), "unrecognized name") {
		t.Errorf("without a certificate: %v", err)
	}
	authority.Write(t, dir, authority.Leaf(t, "*.a.example"))
	check("no certificate", "cannot be used for *.b.example: x509: certificate is valid for")
	if err := handshake(t, s, "x.a.example", authority.Bundle()); err != nil { // the other domain has a certificate
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, trust.BundleFile)); err != nil { // no public authority's Secret has it
		t.Fatal(err)
	}
	first := authority.Leaf(t, "*.a.example", "*.b.example", "*.custom.example")
	trusttest.File(t, dir, trust.CertFile, first.Cert)
	check("no certificate", "private key does not match")
	authority.WriteKey(t, dir, first)
	end := check("", "").End
	for host, good := range map[string]bool{"x.a.example": true, "Y.B.example": true, "x.custom.example": true, "x.y.a.example": false, "a.example": false, "x.c.example": false, "": false} {
		if err := handshake(t, s, host, authority.Bundle()); (err == nil) != good {
			t.Errorf("%q: %v", host, err)
		}
	}
	if !s.Covers("x.a.example", "y.b.example") || s.Covers("x.a.example", "x.c.example") || s.Covers("x.c.example", "x.a.example") || s.Covers("", "x.a.example") {
		t.Error("the hosts that the certificate of a connection covers")
	}

	authority.Write(t, dir, authority.Expired(t, "*.a.example", "*.b.example"))
	if kept := check("", "it expired at"); !kept.End.Equal(end) {
		t.Errorf("the previous one: %+v", kept)
	}
	now = now.Add(50 * time.Minute)
	check("is valid until", "it expired at")
	check("is valid until", "it expired at")
	if n := strings.Count(log.String(), "previews need a certificate"); n != 6 { // one for each reason: one of the first domain without a certificate, three of the other, and this of both
		t.Errorf("%d warnings: %s", n, log)
	}
	if got := metric(t, metrics, "failure_timestamp_seconds"); got < float64(failed.Unix()) {
		t.Errorf("the metric of failures is %f", got)
	}
	authority.Write(t, dir, authority.Leaf(t, "*.a.example", "*.b.example"))
	now = now.Add(-50 * time.Minute)
	check("", "")
	if got := metric(t, metrics, "failure_timestamp_seconds"); got != 0 {
		t.Errorf("the metric of failures is %f", got)
	}
	if got := metric(t, metrics, "end_timestamp_seconds"); got != float64(s.States()[1].End.Unix()) {
		t.Errorf("the metric of the end is %f", got)
	}
}

// contains reports whether a text has a part; an empty part: it is empty.
func contains(text, part string) bool {
	return strings.Contains(text, part) && (part != "" || text == "")
}

// metric is the value of a metric for the last domain.
func metric(t *testing.T, from prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "switchyard_certificate_"+name {
			return f.GetMetric()[len(f.GetMetric())-1].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// roots are certificates in PEM.
func roots(t *testing.T, bundle []byte) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		t.Fatalf("no certificate: %s", bundle)
	}
	return pool
}

// handshake connects to a server with the certificates, which serves HTTP/2.
func handshake(t *testing.T, s *certificates.Source, host string, bundle []byte) error {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = tls.Server(server, s.Server()).HandshakeContext(ctx) }()                                                                      // the client has the error
	c := tls.Client(client, &tls.Config{ServerName: host, RootCAs: roots(t, bundle), NextProtos: []string{"h2"}, InsecureSkipVerify: host == ""}) //nolint:gosec // without a name there is nothing to verify
	if err := c.HandshakeContext(ctx); err != nil {
		return err
	}
	if got := c.ConnectionState().NegotiatedProtocol; got != "h2" {
		t.Errorf("protocol %q", got)
	}
	return nil
}
