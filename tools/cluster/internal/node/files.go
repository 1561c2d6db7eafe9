package node

import (
	"bytes"
	"embed"
	"fmt"
	"net"
	"strconv"
	"text/template"

	"switchyard.dev/tools/cluster/internal/layout"
	"switchyard.dev/tools/cluster/internal/pki"
)

// PauseImage is the name of the image of a pod's first process.
const PauseImage = "switchyard.dev/pause:1"

//go:embed files
var sources embed.FS

// Files renders the configuration files of all parts, by path relative to the
// node's directory.
func Files(n layout.Node) (map[string][]byte, error) {
	functions := template.FuncMap{
		"pause":  func() string { return PauseImage },
		"domain": func() string { return layout.Domain },
	}
	all, err := template.New("").Funcs(functions).ParseFS(sources, "files/*")
	if err != nil {
		return nil, fmt.Errorf("reading the configuration templates: %w", err)
	}
	files := map[string][]byte{}
	for _, t := range all.Templates() {
		var out bytes.Buffer
		if t.Tree == nil {
			continue
		}
		if err := t.Execute(&out, n); err != nil {
			return nil, fmt.Errorf("rendering %s: %w", t.Name(), err)
		}
		place := t.Name()
		if place == "cni.conflist" {
			place = "cni/10-pods.conflist"
		}
		files[place] = out.Bytes()
	}
	return files, nil
}

// Admin is the certificate of the person who runs the node.
var Admin = pki.Leaf{File: "admin", User: "admin", Groups: []string{"system:masters"}}

// Clients returns the certificates of the parts that connect to the API server. The user name of
// each has exactly the permissions for its work in Kubernetes; each gets a kubeconfig with the name
// of its file.
func Clients(n layout.Node) []pki.Leaf {
	return []pki.Leaf{
		Admin,
		{File: "kube-controller-manager", User: "system:kube-controller-manager"},
		{File: "kube-scheduler", User: "system:kube-scheduler"},
		{File: "kube-proxy", User: "system:kube-proxy"},
		{File: "coredns", User: "system:coredns"},
		{File: "kubelet", User: "system:node:" + n.Name, Groups: []string{"system:nodes"},
			Names: []string{n.Name}, IPs: []net.IP{n.Address.AsSlice()}},
	}
}

// Servers are the certificates of the API server: as a server, and as a client of kubelet.
func Servers(n layout.Node) []pki.Leaf {
	return []pki.Leaf{
		{File: "kube-apiserver", User: "kube-apiserver",
			Names: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + layout.Domain},
			IPs:   []net.IP{n.Address.AsSlice(), n.APIServiceIP().AsSlice(), net.IPv4(127, 0, 0, 1)}},
		{File: "kubelet-client", User: "kube-apiserver-kubelet-client"},
	}
}

// bits is the prefix length of the pod range: the one node has all of it.
func bits(n layout.Node) string { return strconv.Itoa(n.Pods.Bits()) }
