package cluster

import (
	"time"

	"switchyard.dev/tools/cluster/internal/layout"
	"switchyard.dev/tools/cluster/internal/node"
	"switchyard.dev/tools/cluster/internal/pki"
)

// makeKeys makes every key, certificate and kubeconfig that is not there yet.
func makeKeys(n layout.Node, now time.Time) error {
	dir := n.Dir("pki")
	ca, err := pki.Open(dir, "ca", now)
	if err != nil {
		return err
	}
	front, err := pki.Open(dir, "front-proxy-ca", now)
	if err != nil {
		return err
	}
	if err := front.Issue(pki.Leaf{File: "front-proxy", User: "front-proxy"}, now); err != nil {
		return err
	}
	for _, leaf := range node.Servers(n) {
		if err := ca.Issue(leaf, now); err != nil {
			return err
		}
	}
	for _, leaf := range node.Clients(n) {
		if err := ca.Issue(leaf, now); err != nil {
			return err
		}
		if err := pki.Kubeconfig(n.Dir(leaf.File+".kubeconfig"), n.APIServer(), n.Name, ca, leaf); err != nil {
			return err
		}
	}
	return pki.SigningKey(dir, "service-accounts")
}
