// Package catalog lists the images and their content in one table. A new image needs an entry here
// and a Dockerfile.
package catalog

// Image describes the content of one image.
type Image struct {
	// Name is its name in the registry, and that of its folder and archive.
	Name string
	// Title is a short description for users.
	Title string
	// Module is the folder of the Go module the program is built in, from the
	// root of the repository.
	Module string
	// Program is the main package to build: an import path, or a path within
	// Module.
	Program string
	// Path is where the program stands in the image; it is the entry point.
	Path string
	// Beside are further programs of the same module, by where they stand in the image.
	Beside map[string]string
	// Envoy adds the Envoy binary and the libraries it needs.
	Envoy bool
	// StopSignal is what ends it in place of SIGTERM, when not empty.
	StopSignal string
	// Tests: only tests on a real cluster need it, the demo does not.
	Tests bool
}

// User is the user and group that images run as unless the pod sets others: an unprivileged one,
// never root.
const User = "65532:65532"

// EnvoyPath is where images with Envoy have it.
const EnvoyPath = "/envoy"

// Images returns the table.
func Images() []Image {
	return []Image{
		{Name: "controller-manager", Title: "Switchyard: controllers and injecting webhook",
			Module: ".", Program: "./reconcilers/cmd/controller-manager", Path: "/manager"},
		{Name: "eventbus", Title: "Switchyard: the log of routing facts",
			Module: ".", Program: "./eventbus/cmd/eventbus", Path: "/eventbus"},
		{Name: "route-server", Title: "Switchyard: routes API and xDS",
			Module: ".", Program: "./routeserver/cmd/routeserver", Path: "/routeserver"},
		{Name: "route-sidecar-init", Title: "Switchyard: turns a pod's inbound connections to its sidecar",
			Module: ".", Program: "./sidecars/cmd/redirect", Path: "/redirect"},
		{Name: "route-sidecar", Title: "Switchyard: DevMesh sidecar",
			Module: ".", Program: "./sidecars/cmd/devmesh", Path: "/devmesh", Envoy: true},
		{Name: "io-context-server", Title: "Switchyard: what steps of resources exchange",
			Module: ".", Program: "./workflows/cmd/io-context-server", Path: "/io-context-server"},
		{Name: "io-init", Title: "Switchyard: gives the pod of a step its inputs",
			Module: ".", Program: "./workflows/cmd/io-init", Path: "/io-init",
			Beside: map[string]string{"/io-run": "./workflows/cmd/io-run"}},
		{Name: "io-sidecar", Title: "Switchyard: has the outputs of a step kept",
			Module: ".", Program: "./workflows/cmd/io-sidecar", Path: "/io-sidecar"},
		{Name: "job-executor-init", Title: "Switchyard: gives a runner's pod the program that runs its jobs",
			Module: ".", Program: "./workflows/cmd/job-executor", Path: "/job-executor"},
		{Name: "job-executor-proxy", Title: "Switchyard: serves the jobs of a runner's pod, and stores their output",
			Module: ".", Program: "./workflows/cmd/job-executor-proxy", Path: "/job-executor-proxy"},
		{Name: "smart-test", Title: "Switchyard: runs Smart Tests",
			Module: ".", Program: "./workflows/cmd/smart-test", Path: "/smart-test"},
		{Name: "traffic-manager", Title: "Switchyard: keeps and serves the requests that forks record",
			Module: ".", Program: "./sidecars/cmd/traffic-manager", Path: "/traffic-manager"},
		{Name: "traffic-sidecar", Title: "Switchyard: records the requests of a fork",
			Module: ".", Program: "./sidecars/cmd/traffic-sidecar", Path: "/traffic-sidecar"},
		{Name: "tunnel-api", Title: "Switchyard: what workstations ask about the cluster",
			Module: ".", Program: "./tunnels/cmd/tunnel-api", Path: "/tunnel-api"},
		{Name: "tunnel-proxy", Title: "Switchyard: where workstations connect",
			Module: ".", Program: "./tunnels/cmd/tunnel-proxy", Path: "/tunnel-proxy"},
		{Name: "agent", Title: "Switchyard: connects the cluster to a control plane",
			Module: ".", Program: "./controlplane-link/cmd/agent", Path: "/agent"},
		{Name: "controlplane", Title: "Switchyard: the control plane of several clusters",
			Module: ".", Program: "./controlplane-link/cmd/controlplane", Path: "/controlplane"},
		{Name: "hotrod", Title: "HotROD, the example application of the Jaeger project",
			Module: "tools/image/hotrod", Program: "github.com/jaegertracing/jaeger/examples/hotrod", Path: "/hotrod"},
		{Name: "demo-customer", Title: "Switchyard demo: another build of HotROD's customer service",
			Module: ".", Program: "./tools/demo/cmd/customer", Path: "/customer"},
		{Name: "teller", Title: "What tests on a real cluster fork: it says who answers where",
			Module: ".", Program: "./tests/e2e/cmd/teller", Path: "/teller", Tests: true},
		{Name: "consumer", Title: "What tests on a real cluster fork: a consumer of messages without a Service",
			Module: ".", Program: "./tests/e2e/cmd/consumer", Path: "/consumer", Tests: true},
		{Name: "broker", Title: "The broker of the tests on a real cluster: nats-server, from its module",
			Module: ".", Program: "github.com/nats-io/nats-server/v2", Path: "/broker", Tests: true},
		{Name: "podinfo", Title: "An application of the tests on a real cluster: podinfo, from its module",
			Module: "tools/apps/pinned", Program: "github.com/stefanprodan/podinfo/cmd/podinfo", Path: "/podinfo", Tests: true},
		{Name: "podinfo-stops", Title: "podinfo that stops at once",
			Module: "tools/apps/pinned", Program: "github.com/stefanprodan/podinfo/cmd/podinfo", Path: "/podinfo", StopSignal: "SIGKILL", Tests: true},
	}
}
