package reach

import (
	"cmp"

	"k8s.io/client-go/tools/clientcmd"
)

// ContextName returns the name of the context of the kubeconfig that is used; empty if there is none.
func (c Cluster) ContextName() string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	config, err := rules.Load()
	if err != nil {
		return c.Context
	}
	return cmp.Or(c.Context, config.CurrentContext)
}
