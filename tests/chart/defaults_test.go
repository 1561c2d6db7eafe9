package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/reconcilers/publish"
)

// changedDefaults returns the values of which the upgrade page lists another default than before.
func changedDefaults(t *testing.T) (names []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(chartDir, "upgrade.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| value | earlier | current |")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(table, -1) {
		names = append(names, row[1])
	}
	slices.Sort(names)
	return names
}

// keptDefaults returns the values that the notes list with an earlier default.
func keptDefaults(notes string) (names []string) {
	_, list, _ := strings.Cut(notes, "keeps its behaviour.")
	_, list, _ = strings.Cut(list, ":\n")
	for line := range strings.Lines(list) {
		name, _, listed := strings.Cut(strings.TrimPrefix(line, "  "), ": ")
		if !strings.HasPrefix(line, "  ") || !listed {
			break
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// listsKeptDefaults renders the notes for an installation of each kind, which helm reads from the
// cluster.
func (s apiServer) listsKeptDefaults(t *testing.T) {
	all := changedDefaults(t)
	if len(all) < 4 {
		t.Fatalf("the upgrade page lists %q", all)
	}
	without := func(names ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(names, name) })
	}
	earlier := map[string]string{"epoch": "e", "sequence": "7"}
	for name, c := range map[string]struct {
		data   map[string]string
		values string
		want   []string
	}{
		"new":                         {},
		"new, and upgraded":           {data: map[string]string{"epoch": "e", "defaults": "2"}},
		"of an earlier chart":         {data: earlier, want: all},
		"of one, and upgraded before": {data: map[string]string{"epoch": "e", "defaults": "1"}, want: all},
		"of one, with all of the current defaults":   {data: earlier, values: "securityDefaults: current"},
		"new, with all of the earlier defaults":      {values: "securityDefaults: earlier", want: all},
		"of one, with acceptPlain":                   {data: earlier, values: "tls: {acceptPlain: false}", want: without("tls.acceptPlain")},
		"of one, with routes":                        {data: earlier, values: "policies: {routes: refuse}", want: without("policies.routes")},
		"of one, with cidrs":                         {data: earlier, values: "tunnel: {config: {cidrs: any}}", want: without("tunnel.config.cidrs")},
		"of one, with socks5Loopback":                {data: earlier, values: "tunnel: {config: {socks5Loopback: anonymous}}", want: without("tunnel.config.socks5Loopback")},
		"of one, without tunnels":                    {data: earlier, values: "tunnel: {enabled: false}", want: without("tunnel.config.cidrs", "tunnel.config.socks5Loopback")},
		"of one, with the values of that chart":      {data: earlier, values: "policies: null\nsecurityDefaults: null\ntls: null\ntunnel: null", want: all},
		"of one, with a value that did not change":   {data: earlier, values: "policies: {workloads: report}", want: all},
		"of one, with the earlier default":           {data: earlier, values: "tls: {acceptPlain: true}", want: without("tls.acceptPlain")},
		"of one, in which a manager has not run yet": {data: map[string]string{"defaults": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			log := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: publish.EpochConfigMap}, Data: c.data}
			if err := s.Create(t.Context(), log); err != nil {
				t.Fatal(err)
			}
			notes := s.helm(t, c.values, "install", "operator", chartDir, "--dry-run=server", "--take-ownership", "--values=-")
			if err := s.Delete(t.Context(), log); err != nil {
				t.Fatal(err)
			}
			if got := keptDefaults(notes); !slices.Equal(got, c.want) || strings.Contains(notes, "keeps its behaviour") != (len(c.want) > 0) {
				t.Errorf("the notes list %q, want %q", got, c.want)
			}
		})
	}
}
