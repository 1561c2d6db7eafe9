package chart

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// smallChart is a copy of the chart that helm renders in a third of the time: each definition has a line in place of its
// specification, which depends on no value.
type smallChart struct {
	dir string
	// lines are these lines, each followed by the specification.
	lines []string
}

// small is that copy. TestMain removes it.
var small = sync.OnceValues(func() (c smallChart, err error) {
	if c.dir, err = os.MkdirTemp("", "chart"); err != nil {
		return c, err
	}
	if err := os.CopyFS(c.dir, os.DirFS(chartDir)); err != nil {
		return c, err
	}
	definitions, err := filepath.Glob(filepath.Join(c.dir, "templates", "crds", "*.yaml"))
	if err != nil {
		return c, err
	}
	for _, file := range definitions {
		text, err := os.ReadFile(file)
		if err != nil {
			return c, err
		}
		before, after, found := strings.Cut(string(text), "\nspec:\n")
		if !found || strings.Contains(after, "{{") {
			continue
		}
		line := "\nspec: " + filepath.Base(file) + "\n"
		if err := os.WriteFile(file, []byte(before+line), 0o600); err != nil {
			return c, err
		}
		c.lines = append(c.lines, line, "\nspec:\n"+after)
	}
	return c, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if c, _ := small(); c.dir != "" {
		_ = os.RemoveAll(c.dir) // a temporary folder
	}
	os.Exit(code)
}

// rendered are the renders of the chart so far, by their values: many tests read the same.
var rendered sync.Map

// render renders the chart with the given values (YAML text, may be empty). The
// release goes to another namespace on purpose: the chart's own is fixed.
func render(t testing.TB, values string) (string, error) {
	t.Helper()
	if text, known := rendered.Load(values); known {
		return text.(string), nil
	}
	c, err := small()
	if err != nil {
		t.Fatal(err)
	}
	text, err := template(t, c.dir, values)
	if err != nil {
		return "", err
	}
	text = strings.NewReplacer(c.lines...).Replace(text)
	rendered.Store(values, text)
	return text, nil
}

// template returns what helm renders.
func template(t testing.TB, chart, values string) (string, error) {
	t.Helper()
	return helm(t, values, "template", "operator", chart, "--namespace=elsewhere", "--kube-version="+kubernetes, "--values=-")
}

// TestRendersAreThoseOfTheChart compares renders of the small chart with those of the chart.
func TestRendersAreThoseOfTheChart(t *testing.T) {
	c, err := small()
	if err != nil {
		t.Fatal(err)
	}
	if len(c.lines) == 0 {
		t.Error("no definition has a line in place of its specification: renders take long")
	}
	for _, values := range []string{"", "{commonLabels: {a: b}, commonAnnotations: {c: d}, uninstall: {keep: false}, allowedNamespaces: [shop]}"} {
		got, err := render(t, values)
		if err != nil {
			t.Fatal(err)
		}
		want, err := template(t, chartDir, values)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("with %q they differ: %s", values, cmp.Diff(want, got))
		}
	}
}

// objects are rendered objects.
type objects []*unstructured.Unstructured

// mustRender renders the chart and reads the objects.
func mustRender(t testing.TB, values string) objects {
	t.Helper()
	text, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, text)
}

// parsed are the objects that were read so far, by their documents: most are the same in most renders.
var parsed sync.Map

// parse reads the objects of a rendered chart.
func parse(t testing.TB, text string) objects {
	t.Helper()
	var out objects
	for _, document := range strings.Split("\n"+text, "\n---") {
		known, is := parsed.Load(document)
		if !is {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
				t.Fatalf("the rendered chart is not YAML: %v", err)
			}
			known, _ = parsed.LoadOrStore(document, o)
		}
		if o := known.(*unstructured.Unstructured); o.Object != nil {
			out = append(out, o.DeepCopy())
		}
	}
	return out
}
