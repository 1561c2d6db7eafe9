package crd_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

func TestEverySchemaIsThePublishedOne(t *testing.T) {
	published, ours := readTranscript(t), renderAll(t, nil)
	if len(published.kinds) != 12 || len(ours) != 12+len(added) {
		t.Fatalf("there are 12 kinds, and %d that are not published; published.txt has %d, the chart %d", len(added), len(published.kinds), len(ours))
	}
	additions, used := readAdditions(t), map[string]bool{}
	for _, kind := range published.kinds {
		t.Run(kind.name, func(t *testing.T) {
			c := ours[kind.name]
			if c == nil {
				t.Fatalf("the chart has no CRD of kind %s", kind.name)
			}
			want, have := published.published(t, kind), generated(t, c)
			want.put("", "object")
			want.put("apiVersion", "string")
			want.put("kind", "string")
			want.put("metadata", "object")
			for path, facts := range have {
				if _, isPublished := want[path]; !isPublished && allowed(additions, used, path, facts) {
					delete(have, path)
				}
			}
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("the schema is not the published one (-published +ours):\n%s", diff)
			}
		})
	}
	for addition := range additions {
		if !used[addition] {
			t.Errorf("testdata/additions.txt allows %q, which no schema has; remove the line", addition)
		}
	}
}

// added are the kinds that are not published.
var added = []string{crdv1.KindTrafficCapture}

// readAdditions reads testdata/additions.txt: facts by the end of a path.
func readAdditions(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/additions.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, line := range strings.Split(string(text), "\n") {
		if path, facts, ok := strings.Cut(line, ": "); ok && !strings.HasPrefix(line, "#") {
			out[path] = facts
		}
	}
	return out
}

// allowed reports whether a path that is not published is a known addition, and
// notes that it is used.
func allowed(additions map[string]string, used map[string]bool, path, facts string) bool {
	for end, want := range additions {
		if strings.HasSuffix(path, "."+end) && facts == want {
			used[end] = true
			return true
		}
	}
	return false
}

func TestNamesScopeAndSubresourcesAreThePublishedOnes(t *testing.T) {
	ours := renderAll(t, nil)
	for _, kind := range readTranscript(t).kinds {
		t.Run(kind.name, func(t *testing.T) {
			c := ours[kind.name]
			names := c.Spec.Names
			have := []string{
				"plural=" + names.Plural, "singular=" + names.Singular,
				"short=" + strings.Join(names.ShortNames, ","), "scope=" + string(c.Spec.Scope),
				"subresources=" + subresources(c.Spec.Versions[0].Subresources),
			}
			if diff := cmp.Diff(kind.attributes, have); diff != "" {
				t.Errorf("(-published +ours):\n%s", diff)
			}
			identity := fmt.Sprintf("%s %s %s", c.Name, c.Spec.Group, names.ListKind)
			if want := names.Plural + ".signadot.com signadot.com " + kind.name + "List"; identity != want {
				t.Errorf("name, group and list kind are %q, want %q", identity, want)
			}
			v := c.Spec.Versions[0]
			if len(c.Spec.Versions) != 1 || v.Name != "v1" || !v.Served || !v.Storage || c.Spec.Conversion != nil {
				t.Errorf("there has to be one version v1, served and stored, without conversion; there is %+v", c.Spec.Versions)
			}
		})
	}
}

// subresources says in the words of the transcript which there are.
func subresources(s *apiextensionsv1.CustomResourceSubresources) string {
	var out []string
	if s.Status != nil {
		out = append(out, "status")
	}
	if s.Scale != nil {
		selector := ""
		if s.Scale.LabelSelectorPath != nil {
			selector = *s.Scale.LabelSelectorPath
		}
		out = append(out, fmt.Sprintf("scale(%s,%s,%s)", s.Scale.SpecReplicasPath, s.Scale.StatusReplicasPath, selector))
	}
	return strings.Join(out, ",")
}

func TestEmbeddedPodTemplatesAreWholeAndTheirMetadataNarrow(t *testing.T) {
	found := 0
	for kind, c := range renderAll(t, nil) {
		visit("", *c.Spec.Versions[0].Schema.OpenAPIV3Schema, func(path string, s apiextensionsv1.JSONSchemaProps) {
			if !strings.HasSuffix(path, ".podTemplate") {
				return
			}
			found++
			spec := s.Properties["spec"]
			checkPodTemplate(t, kind+path, s, spec)
		})
	}
	// Two graphs each in SignadotSandbox, Resource and
	// SignadotObjectLifecycleMethods, and one template in JobRunnerGroup.
	if found != 7 {
		t.Errorf("found %d embedded pod templates, want 7", found)
	}
}

// checkPodTemplate checks what is published about embedded pod templates.
func checkPodTemplate(t *testing.T, where string, template, spec apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	var metadata []string
	for name := range template.Properties["metadata"].Properties {
		metadata = append(metadata, name)
	}
	slices.Sort(metadata)
	if want := []string{"annotations", "finalizers", "labels", "name", "namespace"}; !slices.Equal(metadata, want) {
		t.Errorf("%s.metadata has %v, want %v", where, metadata, want)
	}
	if len(template.Required) != 0 || !slices.Equal(spec.Required, []string{"containers"}) {
		t.Errorf("%s: containers alone is required, not %v and %v", where, template.Required, spec.Required)
	}
	containers := spec.Properties["containers"]
	if containers.XListType == nil || *containers.XListType != "map" || !slices.Equal(containers.XListMapKeys, []string{"name"}) {
		t.Errorf("%s.spec.containers is not a list with the key name", where)
	}
	_, podResources := spec.Properties["resources"]
	_, stopSignal := containers.Items.Schema.Properties["lifecycle"].Properties["stopSignal"]
	_, imageVolume := spec.Properties["volumes"].Items.Schema.Properties["image"]
	if !podResources || !stopSignal || !imageVolume {
		t.Errorf("%s: pod resources %v, stop signal %v, image volumes %v; all have to be there", where, podResources, stopSignal, imageVolume)
	}
}

// visit calls do for a schema and every property below it.
func visit(path string, s apiextensionsv1.JSONSchemaProps, do func(path string, s apiextensionsv1.JSONSchemaProps)) {
	do(path, s)
	for name, property := range s.Properties {
		visit(path+"."+name, property, do)
	}
	if s.Items != nil && s.Items.Schema != nil {
		visit(path+"[]", *s.Items.Schema, do)
	}
}

func TestEveryKindHasColumnsForReadinessAndAge(t *testing.T) {
	for kind, c := range renderAll(t, nil) {
		var names []string
		for _, column := range c.Spec.Versions[0].AdditionalPrinterColumns {
			names = append(names, column.Name)
		}
		if slices.Contains(names, "Name") { // a second one, after the object's name
			t.Errorf("%s calls a column Name", kind)
		}
		verdict := "Ready"
		if kind == "Job" { // a job is never ready: it ends
			verdict = "Succeeded"
		}
		for _, want := range []string{verdict, "Reason", "Since", "Age", "Message"} {
			if !slices.Contains(names, want) {
				t.Errorf("%s has no column %s among %v", kind, want, names)
			}
		}
		if !slices.Equal(c.Spec.Names.Categories, []string{"signadot", "switchyard"}) {
			t.Errorf("%s is in the categories %v", kind, c.Spec.Names.Categories)
		}
	}
}

// The published schema bounds no routing key but that of a sandbox, and kubectl makes a
// column as wide as its widest cell: one key of 1,000 bytes made every row of "kubectl get"
// as long. Behind the last column it pads nothing, so there a key lengthens its own row only.
func TestAnUnboundedRoutingKeyIsTheLastColumnOfATable(t *testing.T) {
	keyed := 0
	for kind, c := range renderAll(t, nil) {
		var shown []string // without -o wide
		for _, column := range c.Spec.Versions[0].AdditionalPrinterColumns {
			if column.Priority == 0 {
				shown = append(shown, column.Name)
			}
		}
		i := slices.Index(shown, "Routing-Key")
		if i < 0 || kind == "SignadotSandbox" { // spec.id has 32 characters at most
			continue
		}
		keyed++
		if i != len(shown)-1 {
			t.Errorf("%s shows %v behind the routing key", kind, shown[i+1:])
		}
	}
	if keyed != 5 {
		t.Errorf("%d kinds show an unbounded routing key, want 5", keyed)
	}
}

func TestCRDsCarryTheCommonLabelsAndAnnotationsOfTheChart(t *testing.T) {
	// Values files say 4711 and true without quotes; labels are texts all the same.
	labels := map[string]string{"team": "payments", "cost-centre": "4711", "shared": "true"}
	annotations := map[string]string{"example.com/note": "a: b # not a comment"}
	crds := renderAll(t, map[string]any{
		"commonLabels":      map[string]any{"team": "payments", "cost-centre": 4711, "shared": true},
		"commonAnnotations": annotations,
		"uninstall":         map[string]any{"keep": false},
	})
	for kind, c := range crds {
		if diff := cmp.Diff(labels, c.Labels); diff != "" {
			t.Errorf("%s labels (-want +have):\n%s", kind, diff)
		}
		if diff := cmp.Diff(annotations, c.Annotations); diff != "" {
			t.Errorf("%s annotations (-want +have):\n%s", kind, diff)
		}
	}
}

func TestCRDsStayWhenTheReleaseGoes(t *testing.T) {
	for keep, want := range map[bool]string{true: "keep", false: ""} {
		for kind, c := range renderAll(t, map[string]any{"uninstall": map[string]any{"keep": keep}}) {
			if got := c.Annotations["helm.sh/resource-policy"]; got != want {
				t.Errorf("with keep: %v Helm's policy for %s is %q, want %q", keep, kind, got, want)
			}
		}
	}
}
