package deliveries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/agent"
	"switchyard.dev/eventbus/trust"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tunnels/controlkeys"
)

// Organisation is that of all objects here.
const Organisation = "acme"

// The operator's namespace, and the user of its agent, as the policies of the chart have them.
const (
	system    = "signadot"
	agentUser = "system:serviceaccount:signadot:signadot-agent"
)

// restrictions are the objects of the chart that restrict the agent and others: policies, their bindings, and the namespace of Smart Tests.
var restrictions = []string{"signadot-agent-generations", "signadot-smart-tests", crdv1.SmartTestsNamespace}

// Prepare grants the agent of a cluster its rights, restricts it by the policies of the chart, and grants users of
// the organisation the rights to sandboxes and route groups.
func Prepare(ctx context.Context, api *apiserver.Server) error {
	c, err := api.Client()
	if err != nil {
		return err
	}
	rules, err := apiserver.AgentRules()
	if err != nil {
		return err
	}
	all := slices.Concat(slices.Collect(maps.Values(rules))...)
	users := []rbacv1.PolicyRule{{APIGroups: []string{crdv1.Group}, Resources: []string{"signadotsandboxes", "signadotroutegroups", "resources", "jobs", "jobrunnergroups"}, Verbs: []string{"*"}}}
	objects := []client.Object{
		apiserver.Namespace(system),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: controlkeys.ConfigMap}},
	}
	objects = append(objects, granted("agent", rbacv1.UserKind, agentUser, all)...)
	objects = append(objects, granted("users", rbacv1.GroupKind, crdv1.ControlPlanePrefix+Organisation, users)...)
	err = apiserver.EachFromChart("agent", func(o *unstructured.Unstructured) error {
		if slices.Contains(restrictions, o.GetName()) {
			objects = append(objects, o)
		}
		return nil
	})
	for _, o := range objects {
		if one := c.Create(ctx, o); !apierrors.IsAlreadyExists(one) {
			err = errors.Join(err, one)
		}
	}
	return err
}

func granted(name, kind, to string, rules []rbacv1.PolicyRule) []client.Object {
	meta := metav1.ObjectMeta{Name: "deliveries-" + name}
	return []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: kind, Name: to}},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		},
	}
}

// Agent is the agent of a cluster.
type Agent struct {
	// Access reaches the API server as an administrator.
	Access *rest.Config
	// Dir has the certificate of the replicas (Files), Address is where they are reached, and Token is the cluster token.
	Dir, Address, Token string
	// Log takes what the agent logs.
	Log io.Writer
	// Change changes the settings. Default: they stay.
	Change func(*agent.Settings)
}

// Run runs the agent until ctx ends.
func (a Agent) Run(ctx context.Context) error {
	dir, err := os.MkdirTemp(a.Dir, "agent-")
	if err != nil {
		return err
	}
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte(a.Token), 0o600); err != nil {
		return err
	}
	settings, err := agent.ParseSettings([]string{
		"--control-plane", a.Address, "--ca-file", filepath.Join(a.Dir, trust.BundleFile), "--token-file", token, "--journal-dir", dir,
		"--health-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0", "--namespace", system, "--cluster-domain", "cluster.local",
	}, io.Discard)
	if err != nil {
		return err
	}
	if a.Change != nil {
		a.Change(&settings)
	}
	access := rest.CopyConfig(a.Access)
	access.QPS, access.Impersonate = -1, rest.ImpersonationConfig{UserName: agentUser, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	main, err := settings.Open(access, a.Log, slog.New(slog.NewTextHandler(a.Log, nil)))
	if err != nil {
		return fmt.Errorf("open the agent: %w", err)
	}
	return main.Run(ctx)
}
