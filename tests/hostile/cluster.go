package hostile

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			_ = server.Stop() // the error before is the one to tell
		}
	}()
	if c.client, err = kubernetes.NewForConfig(server.Config); err != nil {
		return nil, err
	}
	_, err = c.client.CoreV1().ServiceAccounts(customer.Namespace).Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	set, err := c.client.AppsV1().ReplicaSets(customer.Namespace).Create(ctx, replicaSet(), metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	for i := range pods {
		token, err := c.pod(ctx, fmt.Sprintf("%s-%d", set.Name, i), set)
		if err != nil {
			return nil, err
		}
		c.Tokens = append(c.Tokens, token)
	}
	return c, nil
}

// Stop ends the API server.
func (c *Cluster) Stop() error { return c.server.Stop() }

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": customer.Name}},
		Spec: corev1.PodSpec{
			ServiceAccountName: account, Containers: []corev1.Container{{Name: "app", Image: "app"}},
		},
	}
}

// replicaSet is that of the Deployment.
func replicaSet() *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: customer.Name + "-5f6d", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "Deployment", Name: customer.Name, UID: "uid", Controller: new(true),
		}}},
		Spec: appsv1.ReplicaSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: template().Labels}, Template: template(),
		},
	}
}

// pod makes a pod and gives its token.
func (c *Cluster) pod(ctx context.Context, name string, set *appsv1.ReplicaSet) (string, error) {
	pod, err := c.client.CoreV1().Pods(customer.Namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set.Name, UID: set.UID, Controller: new(true),
		}}},
		Spec: template().Spec,
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	request, err := c.client.CoreV1().ServiceAccounts(customer.Namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			Audiences: []string{identify.Audience},
			BoundObjectRef: &authenticationv1.BoundObjectReference{
				APIVersion: "v1", Kind: "Pod", Name: name, UID: pod.UID,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return request.Status.Token, nil
}
