package tunnels

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/trust"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/process"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/api"
	tunnelproxy "switchyard.dev/tunnels/proxy"
)

// developer is a user with separate permissions, and a workstation.
type developer struct {
	name    string
	client  client.Client
	station *Station
	// slots are the names of sandboxes that may be, and of the local servers for them.
	slots []string
}

// newDeveloper creates one with write access to the given number of sandboxes, and connects the
// workstation.
func (w *world) newDeveloper(name string, sandboxes int) (*developer, error) {
	d := &developer{name: name}
	for i := range sandboxes {
		d.slots = append(d.slots, fmt.Sprintf("%s-%d", name, i))
	}
	if err := apiserver.Create(w.ctx, w.admin, d.rights()...); err != nil {
		return nil, err
	}
	token, err := apiserver.Token(w.ctx, w.control.Kube(), namespace, name, "", nil)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := crdv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	server := w.control.Server().Config
	d.client, err = client.New(&rest.Config{Host: server.Host, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: server.CAData}, QPS: -1},
		client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	d.station, err = w.newStation(d, token)
	return d, err
}

// rights returns the objects that allow a developer to create sandboxes, list all of them, and
// update those with the developer's names.
func (d *developer) rights() []client.Object {
	name := "developer-" + d.name
	sandboxes := []string{"signadotsandboxes"}
	return []client.Object{
		apiserver.Account(namespace, d.name),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{crdv1.Group}, Resources: sandboxes, Verbs: []string{"create", "get", "list", "watch"}},
			{APIGroups: []string{crdv1.Group}, Resources: sandboxes, ResourceNames: d.slots, Verbs: []string{"update", "patch", "delete"}},
			{APIGroups: []string{crdv1.Group}, Resources: []string{"signadotexternalworkloads"}, Verbs: []string{"get", "list", "watch"}},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: d.name}}},
	}
}

// newStation starts a developer's workstation.
func (w *world) newStation(d *developer, token string) (*Station, error) {
	bundle, err := os.ReadFile(filepath.Join(w.tls, trust.BundleFile))
	if err != nil {
		return nil, err
	}
	o := Orders{API: w.apiPod.IP.String() + ":9070", ProxyName: tunnelproxy.Name, APIName: api.Name, Bundle: bundle, Token: token,
		Machine: d.name, Servers: d.slots, Log: filepath.Join(w.logs, "workstation-"+d.name+".log")}
	for _, p := range w.proxies {
		o.Proxies = append(o.Proxies, p.carrier())
	}
	s := &Station{}
	if s.process, err = process.Start(roleStation); err != nil {
		return nil, err
	}
	w.stations = append(w.stations, s)
	return s, s.process.Call("Open", o, &s.Ports)
}

// look asks how the workstation is.
func (s *Station) look() (out Standing, err error) {
	err = s.process.Call("Look", struct{}{}, &out)
	return out, err
}

// connect has the workstation connect, or disconnect.
func (s *Station) connect(on bool) error { return s.process.Call("Connect", on, nil) }

// sandbox is one of a developer's, with a routing key.
func (d *developer) sandbox(slot int, key string) *crdv1.SignadotSandbox {
	s := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: d.slots[slot], Annotations: map[string]string{api.AnnotationMachine: d.name}}}
	s.Spec.ID = key
	s.Spec.ExternalWorkloads = []crdv1.SandboxExternalWorkload{{
		Name:     "local",
		Baseline: &crdv1.ExternalBaseline{ObjectRef: crdv1.ObjectRef{APIVersion: "apps/v1", Kind: cart.Kind, Namespace: cart.Namespace, Name: cart.Name}},
		Tunnel: &crdv1.TunnelSpec{BaselineToLocals: []crdv1.TunnelPort{
			{BaselinePort: workloadPort, LocalAddress: fmt.Sprintf("localhost:%d", d.station.Ports[slot])}}},
	}}
	return s
}

// answers waits until requests with a key reach a local server.
func (w *world) answers(key, name string) error {
	return wait.Until(w.ctx, patience, "requests with key "+key+" reach "+name, func() error {
		who, err := w.ask(w.ctx, key)
		if err == nil && who != name {
			err = errors.New("it is answered by " + who)
		}
		return err
	})
}
