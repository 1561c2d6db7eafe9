package control

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/apiserver"
)

// Namespace is where the baselines are; system is where the control plane is.
const (
	Namespace = "shop"
	system    = "signadot"
)

// The service accounts of the control plane, as the chart names them.
const (
	busAccount     = "eventbus"
	routesAccount  = "routeserver"
	managerAccount = "signadot-controller-manager"
)

// cluster is a real API server with the objects that programs are identified by.
type cluster struct {
	server *apiserver.Server
	kube   kubernetes.Interface
	dir    string
	sets   map[table.Workload]*appsv1.ReplicaSet

	mu sync.Mutex
	// accounts are the environments of programs that account has made.
	accounts map[string][]string
}

func startCluster(ctx context.Context, dir string) (*cluster, error) {
	server, err := apiserver.Start()
	if err != nil {
		return nil, err
	}
	c := &cluster{server: server, dir: dir, sets: map[table.Workload]*appsv1.ReplicaSet{}, accounts: map[string][]string{}}
	if c.kube, err = kubernetes.NewForConfig(server.Config); err == nil {
		err = c.populate(ctx)
	}
	if err != nil {
		_ = server.Stop() // what went wrong before is what counts
		return nil, err
	}
	return c, nil
}

func (c *cluster) populate(ctx context.Context) error {
	// What the controllers of a control plane would put together for "view".
	reader := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "endure"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", "apps", "discovery.k8s.io"}, Resources: []string{"pods", "services", "replicasets", "endpointslices"}, Verbs: []string{"get", "list", "watch"}},
	}}
	objects := []client.Object{
		apiserver.Namespace(Namespace), apiserver.Namespace(system), apiserver.Account(Namespace, "default"),
		apiserver.Account(system, busAccount), apiserver.Account(system, routesAccount), apiserver.Account(system, managerAccount), reader,
	}
	for _, role := range []string{"system:auth-delegator", reader.Name} {
		objects = append(objects, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "endure-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{
				{Kind: rbacv1.ServiceAccountKind, Namespace: system, Name: busAccount},
				{Kind: rbacv1.ServiceAccountKind, Namespace: system, Name: routesAccount},
			},
		})
	}
	return c.server.Create(ctx, objects...)
}

// token requests a token as a kubelet does, and returns the path of its file. No audience means the
// API server itself.
func (c *cluster) token(ctx context.Context, in, account, audience string, pod *corev1.Pod) (string, error) {
	name := account
	if pod != nil {
		name = pod.Name
	}
	token, err := apiserver.Token(ctx, c.kube, in, account, audience, pod)
	if err != nil {
		return "", err
	}
	file := filepath.Join(c.dir, "token-"+name+"-"+audience)
	return file, os.WriteFile(file, []byte(token), 0o600)
}

// account writes the files that a pod of the service account has, and returns the
// environment with which enterCluster mounts them.
func (c *cluster) account(ctx context.Context, name string) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if made := c.accounts[name]; made != nil {
		return made, nil // As for a container that is restarted: no request is needed.
	}
	dir := filepath.Join(c.dir, "account-"+name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	token, err := c.token(ctx, system, name, "", nil)
	if err != nil {
		return nil, err
	}
	if err := os.Rename(token, filepath.Join(dir, "token")); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), c.server.Config.CAData, 0o600); err != nil {
		return nil, err
	}
	host := c.server.Config.Host
	if u, err := url.Parse(host); err == nil && u.Host != "" {
		host = u.Host
	}
	at, err := url.Parse("https://" + host)
	if err != nil {
		return nil, err
	}
	c.accounts[name] = []string{
		roleVariable + "=" + roleInCluster, accountVariable + "=" + dir,
		"KUBERNETES_SERVICE_HOST=" + at.Hostname(), "KUBERNETES_SERVICE_PORT=" + at.Port(),
	}
	return c.accounts[name], nil
}

// Pod makes a running pod of a workload, owned as controllers own it, and returns
// the file with its sidecar's token.
func (p *Plane) Pod(ctx context.Context, w table.Workload, name, ip string) (token string, err error) {
	c := p.cluster
	pod, err := apiserver.Pod(ctx, c.kube, c.sets[w], name, "default")
	if err != nil {
		return "", err
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, ContainerStatuses: []corev1.ContainerStatus{
		{Name: "main", Ready: true}, {Name: devmesh.ContainerName, Ready: true},
	}}
	if _, err := c.kube.CoreV1().Pods(Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return "", err
	}
	return c.token(ctx, Namespace, "default", devmesh.TokenAudience, pod)
}

// ReplicaSet makes the one of a workload.
func (p *Plane) ReplicaSet(ctx context.Context, w table.Workload) (err error) {
	p.cluster.sets[w], err = apiserver.ReplicaSet(ctx, p.cluster.kube, Namespace, w.Kind, w.Name)
	return err
}
