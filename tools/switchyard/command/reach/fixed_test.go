package reach_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"switchyard.dev/tools/switchyard/command/reach"
)

// config is a kubeconfig with two contexts, of which a is the current one.
func config() *clientcmdapi.Config {
	return &clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			"a": {Server: "https://a.test:6443", CertificateAuthorityData: []byte("authority of a")},
			"b": {Server: "https://b.test:6443", CertificateAuthorityData: []byte("authority of b")},
		},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: "old"}},
		Contexts:       map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "u"}, "b": {Cluster: "b", AuthInfo: "u"}},
		CurrentContext: "a",
	}
}

// A connection stays with the cluster that it began with, whatever becomes of the kubeconfig, and
// takes from that what a new login writes.
func TestAConnectionStaysWithItsCluster(t *testing.T) {
	authority := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authority, []byte("authority of a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		context       string
		change        func(*clientcmdapi.Config)
		token         string
		refused, note []string
	}{
		"nothing":     {"", func(*clientcmdapi.Config) {}, "old", nil, nil},
		"a new token": {"", func(k *clientcmdapi.Config) { k.AuthInfos["u"].Token = "new" }, "new", nil, nil},
		"another user": {"", func(k *clientcmdapi.Config) {
			k.AuthInfos["v"] = &clientcmdapi.AuthInfo{Token: "v"}
			k.Contexts["a"].AuthInfo = "v"
		}, "v", nil, nil},
		"another current one": {"", func(k *clientcmdapi.Config) { k.CurrentContext = "b" }, "old", nil, []string{"is now b", "stays with context a (https://a.test:6443)"}},
		"it was named":        {"a", func(k *clientcmdapi.Config) { k.CurrentContext = "b" }, "old", nil, nil},
		"no current one":      {"", func(k *clientcmdapi.Config) { k.CurrentContext = "" }, "old", nil, nil},
		"another server":      {"", func(k *clientcmdapi.Config) { k.Clusters["a"].Server = "https://c.test:6443" }, "", []string{"context a", "https://a.test:6443", "https://c.test:6443"}, nil},
		"another cluster":     {"", func(k *clientcmdapi.Config) { k.Contexts["a"].Cluster = "b" }, "", []string{"https://a.test:6443", "https://b.test:6443"}, nil},
		"another authority":   {"", func(k *clientcmdapi.Config) { k.Clusters["a"].CertificateAuthorityData = []byte("x") }, "", []string{"certificate authority was sha256:"}, nil},
		"no authority":        {"", func(k *clientcmdapi.Config) { k.Clusters["a"].CertificateAuthorityData = nil }, "", []string{"certificate authority was sha256:", "that of the system"}, nil},
		"no verification": {"", func(k *clientcmdapi.Config) {
			k.Clusters["a"].CertificateAuthorityData, k.Clusters["a"].InsecureSkipTLSVerify = nil, true
		}, "", []string{"none (certificates are not verified)"}, nil},
		"another name in certificates": {"", func(k *clientcmdapi.Config) { k.Clusters["a"].TLSServerName = "x" }, "", []string{"tls-server-name was none, and is now x"}, nil},
		"the same in another form": {"", func(k *clientcmdapi.Config) {
			k.Clusters["a"].Server, k.Clusters["a"].CertificateAuthorityData, k.Clusters["a"].CertificateAuthority = "HTTPS://A.test:6443/", nil, authority
		}, "old", nil, nil},
		"another road to it": {"", func(k *clientcmdapi.Config) { k.Clusters["a"].ProxyURL = "http://proxy.test:3128" }, "old", nil, nil},
		"deleted":            {"", func(k *clientcmdapi.Config) { delete(k.Contexts, "a"); k.CurrentContext = "b" }, "", []string{`"a" does not exist`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kubeconfig")
			write := func(k *clientcmdapi.Config) {
				if err := clientcmd.WriteToFile(*k, path); err != nil {
					t.Fatal(err)
				}
			}
			k := config()
			write(k)
			f, err := reach.Cluster{Kubeconfig: path, Context: c.context}.Fix()
			if err != nil {
				t.Fatal(err)
			}
			c.change(k)
			write(k)
			got, err := f.Rest()
			switch {
			case c.refused == nil && (err != nil || got.BearerToken != c.token || !strings.EqualFold(strings.TrimSuffix(got.Host, "/"), "https://a.test:6443")):
				t.Errorf("it is of %v, %v", got, err)
			case c.refused != nil && !says(err, c.refused):
				t.Errorf("the error is %v, not %q", err, c.refused)
			}
			if note := f.Switched(); c.note != nil && !says(errors.New(note), c.note) || c.note == nil && c.token != "" && note != "" {
				t.Errorf("it notes %q, not %q", note, c.note)
			}
			if again := f.Switched(); again != "" {
				t.Errorf("it notes twice: %s", again)
			}
		})
	}
}

func says(err error, parts []string) bool {
	if err == nil {
		return false
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			return false
		}
	}
	return true
}
