package inject

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// FuzzInject gives the injector input that is not a pod, or an odd one: it returns a patch or
// an error, and its patch is of additions and of exchanged probes only.
func FuzzInject(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal("no pods to begin with:", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		raw, err := yaml.YAMLToJSON(text)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	raw, err := json.Marshal(baseline(func(*corev1.Pod) {}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"metadata":{"annotations":{"sidecar.signadot.com/inject":"true"}},"spec":{"Containers":[{"livenessProbe":{"TCPSocket":{"port":1}}}],"containers":[null]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		result, err := Inject(raw, Namespace{Name: "shop", Selected: true}, testConfig())
		if err != nil {
			return
		}
		for i, o := range result.Patch {
			exchanged := o.Op == "remove" && filepath.Base(o.Path) == "tcpSocket" && i+1 < len(result.Patch) &&
				result.Patch[i+1].Path == filepath.Join(filepath.Dir(o.Path), "httpGet")
			if o.Op != "add" && !exchanged {
				t.Errorf("operation %s %s", o.Op, o.Path)
			}
		}
	})
}
