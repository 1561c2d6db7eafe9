package chart

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/eventbus/connect"
	eventbus "switchyard.dev/eventbus/server"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/tunnelholders"
	routeserver "switchyard.dev/routeserver/server"
	injector "switchyard.dev/sidecars/inject"
	"switchyard.dev/tunnels/api"
	"switchyard.dev/tunnels/proxy"
	iocontext "switchyard.dev/workflows/iocontext/server"
)

// pod of a workload, by its name.
func (all objects) podOf(t *testing.T, name string) corev1.PodSpec {
	t.Helper()
	for _, w := range all.workloads(t) {
		if w.object.GetName() == name {
			return w.template.Spec
		}
	}
	t.Fatalf("no workload %s", name)
	return corev1.PodSpec{}
}

// getenv is the environment of a pod's container, as its program sees it.
func getenv(spec corev1.PodSpec) func(string) string {
	return func(name string) string { return env(spec, name) }
}

// listensOn checks that a program's addresses are ports its container declares.
func listensOn(t *testing.T, spec corev1.PodSpec, addresses ...string) {
	t.Helper()
	for _, address := range addresses {
		_, text, err := net.SplitHostPort(address)
		if err != nil {
			t.Errorf("address %q: %v", address, err)
			continue
		}
		port, err := strconv.ParseInt(text, 10, 32)
		if err != nil || !listens(spec, intstr.FromInt32(int32(port))) {
			t.Errorf("the program listens on %s, which its container does not declare", address)
		}
	}
}

// mounted checks that a file the program reads is in a volume of its pod.
func mounted(t *testing.T, spec corev1.PodSpec, file string) {
	t.Helper()
	for _, mount := range spec.Containers[0].VolumeMounts {
		rest, below := strings.CutPrefix(file, strings.TrimSuffix(mount.MountPath, "/")+"/")
		if below && volumeHas(spec, mount.Name, rest) {
			return
		}
	}
	t.Errorf("the program reads %s, which no volume holds", file)
}

// hasCertificate checks that what a program serves with is in the Secret that the manager
// writes for it, and that the kubelet waits for it.
func hasCertificate(t *testing.T, spec corev1.PodSpec, dir, secret string) {
	t.Helper()
	for _, file := range []string{trust.CertFile, trust.KeyFile, trust.BundleFile} {
		mounted(t, spec, dir+"/"+file)
	}
	if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
		return v.Secret != nil && v.Secret.SecretName == secret && v.Secret.Optional == nil
	}) {
		t.Errorf("Secret %s is not mounted, or not waited for", secret)
	}
}

// volumeHas reports whether a volume has a file.
func volumeHas(spec corev1.PodSpec, volume, file string) bool {
	for _, v := range spec.Volumes {
		if v.Name == volume && v.Secret != nil && slices.ContainsFunc(v.Secret.Items, func(k corev1.KeyToPath) bool { return k.Path == file }) {
			return true
		}
		if v.Name != volume || v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.ServiceAccountToken != nil && source.ServiceAccountToken.Path == file {
				return true
			}
			var items []corev1.KeyToPath
			if source.Secret != nil {
				items = source.Secret.Items
			}
			if source.ConfigMap != nil {
				items = source.ConfigMap.Items
			}
			for _, item := range items {
				if item.Path == file {
					return true
				}
			}
		}
	}
	return false
}

func TestTheRouteServerTakesItsArguments(t *testing.T) {
	for name, values := range cases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := mustRender(t, values).podOf(t, "routeserver")
			settings, err := routeserver.ParseSettings(spec.Containers[0].Args, getenv(spec), t.Output())
			if err != nil {
				t.Fatal(err)
			}
			listensOn(t, spec, settings.GRPCAddress, settings.RESTAddress, settings.XDSAddress, settings.MetricsAddress)
			readsItsFiles(t, spec, settings.Bus)
			asksItsPeers(t, mustRender(t, values), settings)
			hasCertificate(t, spec, settings.TLSDir, "routeserver-tls")
			if want := strings.Contains(values, "acceptPlain: true"); settings.AcceptPlain != want {
				t.Errorf("it takes plain connections: %t, and the values say %t", settings.AcceptPlain, want)
			}
		})
	}
}

// asksItsPeers checks that a route server asks the replicas, all of them, on the
// port where each answers.
func asksItsPeers(t *testing.T, all objects, settings routeserver.Settings) {
	t.Helper()
	host, port, err := net.SplitHostPort(settings.Peers)
	if err != nil {
		t.Fatalf("the peers are %q: %v", settings.Peers, err)
	}
	name, _, _ := strings.Cut(host, ".")
	service := as[corev1.Service](t, all.find("Service", namespace, name))
	if host != name+"."+namespace+".svc" || service.Spec.ClusterIP != corev1.ClusterIPNone || !service.Spec.PublishNotReadyAddresses {
		t.Errorf("%s is not the headless Service of all replicas, ready or not", host)
	}
	if len(settings.Own) != 1 || settings.Own[0] != "<status.podIPs>" {
		t.Errorf("it knows itself by %q", settings.Own)
	}
	if !strings.HasSuffix(settings.GRPCAddress, ":"+port) {
		t.Errorf("peers are asked on port %s and answer on %s", port, settings.GRPCAddress)
	}
}

// asksTheRouteServer checks that the manager asks the Service of the route servers,
// on the port that it has for that, whether proxies know a key.
func asksTheRouteServer(t *testing.T, all objects, settings manager.Settings, waits bool) {
	t.Helper()
	service := as[corev1.Service](t, all.find("Service", namespace, "routeserver"))
	want := fmt.Sprintf("%s.%s.svc:%d", service.Name, service.Namespace, service.Spec.Ports[0].Port)
	if settings.RouteServer != want || service.Spec.Ports[0].Name != "grpc" {
		t.Errorf("the manager asks %s, and the route servers answer at %s", settings.RouteServer, want)
	}
	if settings.WaitForProxies != waits {
		t.Errorf("the manager waits for proxies: %v", settings.WaitForProxies)
	}
}

func TestTheManagerTakesItsArguments(t *testing.T) {
	for name, values := range cases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := mustRender(t, values).podOf(t, "signadot-controller-manager")
			settings, err := manager.ParseSettings(spec.Containers[0].Args, getenv(spec), t.Output())
			if err != nil {
				t.Fatal(err)
			}
			listensOn(t, spec, settings.MetricsAddress, settings.HealthAddress, settings.WebhookAddress, settings.RunnersAddress)
			asksTheRouteServer(t, mustRender(t, values), settings, !strings.Contains(values, "waitForProxies: false"))
			readsItsFiles(t, spec, settings.Bus)
			mounted(t, spec, settings.ClusterConfig)
			if !settings.Inject.TLS {
				t.Error("sidecars are not told to speak TLS")
			}
			if !settings.LeaderElect {
				t.Error("replicas do not elect a leader")
			}
		})
	}
}

// readsItsFiles checks that what a program shows to the bus is mounted, and that
// it shows something to our own.
func readsItsFiles(t *testing.T, spec corev1.PodSpec, bus connect.Config) {
	t.Helper()
	for _, file := range []string{bus.TokenFile, bus.CredentialsFile, bus.CAFile} {
		if file != "" {
			mounted(t, spec, file)
		}
	}
	if bus.TokenFile == "" && strings.Contains(bus.URL, "eventbus.signadot.svc") {
		t.Error("no token for our own bus")
	}
}

func TestTheInjectorGetsImagesAndResourcesFromTheValues(t *testing.T) {
	careful := cases(t)["careful"]
	spec := mustRender(t, careful).podOf(t, "signadot-controller-manager")
	settings, err := manager.ParseSettings(spec.Containers[0].Args, getenv(spec), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	redirect, sidecar := settings.Inject.Redirect, settings.Inject.Sidecar
	if redirect.Image != "mirror.example/switchyard/route-sidecar-init:0.1.0" || redirect.PullSecret != "mirror" ||
		redirect.Resources.Limits.Memory().String() != "64Mi" {
		t.Errorf("redirecting container: %+v", redirect)
	}
	if sidecar.Image != "mirror.example/envoy-sidecar:7" || sidecar.PullPolicy != corev1.PullNever ||
		sidecar.Resources.Requests.Cpu().String() != "10m" {
		t.Errorf("sidecar: %+v", sidecar)
	}
	if most := settings.Inject.Bounds.Max; most.Memory().String() != "512Mi" || most.Cpu().String() != "4" {
		t.Errorf("bounds of the annotation: %+v", settings.Inject.Bounds)
	}
}

// The chart's default bounds are those of the program, which a release without the value has.
func TestTheBoundsOfSidecarsHaveOneDefault(t *testing.T) {
	for name, values := range map[string]string{"default": "", "reused values of a release without it": "routeSidecar: {resourceBounds: null}"} {
		spec := mustRender(t, values).podOf(t, "signadot-controller-manager")
		settings, err := manager.ParseSettings(spec.Containers[0].Args, getenv(spec), t.Output())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(new(injector.DefaultBounds()), settings.Inject.Bounds); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestTheEventBusTakesItsArgumentsAndKnowsItsClients(t *testing.T) {
	all := mustRender(t, "")
	spec := all.podOf(t, "eventbus")
	settings, err := eventbus.ParseSettings(spec.Containers[0].Args, getenv(spec), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	listensOn(t, spec, settings.Listen, settings.Health, settings.Metrics)
	hasCertificate(t, spec, settings.TLSDir, "eventbus-tls")
	if mount := spec.Containers[0].VolumeMounts[0]; mount.MountPath != settings.StoreDir || mount.Name != "data" {
		t.Errorf("the log goes to %s, which is not the volume at %s", settings.StoreDir, mount.MountPath)
	}
	for name, want := range map[string]connect.Role{"signadot-controller-manager": connect.Writer, "routeserver": connect.Follower} {
		client := all.podOf(t, name)
		role, err := settings.RoleOf(tokens.Identity{Namespace: namespace, ServiceAccount: client.ServiceAccountName})
		if err != nil || role != want {
			t.Errorf("%s has role %v at the bus, want %v: %v", name, role, want, err)
		}
		for _, volume := range client.Volumes {
			if volume.Name == "eventbus-token" && volume.Projected.Sources[0].ServiceAccountToken.Audience != settings.Audience {
				t.Errorf("%s shows a token for %q, the bus wants %q", name, volume.Projected.Sources[0].ServiceAccountToken.Audience, settings.Audience)
			}
		}
	}
}

func TestTheLogLeavesRoomOnItsVolume(t *testing.T) {
	for size, want := range map[string]int64{"1Gi": 751619276, "500M": 350000000, "1.5Gi": 1127428915} {
		spec := mustRender(t, "eventBus: {persistence: {size: "+size+"}}").podOf(t, "eventbus")
		settings, err := eventbus.ParseSettings(spec.Containers[0].Args, getenv(spec), t.Output())
		if err != nil {
			t.Fatal(err)
		}
		if settings.MaxStore != want {
			t.Errorf("of %s the log may take %d bytes, want %d", size, settings.MaxStore, want)
		}
	}
}

func TestTheIOContextServerTakesItsArguments(t *testing.T) {
	for name, with := range cases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := mustRender(t, with)
			spec := all.podOf(t, "io-context-server")
			settings, err := iocontext.ParseSettings(spec.Containers[0].Args, t.Output())
			if err != nil {
				t.Fatal(err)
			}
			listensOn(t, spec, settings.Address, settings.MetricsAddress)
			hasCertificate(t, spec, settings.TLSDir, "io-context-tls")
			if settings.Namespace != namespace || settings.ValuesNamespace != values || all.find("Namespace", "", values) == nil {
				t.Errorf("the operator is in namespace %s, and values are kept in %s", settings.Namespace, settings.ValuesNamespace)
			}
			manages := all.podOf(t, "signadot-controller-manager")
			said, err := manager.ParseSettings(manages.Containers[0].Args, getenv(manages), t.Output())
			if err != nil {
				t.Fatal(err)
			}
			service := as[corev1.Service](t, all.find("Service", namespace, "io-context-server"))
			want := fmt.Sprintf("https://%s:%d", iocontext.Name, service.Spec.Ports[0].Port)
			if said.ValuesNamespace != values || !said.Workflows.Enabled() || said.Workflows.Settings.Address != want || iocontext.Name != service.Name+"."+namespace+".svc" {
				t.Errorf("pods of units ask %s, and the server is at %s", said.Workflows.Settings.Address, want)
			}
		})
	}
}

func TestTheTunnelAPITakesItsArguments(t *testing.T) {
	for name, values := range cases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := mustRender(t, values)
			spec := all.podOf(t, "tunnel-api")
			settings, err := api.ParseSettings(spec.Containers[0].Args, getenv(spec), t.Output())
			if err != nil {
				t.Fatal(err)
			}
			listensOn(t, spec, settings.Config.Address, settings.Config.MetricsAddress)
			hasCertificate(t, spec, settings.TLSDir, "tunnel-tls")
			if service := as[corev1.Service](t, all.find("Service", namespace, "tunnel-api")); api.Name != service.Name+"."+namespace+".svc" {
				t.Errorf("it is known as %s, and is at %s", api.Name, service.Name)
			}
			if settings.Config.Namespace != namespace || settings.Config.CIDRs != "/etc/tunnel/cidr.yaml" || settings.Version == "" {
				t.Errorf("it is told %+v", settings)
			}
		})
	}
}

// tunnel.config.socks5Loopback decides whether SOCKS5 accepts clients of a port-forward without
// credentials. With auto securityDefaults decides, and with auto there too the version of the defaults
// that the installation has recorded, which the kubelet reads.
func TestSOCKS5OnLoopbackFollowsTheValues(t *testing.T) {
	for _, c := range []struct {
		loopback, defaults string
		earlier, current   bool // whether it is open, by the recorded version
	}{
		{"auto", "auto", true, false},
		{"auto", "earlier", true, true},
		{"auto", "current", false, false},
		{"credentials", "auto", false, false},
		{"credentials", "earlier", false, false},
		{"anonymous", "auto", true, true},
		{"anonymous", "current", true, true},
	} {
		t.Run(c.loopback+" with "+c.defaults, func(t *testing.T) {
			t.Parallel()
			spec := mustRender(t, "securityDefaults: "+c.defaults+"\ntunnel: {config: {socks5Loopback: "+c.loopback+"}}").podOf(t, "tunnel-proxy")
			for recorded, open := range map[string]bool{"1": c.earlier, "2": c.current} {
				settings, err := proxy.ParseSettings(spec.Containers[0].Args, func(name string) string {
					for _, v := range spec.Containers[0].Env {
						if v.Name == name && v.ValueFrom != nil && v.ValueFrom.ConfigMapKeyRef != nil {
							return recorded
						}
					}
					return env(spec, name)
				}, t.Output())
				if err != nil || settings.Config.OpenLoopback != open || settings.Config.OpenSOCKS {
					t.Errorf("in an installation with defaults %s it is open: %t, %v", recorded, settings.Config.OpenLoopback, err)
				}
			}
		})
	}
}

func TestTheTunnelProxyTakesItsArguments(t *testing.T) {
	for name, values := range cases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := mustRender(t, values)
			spec := all.podOf(t, "tunnel-proxy")
			settings, err := proxy.ParseSettings(spec.Containers[0].Args, getenv(spec), t.Output())
			if err != nil {
				t.Fatal(err)
			}
			c := settings.Config
			addresses := []string{c.SOCKSAddress, c.ControlAddress, c.MetricsAddress}
			if !c.DisableSSH {
				addresses = append(addresses, c.SSHAddress)
			}
			if !c.DisableCarrier {
				addresses = append(addresses, c.CarrierAddress)
			}
			listensOn(t, spec, addresses...)
			if off := strings.Contains(values, "disableXAP: true"); c.DisableCarrier != off {
				t.Errorf("its own protocol is off: %t, and the values say %t", c.DisableCarrier, off)
			}
			hasCertificate(t, spec, settings.TLSDir, "tunnel-tls")
			service := as[corev1.Service](t, all.find("Service", namespace, "tunnel-proxy"))
			account := all.podOf(t, "signadot-controller-manager").ServiceAccountName
			if proxy.Name != service.Name+"."+namespace+".svc" || c.Manager != namespace+"/"+account || settings.Namespace != namespace || c.Pod != "<metadata.name>" {
				t.Errorf("it is told %+v", settings)
			}
			if mounts := spec.Containers[0].VolumeMounts; !slices.ContainsFunc(mounts, func(m corev1.VolumeMount) bool { return m.MountPath == settings.JournalDir && !m.ReadOnly }) {
				t.Errorf("the journal goes to %s, which is no volume that it may write", settings.JournalDir)
			}
			recordsGoToTheBus(t, all, settings, strings.Contains(values, "stream: {enabled: true"))
		})
	}
}

// recordsGoToTheBus fails unless the bus takes records of connections where the values say so.
func recordsGoToTheBus(t *testing.T, all objects, settings proxy.Settings, on bool) {
	t.Helper()
	if settings.Stream != on {
		t.Errorf("records go to the bus: %t, and the values say %t", settings.Stream, on)
	}
	if !on {
		return
	}
	bus, err := eventbus.ParseSettings(all.podOf(t, "eventbus").Containers[0].Args, getenv(all.podOf(t, "eventbus")), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	spec := all.podOf(t, "tunnel-proxy")
	if !slices.Contains(bus.Recorders, namespace+"/"+spec.ServiceAccountName) || bus.Records.Bytes == 0 || !settings.Bus.TLSWithOwn() {
		t.Errorf("the proxy goes to %s as %s, and the bus is told %+v", settings.Bus.URL, spec.ServiceAccountName, bus)
	}
	if mounts := spec.Containers[0].VolumeMounts; !slices.ContainsFunc(mounts, func(m corev1.VolumeMount) bool { return m.MountPath == filepath.Dir(settings.Bus.TokenFile) }) {
		t.Errorf("nothing is mounted where the token is, %s", settings.Bus.TokenFile)
	}
}

// The manager shows tunnel proxies a token for them, and asks where they answer.
func TestTheManagerAsksTunnelProxies(t *testing.T) {
	for values, want := range map[string]bool{"": true, "tunnel: {enabled: false}": false} {
		all := mustRender(t, values)
		spec := all.podOf(t, "signadot-controller-manager")
		settings, err := manager.ParseSettings(spec.Containers[0].Args, getenv(spec), t.Output())
		if err != nil {
			t.Fatal(err)
		}
		if !want {
			if settings.TunnelProxyToken != "" || all.find("Deployment", namespace, "tunnel-proxy") != nil || all.find("Secret", namespace, "tunnel-tls") != nil {
				t.Errorf("there are no tunnel proxies, and the manager shows them %q", settings.TunnelProxyToken)
			}
			continue
		}
		if settings.TunnelProxyToken != tunnelholders.TokenFile {
			t.Errorf("the token is %q", settings.TunnelProxyToken)
		}
		mounted(t, spec, settings.TunnelProxyToken)
		proxies := all.podOf(t, tunnelholders.Name)
		listensOn(t, proxies, fmt.Sprintf(":%d", tunnelholders.ControlPort))
		hasCertificate(t, proxies, "/var/run/secrets/tls", "tunnel-tls")
	}
}
