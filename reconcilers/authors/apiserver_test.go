package authors_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"switchyard.dev/eventbus/memory"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/conformance/crd"
	"switchyard.dev/tests/wait"
)

// ownAccount is the manager's.
const ownAccount = "system:serviceaccount:signadot:signadot-controller-manager"

// cluster is a real API server with the manager at work on it, whose webhook is registered
// as the chart does it.
type cluster struct {
	t      *testing.T
	rest   *rest.Config
	scheme *runtime.Scheme
	admin  client.Client
	// clients are those of the users, by their names.
	clients map[string]client.Client
	// port is that of the webhook.
	port int32
}

// newCluster starts one, without a manager.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	server, err := apiserver.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme, err := manager.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, add := range []func(*runtime.Scheme) error{registrationv1.AddToScheme, rbacv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := &cluster{t: t, rest: server.Config, scheme: scheme, clients: map[string]client.Client{}}
	c.admin = c.as("admin", "system:masters")
	for _, name := range []string{"signadot", "shop", "pay"} {
		c.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for _, text := range []string{customer, ledger} {
		d := &appsv1.Deployment{}
		if err := yaml.UnmarshalStrict([]byte(text), d); err != nil {
			t.Fatal(err)
		}
		c.create(d)
	}
	for _, u := range users() {
		c.grant(u)
	}
	return c
}

// as returns a client of somebody, always the same.
func (c *cluster) as(name string, groups ...string) client.Client {
	c.t.Helper()
	if have, ok := c.clients[name]; ok {
		return have
	}
	access := rest.CopyConfig(c.rest)
	access.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: append(groups, "system:authenticated")}
	out, err := client.New(access, client.Options{Scheme: c.scheme})
	if err != nil {
		c.t.Fatal(err)
	}
	c.clients[name] = out
	return out
}

func (c *cluster) create(o client.Object) {
	c.t.Helper()
	if err := c.admin.Create(c.t.Context(), o); err != nil {
		c.t.Fatalf("%T %s: %v", o, o.GetName(), err)
	}
}

// grant gives a user the rights of the table, and all on objects of ours but to read them.
func (c *cluster) grant(u user) {
	c.t.Helper()
	writes := right{"", rbacv1.PolicyRule{Verbs: []string{"create", "update", "patch", "delete"}, APIGroups: []string{crdv1.Group}, Resources: []string{"*"}}}
	for i, r := range append(u.rights, writes) {
		meta := metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", u.name, i), Namespace: r.namespace}
		to := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: u.name}}
		if r.namespace == "" {
			c.create(&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{r.rule}})
			c.create(&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: to, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}})
			continue
		}
		c.create(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{r.rule}})
		c.create(&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: to, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}})
	}
}

// register registers the chart's webhook, at a Service that leads to this machine.
func (c *cluster) register() {
	c.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	c.port = int32(l.Addr().(*net.TCPAddr).Port)
	if err := l.Close(); err != nil {
		c.t.Fatal(err)
	}
	config := chartsWebhook(c.t)
	for i := range config.Webhooks {
		config.Webhooks[i].ClientConfig.Service.Port = new(c.port)
	}
	c.create(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "signadot", Name: config.Webhooks[0].ClientConfig.Service.Name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	})
	c.create(config)
}

// chartsWebhook reads the webhook configuration out of what the chart renders.
func chartsWebhook(t *testing.T) *registrationv1.ValidatingWebhookConfiguration {
	t.Helper()
	root, err := crd.Root()
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := os.ReadFile(filepath.Join(root, "tests/chart/testdata/default.out.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range bytes.Split(rendered, []byte("\n---\n")) {
		if !bytes.Contains(document, []byte("\nkind: ValidatingWebhookConfiguration\n")) {
			continue
		}
		config := &registrationv1.ValidatingWebhookConfiguration{}
		if err := yaml.UnmarshalStrict(document, config); err != nil {
			t.Fatal(err)
		}
		return config
	}
	t.Fatal("the chart has no ValidatingWebhookConfiguration")
	return nil
}

// manage runs the manager, under its own name, until stop is called.
func (c *cluster) manage() (stop func()) {
	c.t.Helper()
	access := rest.CopyConfig(c.rest)
	access.Impersonate = rest.ImpersonationConfig{UserName: ownAccount, Groups: []string{"system:masters"}}
	ctx, cancel := context.WithCancel(c.t.Context())
	main, err := manager.New(ctx, manager.Config{
		REST: access, Log: memory.New(), AskAuthors: true, WebhookAddress: fmt.Sprintf("127.0.0.1:%d", c.port),
		Inject: injectConfig(), MetricsAddress: "0", HealthAddress: "0", SeveralInProcess: true,
		Logger: slog.New(slog.NewTextHandler(c.t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		cancel()
		c.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- main.Run(ctx) }()
	c.eventually("the webhook is ready", main.WebhookReady)
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			c.t.Error(err)
		}
	})
	c.t.Cleanup(stop)
	return stop
}

func injectConfig() inject.Config {
	return inject.Config{Sidecar: inject.Container{Image: "sidecar"}, Redirect: inject.Container{Image: "redirect"}}.WithDefaults()
}

// eventually waits until holds gives nil.
func (c *cluster) eventually(what string, holds func() error) {
	c.t.Helper()
	wait.Eventually(c.t, time.Minute, what, holds)
}

// write creates the object of a row as a user. A review that takes too long on a slow
// machine asks to try again, and that is done a few times.
func (c *cluster) write(u string, r row, name string, options ...client.CreateOption) (client.Object, error) {
	c.t.Helper()
	o, ok := r.object(c.t, name).(client.Object)
	if !ok {
		c.t.Fatalf("%s is no object", r.says)
	}
	err := c.as(u).Create(c.t.Context(), o, options...)
	for tries := 1; apierrors.IsServiceUnavailable(err) && tries < 10; tries++ {
		time.Sleep(100 * time.Millisecond)
		err = c.as(u).Create(c.t.Context(), o, options...)
	}
	return o, err
}

// theft is what a user with rights on sandboxes alone once got a Secret by.
func theft() row {
	return forkOf("a fork that prints a Secret", "", container("image: any, command: [env], envFrom: [{secretRef: {name: other}}]"))
}

func TestAuthorsAgainstARealAPIServer(t *testing.T) {
	c := newCluster(t)
	c.register()
	stop := c.manage()
	c.eventually("authors are asked about", func() error {
		if _, err := c.write("stranger", theft(), "probe", client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
	t.Run("nobody gets at a Secret by a sandbox", c.refusesTheft)
	t.Run("the table", c.answersTheTable)
	t.Run("what the author may do, the sandbox does", c.forks)
	t.Run("updates", c.updates)
	t.Run("without a manager", func(t *testing.T) { c.withoutManager(t, stop) })
}

// refusesTheft is the attack: without the webhook the sandbox is made, and its fork.
func (c *cluster) refusesTheft(t *testing.T) {
	_, err := c.write("stranger", theft(), "theft")
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "you may not create deployments.apps in namespace shop, so you cannot fork Deployment shop/customer") {
		t.Errorf("the answer is %v", err)
	}
	_, err = c.write("builder", theft(), "theft")
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `you may not get secrets "other" in namespace shop`) {
		t.Errorf("the answer is %v", err)
	}
	var all appsv1.DeploymentList
	if err := c.admin.List(t.Context(), &all, client.InNamespace("shop")); err != nil || len(all.Items) != 1 {
		t.Errorf("there are %d Deployments (%v)", len(all.Items), err)
	}
}

// answersTheTable asks the API server about every row and user, as a dry run.
func (c *cluster) answersTheTable(t *testing.T) {
	for i, r := range rows() {
		for j, u := range users() {
			_, err := c.write(u.name, r, fmt.Sprintf("row-%d", i), client.DryRunAll)
			if (err == nil) != (r.may[j] == 'y') || err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("%s by %s: %v", r.says, u.name, err)
			}
		}
	}
}

// forks has an author who may do so read a Secret: nothing else has to be allowed.
func (c *cluster) forks(t *testing.T) {
	if _, err := c.write("developer", theft(), "rightful"); err != nil {
		t.Fatal(err)
	}
	c.eventually("the fork is made", func() error {
		var all appsv1.DeploymentList
		if err := c.admin.List(t.Context(), &all, client.InNamespace("shop"), client.MatchingLabels{crdv1.LabelSandbox: "rightful"}); err != nil {
			return err
		}
		if len(all.Items) != 1 || len(all.Items[0].Spec.Template.Spec.Containers[0].EnvFrom) != 1 {
			return fmt.Errorf("there are %d", len(all.Items))
		}
		return nil
	})
}

// patch changes an object as a user.
func (c *cluster) patch(t *testing.T, u string, o client.Object, body string) error {
	t.Helper()
	return c.as(u).Patch(t.Context(), o.DeepCopyObject().(client.Object), client.RawPatch("application/merge-patch+json", []byte(body)))
}

func (c *cluster) updates(t *testing.T) {
	fork := direct()[3]
	fork.text = strings.ReplaceAll(fork.text, "sandbox-name: other", "sandbox-name: db") // Which the operator may read.
	w, err := c.write("operator", fork, "named-by-an-annotation")
	if err != nil {
		t.Fatal(err)
	}
	s := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: "rightful"}}
	image := `{"spec": {"sdRevision": 7}}`
	// The conditions of the webhook cost the API server something by the size of the object.
	text := strings.Repeat("x", 1<<20)
	large := forkOf("", "", container("env: [{name: LARGE, value: "+text+"}]"))
	big, err := c.write("developer", large, "large")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		says, user string
		object     client.Object
		body       string
		allowed    bool
	}{
		{"a label", "stranger", s, `{"metadata": {"labels": {"a": "b"}}}`, true},
		{"an annotation", "stranger", s, `{"metadata": {"annotations": {"a": "b"}}}`, true},
		{"a label of a large object", "stranger", big, `{"metadata": {"labels": {"a": "b"}}}`, true},
		{"another spec of a large object", "developer", big, image, true},
		{"another spec by one who may", "developer", s, image, true},
		{"another spec by one who may not", "stranger", s, `{"spec": {"sdRevision": 8}}`, false},
		{"a member's annotation that no template names", "operator", w, `{"metadata": {"annotations": {"a": "b"}}}`, true},
		{"the annotation that a template names", "operator", w, `{"metadata": {"annotations": {"signadot.com/sandbox-name": "other"}}}`, false},
	} {
		if err := c.patch(t, tt.user, tt.object, tt.body); (err == nil) != tt.allowed || err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", tt.says, err)
		}
	}
}

// withoutManager does, while none is there, what has to go on; and what may not.
func (c *cluster) withoutManager(t *testing.T, stop func()) {
	stop()
	s := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: "rightful"}}
	for _, body := range []string{`{"metadata": {"labels": {"c": "d"}}}`, `{"metadata": {"finalizers": null}}`} {
		if err := c.patch(t, "stranger", s, body); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	status := client.RawPatch("application/merge-patch+json", []byte(`{"status": {"observedGeneration": 1}}`))
	if err := c.admin.Status().Patch(t.Context(), s.DeepCopy(), status); err != nil {
		t.Errorf("its status: %v", err)
	}
	if err := c.patch(t, "admin", s, `{"spec": {"sdRevision": 9}}`); err == nil {
		t.Error("a spec is changed and nobody is asked about")
	}
	if _, err := c.write("admin", theft(), "unasked"); err == nil {
		t.Error("a sandbox is made and nobody is asked about")
	}
	if err := c.as("stranger").Delete(t.Context(), s.DeepCopy()); err != nil {
		t.Errorf("it cannot be deleted: %v", err)
	}
	if err := c.admin.Get(t.Context(), client.ObjectKeyFromObject(s), s); !apierrors.IsNotFound(err) {
		t.Errorf("it is there still: %v", err)
	}
}
