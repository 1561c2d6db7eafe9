package program_test

import (
	"os"
	"path/filepath"
	"testing"

	"switchyard.dev/eventbus/program"
)

func TestClusterDomain(t *testing.T) {
	for _, tt := range []struct{ file, want string }{
		{"search signadot.svc.cluster.local svc.cluster.local cluster.local example.com\nnameserver 10.96.0.10\noptions ndots:5\n", "cluster.local"},
		{"nameserver 10.96.0.10\nsearch signadot.svc.k8s.example.com svc.k8s.example.com. k8s.example.com", "k8s.example.com"},
		{"search svc.old.example\nsearch ns.svc.new.example svc.new.example new.example\n", "new.example"},
		{"search example.com\n", ""},
		{"", ""},
	} {
		file := filepath.Join(t.TempDir(), "resolv.conf")
		if err := os.WriteFile(file, []byte(tt.file), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := program.ClusterDomain(file); got != tt.want {
			t.Errorf("of %q it is %q, not %q", tt.file, got, tt.want)
		}
	}
	if got := program.ClusterDomain(filepath.Join(t.TempDir(), "none")); got != "" {
		t.Errorf("without a file it is %q", got)
	}
}
