// Command coredns is CoreDNS with only the plugins that one small node needs.
//
// CoreDNS is made to be compiled with a chosen list of plugins. The full list
// brings the client libraries of four clouds and of two tracing vendors and
// takes longer to compile than the container runtime; a node that cannot reach
// any of them has no use for it. The plugins keep their usual names and order,
// so that an ordinary Corefile works.
package main

import (
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"

	"github.com/coredns/coredns/coremain"
)

func main() { coremain.Run() }
