package controlplane

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/sweep/workflows"
	"switchyard.dev/tests/sweep/workflows/ledger"
	"switchyard.dev/tools/wait"
)

// database is a plugin that creates a database for each resource, with the version in its name, at a server that is
// reached with env. Its delete step drops the database of its own version, and notes that in the ledger.
func database(version string, env map[string]string) map[string]any {
	overlay := "spec: {containers: [{name: main, env: [{name: PATH, value: '" + ledger.Programs + ":/usr/bin:/bin'}"
	for name, value := range env {
		overlay += fmt.Sprintf(", {name: %s, value: '%s'}", name, value)
	}
	const begin = "#!/bin/sh -eu\npsql -qX -v ON_ERROR_STOP=1 "
	name := "v" + version + "-$SIGNADOT_SANDBOX_NAME"
	return map[string]any{"name": "database@" + version, "spec": map[string]any{
		"runner": map[string]any{"image": workflows.Image, "podTemplateOverlay": overlay + "]}]}\n"},
		"create": []any{map[string]any{"name": "make", "script": begin + `-c "CREATE DATABASE \"` + name + "\\\"\"\n"}},
		"delete": []any{map[string]any{"name": "drop", "script": begin + `-c "DROP DATABASE \"` + name + `\"" -c "INSERT INTO ledger (pod, entry) VALUES ('` + name + "', 'dropped')\"\n"}},
	}}
}

// TestAPluginIsAppliedOnceForAllClusters: sandboxes in two clusters have a database each, and keep the version of the
// plugin that they were created with.
func TestAPluginIsAppliedOnceForAllClusters(t *testing.T) {
	s := newSite(t, "east", "west")
	server := s.worlds[0].Ledger()
	empty := s.inClusters()
	databases := func() []string {
		t.Helper()
		text, err := server.Ask(nil, `SELECT datname FROM pg_database WHERE datname LIKE 'v%' ORDER BY 1`)
		s.must(err)
		return strings.Fields(text)
	}
	names := map[string]string{"checkout": "east", "search": "west"}
	apply := func(name string) {
		t.Helper()
		var put v2.Sandbox
		s.put("sandboxes/"+name, map[string]any{"spec": map[string]any{"cluster": names[name], "resources": []any{map[string]any{"name": "db", "plugin": "database"}}}}, &put)
		wait.Eventually(t, patience, "sandbox "+name+" is ready", func() error {
			var now v2.Sandbox
			err := s.get("sandboxes/"+name, &now)
			if st := now.Status; err == nil && !st.Ready {
				err = fmt.Errorf("%s: %s", *st.Reason, *st.Message)
			}
			return err
		})
	}
	var plugin v2.ResourcePlugin
	s.put("resource-plugins/database", database("1.0.0", server.Env()), &plugin)
	for name := range names {
		apply(name)
	}
	if want := []string{"v1.0.0-checkout", "v1.0.0-search"}; !slices.Equal(databases(), want) {
		t.Fatalf("databases %q, want %q", databases(), want)
	}
	refused := func(version string) {
		t.Helper()
		status, text := s.call(http.MethodDelete, "resource-plugins/database?version="+version, "")
		if status != http.StatusBadRequest || !strings.Contains(text, `sandbox \"checkout\" in cluster \"east\"`) || !strings.Contains(text, `sandbox \"search\" in cluster \"west\"`) {
			t.Errorf("the deletion of a version in use: %d %s", status, text)
		}
	}
	refused("1.0.0")
	s.put("resource-plugins/database", database("2.0.0", server.Env()), &plugin)
	for name := range names {
		apply(name) // without a version, it keeps its own
	}
	refused("1.0.0")
	if status, text := s.call(http.MethodDelete, "resource-plugins/database?version=2.0.0", ""); status != http.StatusOK {
		t.Errorf("the deletion of a version that is not in use: %d %s", status, text)
	}
	s.put("resource-plugins/database", database("2.0.0", server.Env()), &plugin)
	for name := range names {
		if status, text := s.call(http.MethodDelete, "sandboxes/"+name, ""); status != http.StatusOK {
			t.Fatalf("DELETE sandbox %s: %d %s", name, status, text)
		}
	}
	wait.Eventually(t, patience, "the sandboxes are deleted", func() error {
		var left []v2.Sandbox
		err := s.get("sandboxes", &left)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%d are left; the first one: %s", len(left), *left[0].Status.Message)
		}
		return err
	})
	dropped, err := server.Lines()
	s.must(err)
	slices.SortFunc(dropped, func(a, b ledger.Line) int { return strings.Compare(a.Pod, b.Pod) })
	if want := []ledger.Line{{Pod: "v1.0.0-checkout", Entry: "dropped"}, {Pod: "v1.0.0-search", Entry: "dropped"}}; !slices.Equal(dropped, want) {
		t.Errorf("dropped: %v, want %v", dropped, want)
	}
	if left := databases(); len(left) > 0 {
		t.Errorf("databases that are left: %q", left)
	}
	for _, version := range []string{"1.0.0", "2.0.0"} {
		if status, text := s.call(http.MethodDelete, "resource-plugins/database?version="+version, ""); status != http.StatusOK {
			t.Errorf("DELETE of version %s: %d %s", version, status, text)
		}
	}
	wait.Eventually(t, patience, "the clusters are as before", func() error {
		if left := s.inClusters(); !slices.Equal(left, empty) {
			return errors.New(strings.Join(left, ", "))
		}
		return nil
	})
}

// inClusters returns the names of the objects of all clusters that sandboxes can have left.
func (s *site) inClusters() (out []string) {
	s.Helper()
	for name, c := range s.clusters {
		for _, list := range []client.ObjectList{
			&crdv1.SignadotSandboxList{}, &crdv1.SignadotRouteGroupList{}, &crdv1.ResourceList{}, &crdv1.SignadotObjectLifecycleMethodsList{},
			&crdv1.RoutingConfigList{}, &crdv1.ForkedWorkloadList{}, &corev1.PodList{}, &corev1.SecretList{},
		} {
			s.must(c.List(s.Context(), list))
			items, err := meta.ExtractList(list)
			s.must(err)
			for _, o := range items {
				named, err := meta.Accessor(o)
				s.must(err)
				out = append(out, fmt.Sprintf("%s: %T %s/%s", name, o, named.GetNamespace(), named.GetName()))
			}
		}
	}
	slices.Sort(out)
	return out
}
