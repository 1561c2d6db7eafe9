package pki

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"

	"switchyard.dev/tools/cluster/internal/atomicfile"
)

// Kubeconfig writes a kubeconfig for the owner of a certificate to path. It
// holds the keys themselves, so it can be copied. server is the URL of the API
// server and cluster the name to show.
func Kubeconfig(path, server, cluster string, a *Authority, leaf Leaf) error {
	var data [3]string
	for i, file := range []string{a.File + ".crt", leaf.File + ".crt", leaf.File + ".key"} {
		content, err := os.ReadFile(filepath.Join(a.Dir, file))
		if err != nil {
			return fmt.Errorf("writing a kubeconfig for %s: %w", leaf.User, err)
		}
		data[i] = base64.StdEncoding.EncodeToString(content)
	}
	content := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: %[1]s
  cluster:
    server: %[2]s
    certificate-authority-data: %[3]s
users:
- name: %[4]q
  user:
    client-certificate-data: %[5]s
    client-key-data: %[6]s
contexts:
- name: %[1]s
  context:
    cluster: %[1]s
    user: %[4]q
current-context: %[1]s
`, cluster, server, data[0], leaf.User, data[1], data[2])
	if err := atomicfile.Write(path, []byte(content), 0o600); err != nil {
		return fmt.Errorf("writing a kubeconfig for %s: %w", leaf.User, err)
	}
	return nil
}
