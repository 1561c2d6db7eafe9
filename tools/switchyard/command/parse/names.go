package parse

import (
	"strings"

	"github.com/spf13/cobra"

	crdv1 "switchyard.dev/protos/crd/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/tools/switchyard/command/exit"
)

// baselineKind returns the kind of baseline for a name on the command line.
func baselineKind(text string) (string, bool) {
	switch strings.ToLower(text) {
	case "deployment", "deployments", "deploy":
		return "Deployment", true
	case "argorollout", "rollout", "rollouts":
		return "ArgoRollout", true
	}
	return "", false
}

// memberKind returns the kind of member for a name on the command line.
func memberKind(text string) (string, bool) {
	kind, ok := crdv1.KindCalled(text)
	return kind.Name, ok && crdv1.IsMember(kind.Name)
}

// object reads KIND/NAMESPACE/NAME; a kind that is not known stays as it is
// written.
func object(text string, called func(string) (string, bool)) (kind, namespace, name string, ok bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return "", "", "", false
	}
	if known, ok := called(parts[0]); ok {
		parts[0] = known
	}
	return parts[0], parts[1], parts[2], true
}

// Workload reads the KIND/NAMESPACE/NAME of a baseline.
func Workload(text string) (*routingv1.Workload, bool) {
	kind, namespace, name, ok := object(text, baselineKind)
	return &routingv1.Workload{Kind: kind, Namespace: namespace, Name: name}, ok
}

// Member reads the KIND/NAMESPACE/NAME of a member.
func Member(text string) (*routingv1.Member, bool) {
	kind, namespace, name, ok := object(text, memberKind)
	return &routingv1.Member{Kind: kind, Namespace: namespace, Name: name}, ok
}

// Filter adds the flags that narrow rules, and returns what reads them.
func Filter(c *cobra.Command) func() (*routingv1.Filter, error) {
	f := &routingv1.Filter{}
	var workload string
	flags := c.Flags()
	flags.StringVar(&workload, "workload", "", "only this baseline, `KIND/NAMESPACE/NAME`")
	flags.StringVarP(&f.Namespace, "namespace", "n", "", "only baselines in this namespace")
	flags.StringVar(&f.RoutingKey, "key", "", "only this routing key")
	flags.StringVar(&f.Sandbox, "sandbox", "", "only rules that route to this sandbox")
	return func() (*routingv1.Filter, error) {
		if workload == "" {
			return f, nil
		}
		w, ok := Workload(workload)
		if !ok || f.Namespace != "" && f.Namespace != w.GetNamespace() {
			return nil, exit.Usage.Errorf("--workload is KIND/NAMESPACE/NAME, for example deployment/shop/customer (and --namespace, if given, the same namespace), not %q", workload)
		}
		f.Kind, f.Namespace, f.Name = w.GetKind(), w.GetNamespace(), w.GetName()
		return f, nil
	}
}
