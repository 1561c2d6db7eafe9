package admission_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/admission"
	livebaseline "switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork/power"
	"switchyard.dev/tests/golden"
)

// document is the file with the table for users.
const document = "RIGHTS.md"

const customer = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: customer, namespace: shop, annotations: {note: other}}
spec:
  selector: {matchLabels: {app: customer}}
  template:
    metadata: {labels: {app: customer}}
    spec:
      containers:
      - {name: main, image: "customer:1", env: [{name: S, valueFrom: {configMapKeyRef: {name: own, key: k}}}]}
      volumes: [{name: s, secret: {secretName: own}}, {name: p, persistentVolumeClaim: {claimName: own}}]`

const ledger = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: ledger, namespace: pay}
spec:
  selector: {matchLabels: {app: ledger}}
  template: {metadata: {labels: {app: ledger}}, spec: {containers: [{name: main, image: "ledger:1"}]}}`

// object reads the object of a row, under this name.
func (r row) object(t testing.TB, name string) runtime.Object {
	t.Helper()
	o := admission.Kinds()[r.kind]
	text := "apiVersion: signadot.com/v1\nkind: " + r.kind + "\n" + strings.ReplaceAll(r.text, "NAME", name)
	if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
		t.Fatalf("%s: %v\n%s", r.says, err, text)
	}
	return o
}

// inputOf is the input for an object in a cluster with both Deployments.
func inputOf(t testing.TB, o runtime.Object) admission.Input {
	t.Helper()
	in := admission.Input{Object: o, Change: admission.Change{Spec: true}, OperatorNamespace: "signadot", Limits: admission.Limits{}.WithDefaults(), Baselines: map[crdv1.ObjectRef]admission.Baseline{}}
	for _, text := range []string{customer, ledger} {
		d := &appsv1.Deployment{}
		if err := yaml.UnmarshalStrict([]byte(text), d); err != nil {
			t.Fatal(err)
		}
		ref := crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Namespace: d.Namespace, Name: d.Name}
		in.Baselines[ref] = admission.Baseline{Live: livebaseline.OfDeployment(d)}
	}
	for _, ref := range admission.References(o, "signadot") {
		if _, ok := in.Baselines[ref]; !ok {
			in.Baselines[ref] = admission.Baseline{Missing: "does not exist"}
		}
	}
	return in
}

// lacks returns the rights of a decision that a user lacks.
func (u user) lacks(d admission.Decision) []admission.Want {
	var out []admission.Want
	for _, w := range d.Wants {
		if !u.has(w.Access) {
			out = append(out, w)
		}
	}
	return out
}

func TestRightsForWrites(t *testing.T) {
	for i, r := range rows() {
		t.Run(r.says, func(t *testing.T) {
			in := inputOf(t, r.object(t, fmt.Sprintf("row-%d", i)))
			in.Kept = keptBefore(r)
			d := admission.Decide(in)
			got := ""
			for _, u := range columns() {
				if d.TooMuch == "" && len(u.lacks(d)) == 0 {
					got += "y"
				} else {
					got += "n"
				}
			}
			if got != r.answers() {
				t.Errorf("%s, want %s; it takes %v %s", got, r.answers(), d.Wants, d.TooMuch)
			}
		})
	}
	if len(rows()) < 40 || len(users()) != 6 {
		t.Errorf("the table has %d rows and %d users", len(rows()), len(users()))
	}
}

// The document is the table, so that neither can change without the other.
func TestTheDocumentIsTheTable(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("# Rights of authors, by example\n\nWritten by the test of this package from its table (`go test ./reconcilers/admission -update`); the same answers come\n" +
		"from a real API server with these rights, with and without `--dry-run=server`.\n\n" +
		"Namespace `shop` has the Deployment `customer`, which uses Secret, ConfigMap and claim `own`; namespace `pay` has the\n" +
		"Deployment `ledger`. Each of these users may write all kinds of `signadot.com`, and besides:\n\n")
	for _, u := range columns() {
		fmt.Fprintf(&b, "- **%s** %s\n", u.name, u.says)
	}
	b.WriteString("\n| |")
	for _, u := range columns() {
		b.WriteString(" " + u.name + " |")
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(columns())) + "\n")
	for _, r := range rows() {
		b.WriteString("| " + r.says + " |")
		for _, c := range r.answers() {
			b.WriteString(map[rune]string{'y': " yes |", 'n': " no |"}[c])
		}
		b.WriteString("\n")
	}
	b.WriteString("\n## Changes\n\nWhich users can make which change to an existing object. The annotations that count as specification are `" +
		strings.Join(crdv1.SpecificationAnnotations(), "`, `") + "`: a change of one takes the rights of the whole object. Only a change of the specification or of `" +
		strings.Join(crdv1.AuthorAnnotations(), "`, `") + "` makes the user the author.\n\n| |")
	for _, u := range users() {
		b.WriteString(" " + u.name + " |")
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(users())) + "\n")
	for _, c := range changes() {
		b.WriteString("| " + c.says + " |")
		for _, m := range c.may {
			b.WriteString(map[rune]string{'y': " yes |", 'n': " no |"}[m])
		}
		b.WriteString("\n")
	}
	golden.Compare(t, document, b.String())
}

func TestTheMessageOfARefusal(t *testing.T) {
	refusal := func(u int, r row) string {
		return admission.Refusal(users()[u].lacks(admission.Decide(inputOf(t, r.object(t, "x")))))
	}
	const builder, stranger = 2, 5
	tests := []struct {
		name, got string
		says      []string
	}{
		{"a workload may not be created", refusal(stranger, forkOf("", "", container("image: i"))), []string{
			"you may not create deployments.apps in namespace shop, so you cannot fork Deployment shop/customer (spec.customization.patches[0].target): ask for that right"}},
		{"an object may not be read", refusal(builder, forkOf("", "", volume("secret: {secretName: other}"))), []string{
			`you may not get secrets "other" in namespace shop`, "read Secret other, which that does not use itself", "or name one that it uses"}},
		{"nobody can say what is read", refusal(builder, unsure()[0]), []string{
			"get all secrets in namespace shop", "get all configmaps", "get all persistentvolumeclaims", "Deployment shop/missing does not exist", "write it once the workload is there"}},
		{"an external workload", refusal(stranger, others()[0]), []string{"you cannot take the requests of Deployment shop/customer (spec.externalWorkloads[0]"}},
		{"a virtual workload", refusal(stranger, others()[3]), []string{"stand before Deployment shop/customer"}},
		{"a RoutingConfig", refusal(stranger, others()[7]), []string{`get forkedworkloads.signadot.com "any" in namespace shop`, "spec.sandboxedWorkloads[0]"}},
		{"many", admission.Refusal(make([]admission.Want, 9)), []string{"and more rights are lacking"}},
		{"nothing", admission.Refusal(nil), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, s := range tt.says {
				if !strings.Contains(tt.got, s) {
					t.Errorf("%q is not in %q", s, tt.got)
				}
			}
			if len(tt.says) == 0 && tt.got != "" {
				t.Errorf("%q", tt.got)
			}
		})
	}
}

func TestReadsThatEveryPatchCanHave(t *testing.T) {
	for _, r := range []row{forkOf("", "", volume("secret: {secretName: other}")), unsure()[0], unsure()[2]} {
		in := inputOf(t, r.object(t, "x"))
		in.Powers = power.Powers{power.Secrets}
		if d := admission.Decide(in); len(d.Wants) != 1 || d.Wants[0].Verb != "create" {
			t.Errorf("it takes %v", d.Wants)
		}
	}
}

func TestBoundsAreSettings(t *testing.T) {
	many := sandboxOf("", "", "virtualWorkloads: [{name: a, "+baseline("shop", "a")+"}, {name: b, "+baseline("shop", "b")+"}], customization: {patches: ["+
		patchesFor("shop", "customer", "merge: {spec: {replicas: 3}}", "merge: {}")+"]}")
	for _, tt := range []struct {
		limits admission.Limits
		says   string
	}{
		{admission.Limits{Members: 3, Patches: 2, Replicas: 3}, ""},
		{admission.Limits{Members: 2}, "it has 3 members, and at most 2 are possible (sandboxes.limits.members)"},
		{admission.Limits{Patches: 1}, "it has 2 patches, and at most 1 are possible (sandboxes.limits.patches)"},
		{admission.Limits{Replicas: 2}, "its forks ask for 3 pods, and at most 2 are possible (sandboxes.limits.replicas)"},
	} {
		in := inputOf(t, many.object(t, "x"))
		in.Limits = tt.limits.WithDefaults()
		if d := admission.Decide(in); !strings.HasPrefix(d.TooMuch, tt.says) || (d.TooMuch == "") != (tt.says == "") {
			t.Errorf("%+v: %q", tt.limits, d.TooMuch)
		}
	}
}
