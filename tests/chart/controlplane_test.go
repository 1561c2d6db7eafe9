package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/tests/golden"
)

const (
	controlPlaneDir = "../../charts/controlplane"
	// least are the values that the chart requires.
	least = "hostname: control.example.com\ntls: {secret: a}\nkeys: {secret: b}\n"
)

// controlPlane renders the chart of the control plane into a namespace.
func controlPlane(t testing.TB, namespace, values string) (string, error) {
	t.Helper()
	return helm(t, values, "template", "controlplane", controlPlaneDir, "--namespace="+namespace, "--kube-version="+kubernetes, "--values=-")
}

// controlPlaneRules hold for the objects of every case.
var controlPlaneRules = map[string]func(*testing.T, objects){
	"objects are in the namespace of the release": func(t *testing.T, all objects) {
		for _, o := range all {
			if o.GetNamespace() != "control" {
				t.Errorf("%s is in namespace %q", title(o), o.GetNamespace())
			}
		}
	},
	"a workload selects its own pods, a Service those of one workload": selectorsMeetOneWorkload,
	"every container is probed on a port it declares":                  containersAreProbed,
	"no right is wider than it needs to be":                            rightsAreNarrow,
	"the role and the service account of each binding exist":           bindingsAreComplete,
	"pods are locked down":                                             podsAreLockedDown,
	"Secrets are reached by name": func(t *testing.T, all objects) {
		for _, g := range all.grants(t) {
			if !slices.Equal(g.rule.Resources, []string{"secrets"}) || !slices.Equal(g.rule.ResourceNames, []string{"controlplane-admin"}) || slices.Contains(g.rule.Verbs, "list") {
				t.Errorf("%s has %v", title(g.role), g.rule)
			}
		}
	},
}

func TestTheControlPlaneInEveryCase(t *testing.T) {
	for name, values := range casesIn(t, "testdata/controlplane") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := controlPlane(t, "control", values)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Join("testdata/controlplane", name+".out.yaml"), text)
			for sentence, holds := range controlPlaneRules {
				t.Run(sentence, func(t *testing.T) { holds(t, parse(t, text)) })
			}
		})
	}
}

// TestAControlPlaneWithoutRightsHasNoToken: the token is for Secret controlplane-admin alone.
func TestAControlPlaneWithoutRightsHasNoToken(t *testing.T) {
	for admin, want := range map[string]bool{"true": true, "false": false} {
		text, err := controlPlane(t, "control", least+"admin: {secret: "+admin+"}")
		if err != nil {
			t.Fatal(err)
		}
		all := parse(t, text)
		spec := as[appsv1.Deployment](t, all.find("Deployment", "control", "controlplane")).Spec.Template.Spec
		account := as[corev1.ServiceAccount](t, all.find("ServiceAccount", "control", "controlplane"))
		if *spec.AutomountServiceAccountToken != want || *account.AutomountServiceAccountToken || len(all.grants(t)) > 0 != want {
			t.Errorf("with admin.secret %s: a token %t, rights %v", admin, *spec.AutomountServiceAccountToken, all.grants(t))
		}
	}
}

func TestBadValuesOfTheControlPlaneAreRejectedWithAReason(t *testing.T) {
	for _, c := range []struct{ name, values, says string }{
		{"no host name", "tls: {secret: a}\nkeys: {secret: b}", "hostname is empty"},
		{"no certificate", "hostname: a\nkeys: {secret: b}", "tls.secret is empty"},
		{"no keys", "hostname: a\ntls: {secret: b}", "keys.secret is empty"},
		{"replicas with SQLite", least + "replicas: 2", "SQLite has one replica"},
		{"replicas without certificates", least + "replicas: 2\ndatabase: {postgresSecret: pg}", "replicasTLS.secret is empty"},
		{"a misspelt key", least + "replica: 2", "'replica' not allowed"},
		{"a misspelt key of the database", least + "database: {postgres: pg}", "'postgres' not allowed"},
		{"a Secret as a map", least + "signing: {secret: {name: a}}", "/signing/secret"},
		{"a proxy without its prefix", least + "proxies: [10.0.0.1]", "/proxies/0"},
		{"an age in days", least + "keepEvents: 400d", "/keepEvents"},
		{"an organisation with a slash", least + "organisation: a/b", "/organisation"},
		{"a login for a role that does not exist", least + "login: {settings: {mappings: [{value: a, organisation: b, role: owner}]}}", "/login/settings/mappings/0/role"},
		{"an issuer without TLS", least + "login: {settings: {issuer: 'http://issuer.example.com'}}", "/login/settings/issuer"},
		{"pages below a path", least + "login: {url: 'https://control.example.com/login'}", "/login/url"},
		{"an administrator of no organisation", least + "organisation: ''", "set admin.secret=false"},
		{"a traffic policy that does not exist", least + "service: {externalTrafficPolicy: Node}", "/service/externalTrafficPolicy"},
		{"a Service that does not exist", least + "service: {type: External}", "/service/type"},
		{"previews without a certificate", least + "previews: {domains: {default: preview.example.net}}", "set one of previews.tls.secret and previews.acme.directory"},
		{"previews with certificates from two sources", least + "previews: {domains: {default: preview.example.net}, tls: {secret: a}, acme: {directory: 'https://acme.example.com'}}", "set one of"},
		{"an ACME server without its terms", least + "previews: {domains: {default: preview.example.net}, acme: {directory: 'https://acme.example.com', rfc2136: {secret: a}}}", "previews.acme.acceptTerms=true"},
		{"an ACME server without a nameserver", least + "previews: {domains: {default: preview.example.net}, acme: {directory: 'https://acme.example.com', acceptTerms: true}}", "previews.acme.rfc2136.secret"},
		{"a preview domain of two organisations", least + "previews: {domains: {a: preview.example.net, b: preview.example.net}, tls: {secret: a}}", "a domain of its own"},
		{"a preview domain with a star", least + "previews: {domains: {default: '*.preview.example.net'}, tls: {secret: a}}", "/previews/domains/default"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := controlPlane(t, "control", c.values)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the message does not state %q: %v", c.says, err)
			}
		})
	}
}

// copyPod is the pod of Backup and Restore.
func copyPod(t testing.TB) *corev1.Pod {
	t.Helper()
	text, err := os.ReadFile(controlPlaneDir + "/copy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	pod := as[corev1.Pod](t, parse(t, string(text))[0])
	return &pod
}

// TestBackupAndRestoreReachTheVolume: the pod of Backup and Restore mounts the volume of the control plane, on its node
// and as its user, and the commands use it between its start and its deletion, and the file while no process does.
func TestBackupAndRestoreReachTheVolume(t *testing.T) {
	text, err := controlPlane(t, "control", least)
	if err != nil {
		t.Fatal(err)
	}
	all, beside := parse(t, text), copyPod(t)
	served := as[appsv1.Deployment](t, all.find("Deployment", "control", "controlplane")).Spec.Template
	claim := func(s corev1.PodSpec) string {
		i := slices.IndexFunc(s.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
		return s.Volumes[i].Name + " of " + s.Volumes[i].PersistentVolumeClaim.ClaimName
	}
	if got, want := claim(beside.Spec), claim(served.Spec); got != want {
		t.Errorf("the pod has volume %s, the control plane %s", got, want)
	}
	if got, want := *beside.Spec.SecurityContext.RunAsUser, *served.Spec.SecurityContext.RunAsUser; got != want {
		t.Errorf("the pod runs as %d, the control plane as %d", got, want)
	}
	term := beside.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
	selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
	if err != nil || !selector.Matches(labels.Set(served.Labels)) || selector.Matches(labels.Set(beside.Labels)) {
		t.Errorf("the affinity %v is not with the control plane alone: %v", selector, err)
	}
	readme, err := os.ReadFile(controlPlaneDir + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for heading, commands := range map[string][]string{
		"## Backup\n": {"-- /controlplane backup", "apply -f charts/controlplane/copy.yaml", "wait --for=condition=Ready pod/controlplane-copy", "cp controlplane-copy:", "delete pod controlplane-copy"},
		"## Restore\n": {"apply -f charts/controlplane/copy.yaml", "wait --for=condition=Ready pod/controlplane-copy", "--replicas=0",
			"wait --for=delete pod -l app=controlplane", "cp backup.db controlplane-copy:", "mv restored.db controlplane.db", "delete pod controlplane-copy", "--replicas=1", "/controlplane adopt --dry-run"},
	} {
		_, rest, _ := strings.Cut(string(readme), heading)
		for _, command := range commands {
			_, after, is := strings.Cut(rest, command)
			if !is {
				t.Errorf("%s has no %q after the command before it", strings.TrimSpace(heading), command)
			}
			rest = after
		}
	}
}

// takesTheControlPlane creates the objects in a namespace that enforces "restricted".
func (s apiServer) takesTheControlPlane(t *testing.T) {
	s.label(t, "restricted", podSecurity, "restricted")
	for name, values := range casesIn(t, "testdata/controlplane") {
		text, err := controlPlane(t, "restricted", values)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range parse(t, text) {
			if err := s.apply(t.Context(), o, client.DryRunAll); err != nil {
				t.Errorf("%s: %s: %v", name, title(o), err)
			}
			if o.GetKind() != "Deployment" {
				continue
			}
			template := as[appsv1.Deployment](t, o).Spec.Template
			pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
			pod.Namespace, pod.Name, pod.Spec.ServiceAccountName, pod.Spec.PriorityClassName = "restricted", "pod", "default", ""
			if err := s.Create(t.Context(), pod, client.DryRunAll); err != nil {
				t.Errorf("%s: its pod: %v", name, err)
			}
		}
	}
	beside := copyPod(t)
	beside.Namespace, beside.Spec.ServiceAccountName = "restricted", "default"
	if err := s.Create(t.Context(), beside, client.DryRunAll); err != nil {
		t.Errorf("copy.yaml: %v", err)
	}
	for _, text := range s.warnings.texts {
		t.Errorf("the API server warns: %s", text)
	}
}
