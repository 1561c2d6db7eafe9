package pki

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func opened(t *testing.T, dir string) *Authority {
	t.Helper()
	a, err := Open(dir, "ca", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestServerAndClientOfOneAuthorityTrustEachOther(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	a := opened(t, dir)
	server := Leaf{File: "server", User: "kube-apiserver", IPs: []net.IP{net.ParseIP("127.0.0.1")}}
	client := Leaf{File: "client", User: "someone", Groups: []string{"some:group"}}
	for _, leaf := range []Leaf{server, client} {
		if err := a.Issue(leaf, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	pair := func(file string) []tls.Certificate {
		p, err := tls.LoadX509KeyPair(filepath.Join(dir, file+".crt"), filepath.Join(dir, file+".key"))
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{p}
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: pair("server"), ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	seen := make(chan []string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			seen <- []string{err.Error()}
			return
		}
		defer c.Close()
		if _, err := io.Copy(io.Discard, c); err != nil {
			seen <- []string{err.Error()}
			return
		}
		subject := c.(*tls.Conn).ConnectionState().PeerCertificates
		if len(subject) == 0 {
			seen <- []string{"no certificate"}
			return
		}
		seen <- append([]string{subject[0].Subject.CommonName}, subject[0].Subject.Organization...)
	}()
	c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool, Certificates: pair("client")})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"someone", "some:group"}, <-seen); diff != "" {
		t.Errorf("the server saw (-want +got):\n%s", diff)
	}
}

func TestExistingKeysAndCertificatesAreKept(t *testing.T) {
	dir := t.TempDir()
	contents := func() map[string]string {
		if err := opened(t, dir).Issue(Leaf{File: "x", User: "x"}, time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := SigningKey(dir, "sa"); err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			content, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			all[f.Name()] = string(content)
		}
		return all
	}
	first := contents()
	if len(first) != 6 {
		t.Errorf("%d files, want 6", len(first))
	}
	if diff := cmp.Diff(first, contents()); diff != "" {
		t.Errorf("made anew:\n%s", diff)
	}
}

func TestKeysAreForRootAlone(t *testing.T) {
	dir := t.TempDir()
	a := opened(t, dir)
	leaf := Leaf{File: "admin", User: "admin"}
	if err := a.Issue(leaf, time.Now()); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "kubeconfig")
	if err := Kubeconfig(config, "https://10.0.0.1:6443", "here", a, leaf); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{config, filepath.Join(dir, "ca.key"), filepath.Join(dir, "admin.key")} {
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", file, info.Mode(), err)
		}
	}
}

func TestABrokenAuthorityIsReported(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"ca.key", "ca.crt"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Open(dir, "ca", time.Now())
	if err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("got %v, want what to remove", err)
	}
}
