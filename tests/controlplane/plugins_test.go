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

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/sweep/workflows"
	"switchyard.dev/tests/sweep/workflows/ledger"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/wait"
)

// TestTwoClusters has a control plane with two clusters.
func TestTwoClusters(t *testing.T) {
	s := newSite(t, "east", "west")
	for name, test := range map[string]func(*site){"a plugin": aPluginOfTwoClusters, "a route group": aGroupOfTwoClusters} {
		t.Run(name, func(t *testing.T) {
			on := *s
			on.T = t
			test(&on)
		})
	}
}

// database is a plugin that creates a database for each resource, with the version in its name, at a server that is
// reached with env. Its delete step drops the database of its own version, and notes that in the ledger.
func database(version string, env map[string]string) any {
	overlay := "spec: {containers: [{name: main, env: [{name: PATH, value: '" + ledger.Programs + ":/usr/bin:/bin'}"
	for name, value := range env {
		overlay += fmt.Sprintf(", {name: %s, value: '%s'}", name, value)
	}
	const begin = "#!/bin/sh -eu\npsql -qX -v ON_ERROR_STOP=1 "
	name := "v" + version + "-$SIGNADOT_SANDBOX_NAME"
	return map[string]any{
		"runner": map[string]any{"image": workflows.Image, "podTemplateOverlay": overlay + "]}]}\n"},
		"create": []any{map[string]any{"name": "make", "script": begin + `-c "CREATE DATABASE \"` + name + "\\\"\"\n"}},
		"delete": []any{map[string]any{"name": "drop", "script": begin + `-c "DROP DATABASE \"` + name + `\"" -c "INSERT INTO ledger (pod, entry) VALUES ('` + name + "', 'dropped')\"\n"}},
	}
}

// aPluginOfTwoClusters: sandboxes in two clusters have a database each, and keep the version of the plugin that they
// were created with.
func aPluginOfTwoClusters(s *site) {
	server := s.worlds[0].Ledger()
	empty := s.inClusters()
	databases := func(want ...string) {
		s.Helper()
		text, err := server.Ask(nil, `SELECT datname FROM pg_database WHERE datname LIKE 'v%' ORDER BY 1`)
		s.must(err)
		if got := strings.Fields(text); !slices.Equal(got, want) {
			s.Fatalf("databases %q, want %q", got, want)
		}
	}
	var files []string
	for name, cluster := range map[string]string{"checkout": "east", "search": "west"} {
		files = append(files, s.file(name, map[string]any{"cluster": cluster, "resources": []any{map[string]any{"name": "db", "plugin": "database"}}}))
	}
	first, second := s.file("database@1.0.0", database("1.0.0", server.Env())), s.file("database@2.0.0", database("2.0.0", server.Env()))
	apply := func() {
		s.Helper()
		for _, file := range files {
			s.run(exit.OK, nil, "sandbox", "apply", "-f", file, "--wait-timeout", patience.String())
		}
		databases("v1.0.0-checkout", "v1.0.0-search")
		both := []string{"checkout", "east", "search", "west"}
		s.run(exit.No, both, "resourceplugin", "delete", "database@1.0.0")
		status, text := s.call(http.MethodDelete, "resource-plugins/database?version=1.0.0", "")
		for _, word := range both {
			if status != http.StatusBadRequest || !strings.Contains(text, word) {
				s.Errorf("the deletion of a version in use: %d %s", status, text)
			}
		}
	}
	s.run(exit.OK, nil, "resourceplugin", "apply", "-f", first)
	apply()
	s.run(exit.OK, nil, "resourceplugin", "apply", "-f", second)
	apply() // without a version they keep their own
	s.run(exit.OK, nil, "resourceplugin", "delete", "database@2.0.0")
	s.run(exit.OK, nil, "resourceplugin", "apply", "-f", second)

	for _, file := range files {
		s.run(exit.OK, nil, "sandbox", "delete", "-f", file, "--wait-timeout", patience.String())
	}
	dropped, err := server.Lines()
	s.must(err)
	slices.SortFunc(dropped, func(a, b ledger.Line) int { return strings.Compare(a.Pod, b.Pod) })
	if want := []ledger.Line{{Pod: "v1.0.0-checkout", Entry: "dropped"}, {Pod: "v1.0.0-search", Entry: "dropped"}}; !slices.Equal(dropped, want) {
		s.Errorf("dropped: %v, want %v", dropped, want)
	}
	databases()
	for _, version := range []string{"1.0.0", "2.0.0"} {
		s.run(exit.OK, nil, "resourceplugin", "delete", "database@"+version)
	}
	s.clean(empty)
}

// clean waits until the clusters have the objects that they had before.
func (s *site) clean(before []string) {
	s.Helper()
	wait.Eventually(s.T, patience, "the clusters are as before", func() error {
		left := slices.DeleteFunc(s.inClusters(), func(o string) bool { return slices.Contains(before, o) })
		if len(left) > 0 {
			return errors.New(strings.Join(left, ", "))
		}
		return nil
	})
}

// inClusters returns the names of the objects of all clusters that sandboxes can leave.
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
	return out
}
