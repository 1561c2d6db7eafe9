package control

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sigs.k8s.io/yaml"

	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/conformance/crd"
	"switchyard.dev/tests/program"
	"switchyard.dev/tests/sidecar"
)

// Namespace of the operator, and the service account of its manager.
const (
	System         = system
	ManagerAccount = managerAccount
)

// ManagerProgram is the package of the controller manager.
const ManagerProgram = "reconcilers/cmd/controller-manager"

// Part is a program of the operator, as in a container of a pod.
type Part struct {
	// Program is its package, which Isolate has built, and Account its service account.
	Program, Account string
	// Name is that of the file that it logs to. Default: that of the program.
	Name string
	Args []string
	// Env are variables beside those of the service account.
	Env []string
	// Within is where it is started, as in program.Start.
	Within func(func() error) error
	// Out takes its standard output. Default: the file that it logs to.
	Out *os.File
}

// Run starts a program as in a pod of its service account.
func (p *Plane) Run(part Part) (*program.Program, error) {
	environment, err := p.cluster.account(p.ctx, part.Account)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.WithoutCancel(p.ctx), os.Args[0], append([]string{sidecar.Built(part.Program)}, part.Args...)...)
	cmd.Env = append(slices.Clone(environment), part.Env...)
	if part.Out != nil {
		cmd.Stdout = part.Out
	}
	name := part.Name
	if name == "" {
		name = filepath.Base(part.Program)
	}
	return program.Start(p.dir, name, cmd, part.Within)
}

// StartManaged starts a control plane with a real controller manager instead of a publisher: its
// facts come from objects. It has the rights that the chart grants, as tunnel-api and the tunnel
// proxies have, and keeps the certificates of all. Arguments are further ones.
func StartManaged(ctx context.Context, dir, logs string, args ...string) (*Plane, error) {
	return start(ctx, dir, logs, &Part{Program: ManagerProgram, Account: managerAccount, Args: args}, nil)
}

// Server is the API server.
func (p *Plane) Server() *apiserver.Server { return p.cluster.server }

// Kube reaches it as an administrator.
func (p *Plane) Kube() kubernetes.Interface { return p.cluster.kube }

// Manager is the process of the manager.
func (p *Plane) Manager() *program.Program { return p.managed }

// startWriter starts what writes the log.
func (p *Plane) startWriter() error {
	if p.manager == nil {
		return p.startPublisher()
	}
	if err := p.install(); err != nil {
		return err
	}
	bus, err := p.cluster.token(p.ctx, system, managerAccount, busAudience, nil)
	if err != nil {
		return err
	}
	proxies, err := p.cluster.token(p.ctx, system, managerAccount, "tunnel-proxy", nil)
	if err != nil {
		return err
	}
	config := filepath.Join(p.dir, "cluster_config.yaml")
	if err := os.WriteFile(config, []byte("{}\n"), 0o600); err != nil {
		return err
	}
	p.manager.Args = append([]string{
		"--leader-elect", "--config", config, "--eventbus-url", "nats://" + busAddress, "--eventbus-token-file", bus,
		"--tunnel-proxy-token-file", proxies, "--wait-for-proxies=false", "--metrics-bind-address", ManagerMetrics, "--health-probe-bind-address", managerHealth,
	}, p.manager.Args...)
	// Sidecars connect to the route server plain here; tunnels do not.
	p.manager.Env = []string{"POD_NAME=manager", "ROUTESERVER_TLS=true", "SIDECAR_INIT_IMAGE=none", "ROUTE_SIDECAR_IMAGE=none"}
	return p.StartManager()
}

// Addresses of metrics.
const (
	ManagerMetrics = "127.0.0.1:8080"
	managerHealth  = "127.0.0.1:8082" // the bus has 8081
	BusMetrics     = busMetrics
	RoutesMetrics  = routesMetrics
)

// StartManager starts the manager, again when it has ended.
func (p *Plane) StartManager() (err error) {
	p.managed, err = p.Run(*p.manager)
	return err
}

// installed are the kinds of the chart's objects that programs without a node need.
var installed = []string{"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Secret"}

// install makes accounts and rights, and the Secrets in which certificates are kept, as the
// chart does.
func (p *Plane) install() error {
	c, err := p.cluster.server.Client()
	if err != nil {
		return err
	}
	rules, err := managerRules()
	if err != nil {
		return err
	}
	// The binding of the chart names it; its golden files do not contain generated files.
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "signadot-manager-role"}, Rules: rules}
	if err := c.Create(p.ctx, role); err != nil {
		return err
	}
	return apiserver.EachFromChart("default", func(o *unstructured.Unstructured) error {
		if !slices.Contains(installed, o.GetKind()) || o.GetAnnotations()["helm.sh/hook"] != "" {
			return nil
		}
		if err := c.Create(p.ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	})
}

// Address is where the API server is, as host:port.
func (p *Plane) Address() (string, error) {
	address, _, err := rest.DefaultServerUrlFor(p.cluster.server.Config)
	if err != nil {
		return "", err
	}
	return address.Host, nil
}

// managerRules are the rights of the manager.
func managerRules() (rules []rbacv1.PolicyRule, err error) {
	root, err := crd.Root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "charts/operator/files/manager-rules.yaml"))
	if err == nil {
		err = yaml.UnmarshalStrict(text, &rules)
	}
	return append(rules, rbacv1.PolicyRule{APIGroups: []string{"admissionregistration.k8s.io"},
		Resources: []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}, Verbs: []string{"get", "patch"}}), err
}
