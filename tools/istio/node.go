package istio

import (
	"context"
	"fmt"
	"path/filepath"

	"switchyard.dev/tools/envoy"
	"switchyard.dev/tools/listed"
)

// Node is Istio as it is installed on a Kubernetes node.
type Node struct {
	Istio
	// Charts is the folder of its Helm charts: base, istio-control/istio-discovery, gateway.
	Charts string
	// Images are those of istiod and of its proxy, with a stock Envoy, under the names that the
	// charts use with Hub and Tag.
	Images []listed.Image
	// Echo is the application of Istio's own tests.
	Echo listed.Image
}

// Hub and Tag are values of Istio's charts that name its images.
const (
	Hub = "switchyard.dev/istio"
	Tag = version
)

// FindNode returns Istio for a node. It first compiles programs that the cache lacks. root is the
// directory of this repository. The error names the remedy.
func FindNode(ctx context.Context, root string) (n Node, err error) {
	if n.Istio, err = Find(ctx, root); err != nil {
		return Node{}, err
	}
	agents := tools(root, "what istiod puts into pods",
		"istio.io/istio/pilot/cmd/pilot-agent", "istio.io/istio/pkg/test/echo/cmd/client", "istio.io/istio/pkg/test/echo/cmd/server")
	source, err := agents.Source(ctx, "istio.io/istio")
	if err != nil {
		return Node{}, err
	}
	programs, err := agents.Programs(ctx)
	if err != nil {
		return Node{}, err
	}
	stock, err := envoy.Find(ctx)
	if err != nil {
		return Node{}, err
	}
	redirect, err := iptables()
	if err != nil {
		return Node{}, err
	}
	files := filepath.Join(root, "tools", "istio", "files")
	users := []listed.File{file(filepath.Join(files, "passwd"), "/etc/passwd"), file(filepath.Join(files, "group"), "/etc/group")}
	bin := func(name string) listed.File { return file(filepath.Join(programs, name), "/usr/local/bin/"+name) }
	n.Charts = filepath.Join(source, "manifests", "charts")
	certificates := filepath.Join(source, "tests", "testdata", "certs", "dns")
	n.Images = []listed.Image{
		image("pilot", Hub+"/pilot:"+Tag, "1337:1337", "/usr/local/bin/pilot-discovery", users, file(n.Istiod, "/usr/local/bin/pilot-discovery")),
		image("proxyv2", Hub+"/proxyv2:"+Tag, "1337:1337", "/usr/local/bin/pilot-agent", append(users, redirect...), bin("pilot-agent"),
			file(stock, "/usr/local/bin/envoy"),
			file(filepath.Join(source, "tools", "packaging", "common", "envoy_bootstrap.json"), "/var/lib/istio/envoy/envoy_bootstrap_tmpl.json")),
	}
	n.Echo = image("echo", Hub+"/echo:"+Tag, "1338", "/usr/local/bin/server", users, bin("server"), bin("client"),
		file(filepath.Join(certificates, "cert-chain.pem"), "/cert.crt"), file(filepath.Join(certificates, "key.pem"), "/cert.key"))
	return n, nil
}

func image(name, reference, user, program string, shared []listed.File, own ...listed.File) listed.Image {
	return listed.Image{Name: name, Reference: reference, User: user, Entrypoint: []string{program}, Files: append(own, shared...)}
}

// iptables returns Debian's, under each of the names by which pilot-agent looks for it.
func iptables() ([]listed.File, error) {
	const program, extensions = "/usr/sbin/xtables-nft-multi", "/usr/lib/*-linux-gnu/xtables/lib*.so"
	paths, err := filepath.Glob(extensions)
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("this machine lacks iptables, which istiod's init container runs: apt-get install iptables")
	}
	var out []listed.File
	for _, p := range paths {
		out = append(out, file(p, p))
	}
	for _, table := range []string{"iptables", "ip6tables"} {
		for _, suffix := range []string{"", "-save", "-restore", "-nft", "-nft-save", "-nft-restore"} {
			out = append(out, file(program, "/usr/sbin/"+table+suffix))
		}
	}
	return out, nil
}

// file returns a file of this machine at a place in an image.
func file(host, path string) listed.File { return listed.File{Host: host, Path: path} }
