package sample

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"switchyard.dev/tools/demo/resource"
	"switchyard.dev/tools/wait"
)

// Sample is one of workflows/samples, and how it is seen to work.
type Sample struct {
	// Name is that of its plugin and of its folder, Sandbox that of its sandbox, and its routing
	// key, Resource that of its resource.
	Name, Sandbox, Resource string
	// Works checks that requests with the key use the sandbox's own store, and others the
	// baseline's. Gone checks that nothing is left in the store.
	Works, Gone func()
}

// Python is the sample that needs nothing but podinfo, its Redis and an image with Python.
func (s *Shop) Python() Sample {
	tenant := s.Podinfo + "/cache/tenant-dora"
	return Sample{Name: "python", Sandbox: "dora", Resource: "tenant", Works: func() {
		s.Answers(s.Podinfo, "dora", `"message": "tenant-dora"`)
		s.Answers(s.Podinfo, "", `"message": "greetings from podinfo`)
		s.Answers(tenant, "", `{"tenant": "tenant-dora", "users": [{"name": "Ada"}, {"name": "Grace"}]}`)
	}, Gone: func() { s.Answers(tenant, "", "404") }}
}

// Live tests the lifecycle of a sample: plugin, sandbox, separate store, values that are not
// disclosed, and a deletion that leaves nothing.
func (s *Shop) Live(x Sample) {
	s.Helper()
	folder := s.TempDir()
	s.Must(resource.Sample(folder, x.Name))
	if rights := filepath.Join(folder, "rbac.yaml"); exists(rights) {
		s.Kubectl("", "apply", "-f", rights)
	}
	s.switchyard("resourceplugin", "apply", "-f", filepath.Join(folder, "plugin.yaml"))
	before, err := resource.Look(s.Context())
	s.Must(err)
	s.Cleanup(func() { // Its own context has ended by now.
		_, _ = resource.Command(context.Background(), "sandbox", "delete", x.Sandbox)
	})
	s.switchyard("sandbox", "apply", "-f", filepath.Join(folder, "sandbox.yaml"), "--wait-timeout", "4m")
	s.showsNoValue(x)
	x.Works()
	s.Hidden(s.outputs(x)...)
	s.switchyard("sandbox", "delete", x.Sandbox)
	wait.Eventually(s, time.Minute, "nothing is left", func() error {
		now, err := resource.Look(s.Context())
		if err == nil && now.Since(before).String() != "" {
			err = errors.New("left: " + now.Since(before).String())
		}
		return err
	})
	x.Gone()
	s.switchyard("resourceplugin", "delete", x.Name)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// switchyard runs the command line. If it fails, it fails the test with a report on the resources.
func (s *Shop) switchyard(args ...string) string {
	s.Helper()
	out, err := resource.Command(s.Context(), args...)
	if err != nil {
		for _, more := range [][]string{{"resource", "list"}, {"resource", "list", "-o", "yaml"}} {
			told, _ := resource.Command(s.Context(), more...)
			s.Log(told)
		}
		s.Fatal(err)
	}
	return out
}

// showsNoValue checks that the command line shows every step of the resource as done, and no value.
func (s *Shop) showsNoValue(x Sample) {
	s.Helper()
	out := s.switchyard("resource", "get", "--sandbox", x.Sandbox, x.Resource)
	if strings.Contains(out, "To do") || !strings.Contains(out, "Succeeded") {
		s.Errorf("%s:\n%s", x.Name, out)
	}
	for _, value := range s.outputs(x) {
		if strings.Contains(out, value) {
			s.Errorf("%s: the value %q is shown:\n%s", x.Name, value, out)
		}
	}
	s.switchyard("logs", "--sandbox", x.Sandbox, "--resource", x.Resource, "-f")
}
