package admission_test

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/memory"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
)

// ownAccount is the manager's.
const ownAccount = "system:serviceaccount:signadot:signadot-controller-manager"

// cluster is a real API server with a running manager and the chart's webhook.
type cluster struct {
	*world.World
	// clients are those of the users, by their names.
	clients map[string]client.Client
	// port is that of the webhook.
	port int32
}

// newCluster starts one, without a manager.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{World: world.New(t), clients: map[string]client.Client{}}
	c.Namespaces("signadot", "shop", "pay")
	for _, text := range []string{customer, ledger} {
		c.Make(&appsv1.Deployment{}, text)
	}
	for _, u := range users() {
		c.grant(u)
	}
	c.link()
	return c
}

// as returns a client of a user, always the same; of the administrator for "admin".
func (c *cluster) as(name string) client.Client {
	c.Helper()
	if _, made := c.clients[name]; !made {
		groups := []string{"system:authenticated"}
		if name == "admin" {
			groups = append(groups, "system:masters")
		}
		account := name
		if name == linked().name {
			account = linkAgent
		}
		c.clients[name] = c.ClientWith(c.As(account, groups...), manager.Scheme)
	}
	return c.clients[name]
}

// grant grants a user the rights of the table, and all on the operator's kinds except reading them.
func (c *cluster) grant(u user) {
	c.Helper()
	writes := right{"", rbacv1.PolicyRule{Verbs: []string{"create", "update", "patch"}, APIGroups: []string{crdv1.Group}, Resources: []string{"*"}}}
	for _, r := range append(u.rights, writes) {
		c.Grant(u.name, r.namespace, r.rule)
	}
}

// register registers the chart's webhook, with a Service that routes to this machine.
func (c *cluster) register() {
	c.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	c.Must(err)
	c.port = int32(l.Addr().(*net.TCPAddr).Port)
	c.Must(l.Close())
	c.Create(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "signadot", Name: "signadot-webhook-service"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	})
	recording, asking := &registrationv1.MutatingWebhookConfiguration{}, &registrationv1.ValidatingWebhookConfiguration{}
	c.Must(apiserver.FromChart("default", "MutatingWebhookConfiguration", recording))
	c.Must(apiserver.FromChart("default", "ValidatingWebhookConfiguration", asking))
	recording.Webhooks = slices.DeleteFunc(recording.Webhooks, func(w registrationv1.MutatingWebhook) bool { return w.Name != "author.signadot.com" })
	recording.Webhooks[0].ClientConfig.Service.Port = new(c.port)
	asking.Webhooks[0].ClientConfig.Service.Port = new(c.port)
	c.Create(recording, asking)
	c.policies("default")
}

// policies applies the chart's admission policies, as one of its golden files has them.
func (c *cluster) policies(values string) {
	c.Helper()
	c.Must(apiserver.EachFromChart(values, func(o *unstructured.Unstructured) error {
		if !strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy") || !slices.Contains([]string{"signadot-authors", "signadot-marks"}, o.GetName()) {
			return nil
		}
		return c.Client.Apply(c.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("helm"), client.ForceOwnership)
	}))
}

// manage runs the manager, under its own name, until stop is called.
func (c *cluster) manage() (stop func()) {
	c.Helper()
	main, err := manager.New(c.Context(), manager.Config{
		REST: c.As(ownAccount, "system:masters"), Log: memory.New(), AskAuthors: true, Delegates: delegates, WebhookAddress: fmt.Sprintf("127.0.0.1:%d", c.port),
		Inject: injectConfig(), MetricsAddress: "0", HealthAddress: "0", SeveralInProcess: true,
		Logger: slog.New(slog.NewTextHandler(c.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
	})
	c.Must(err)
	stop = background.Run(c, main.Run)
	c.Eventually("the webhook is ready", main.WebhookReady)
	return stop
}

func injectConfig() inject.Config {
	return inject.Config{Sidecar: inject.Container{Image: "sidecar"}, Redirect: inject.Container{Image: "redirect"}}.WithDefaults()
}

// write creates the object of a row as a user. A review that takes too long on a slow
// machine asks to try again, and that is done a few times.
func (c *cluster) write(u string, r row, name string, options ...client.CreateOption) (client.Object, error) {
	c.Helper()
	o, ok := r.object(c, name).(client.Object)
	if !ok {
		c.Fatalf("%s is no object", r.says)
	}
	if u == linked().name {
		o.SetAnnotations(named(o.GetAnnotations(), linkedAs))
	}
	err := c.as(u).Create(c.Context(), o, options...)
	for tries := 1; apierrors.IsServiceUnavailable(err) && tries < 10; tries++ {
		time.Sleep(100 * time.Millisecond)
		err = c.as(u).Create(c.Context(), o, options...)
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
	c.Eventually("authors are asked about", func() error {
		if _, err := c.write("stranger", theft(), "probe", client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
	t.Run("nobody gets at a Secret by a sandbox", c.refusesTheft)
	t.Run("the table", c.answersTheTable)
	t.Run("what the author may do, the sandbox does", c.forks)
	t.Run("updates", c.updates)
	t.Run("a spy in a Resource of another user", c.spy)
	t.Run("the table of changes", c.answersTheTableOfChanges)
	t.Run("the author is recorded", c.recordsTheAuthor)
	t.Run("only the webhook writes the author", c.guardsTheAuthor)
	t.Run("the operator's writes keep the author", c.keepsTheAuthor)
	t.Run("a delegate names users", c.delegates)
	t.Run("names of a control plane are reserved", c.reservesNames)
	t.Run("Smart Tests are of a control plane", c.smartTests)
	t.Run("marks of the operator", c.guardsMarks)
	t.Run("authors from before the policy are removed", c.forgets)
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
	if err := c.as("admin").List(t.Context(), &all, client.InNamespace("shop")); err != nil || len(all.Items) != 1 {
		t.Errorf("there are %d Deployments (%v)", len(all.Items), err)
	}
}

// answersTheTable asks the API server about every row and user, as a dry run.
func (c *cluster) answersTheTable(t *testing.T) {
	for i, r := range rows() {
		if _, keeps := gave[r.says]; keeps {
			c.answersForKeptValues(t, r, fmt.Sprintf("row-%d", i))
			continue
		}
		for j, u := range columns() {
			_, err := c.write(u.name, r, fmt.Sprintf("row-%d", i), client.DryRunAll)
			if (err == nil) != (r.answers()[j] == 'y') || err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("%s by %s: %v", r.says, u.name, err)
			}
		}
	}
}

// forks has an author with the right read a Secret: no other setting is needed.
func (c *cluster) forks(t *testing.T) {
	if _, err := c.write("developer", theft(), "rightful"); err != nil {
		t.Fatal(err)
	}
	c.Eventually("the fork is made", func() error {
		var all appsv1.DeploymentList
		if err := c.as("admin").List(t.Context(), &all, client.InNamespace("shop"), client.MatchingLabels{crdv1.LabelSandbox: "rightful"}); err != nil {
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

// withoutManager makes, without a manager, requests that must succeed and requests that must fail.
func (c *cluster) withoutManager(t *testing.T, stop func()) {
	stop()
	s := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: "rightful"}}
	for _, body := range []string{`{"metadata": {"labels": {"c": "d"}}}`, `{"metadata": {"finalizers": null}}`} {
		if err := c.patch(t, "stranger", s, body); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	status := client.RawPatch("application/merge-patch+json", []byte(`{"status": {"observedGeneration": 1}}`))
	if err := c.as("admin").Status().Patch(t.Context(), s.DeepCopy(), status); err != nil {
		t.Errorf("its status: %v", err)
	}
	if err := c.patch(t, "admin", s, `{"spec": {"sdRevision": 9}}`); err == nil {
		t.Error("a spec is changed and nobody is asked about")
	}
	if _, err := c.write("admin", theft(), "unasked"); err == nil {
		t.Error("a sandbox is made and nobody is asked about")
	}
	if err := c.as("developer").Delete(t.Context(), s.DeepCopy()); err != nil {
		t.Errorf("it cannot be deleted: %v", err)
	}
	if err := c.as("admin").Get(t.Context(), client.ObjectKeyFromObject(s), s); !apierrors.IsNotFound(err) {
		t.Errorf("it is there still: %v", err)
	}
}
