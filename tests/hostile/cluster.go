package hostile

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"

	"switchyard.dev/tests/apiserver"
	"switchyard.dev/xds/identify"
)

// Cluster is an API server with the pods of one Deployment, made as controllers
// would have made them.
type Cluster struct {
	server *apiserver.Server
	client *kubernetes.Clientset
	// Tokens are those of the pods.
	Tokens []string
}

const account = "app"

// StartCluster starts an API server with so many pods. The caller stops it.
func StartCluster(ctx context.Context, pods int) (c *Cluster, err error) {
	server, err := apiserver.Start()
	if err != nil {
		return nil, err
	}
	c = &Cluster{server: server}
	defer func() {
		if err != nil {
			_ = server.Stop() // the error before is the one to return
		}
	}()
	if c.client, err = kubernetes.NewForConfig(server.Config); err != nil {
		return nil, err
	}
	if err := server.Create(ctx, apiserver.Account(customer.Namespace, account)); err != nil {
		return nil, err
	}
	set, err := apiserver.ReplicaSet(ctx, c.client, customer.Namespace, customer.Kind, customer.Name)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		pod, err := apiserver.Pod(ctx, c.client, set, fmt.Sprintf("%s-%d", set.Name, i), account)
		if err != nil {
			return nil, err
		}
		token, err := apiserver.Token(ctx, c.client, customer.Namespace, account, identify.Audience, pod)
		if err != nil {
			return nil, err
		}
		c.Tokens = append(c.Tokens, token)
	}
	return c, nil
}

// Stop ends the API server.
func (c *Cluster) Stop() error { return c.server.Stop() }
