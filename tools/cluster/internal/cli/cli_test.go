package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/tools/cluster/internal/cluster"
	"switchyard.dev/tools/cluster/internal/layout"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		want Command
	}{
		"a bare command":                             {"up", Command{Name: "up"}},
		"flags before the command":                   {"-name x -state /s up", Command{Name: "up", Config: layout.Config{Name: "x", State: "/s"}}},
		"flags after the command":                    {"up --name=x", Command{Name: "up", Config: layout.Config{Name: "x"}}},
		"build of one group":                         {"build --only apiserver", Command{Name: "build", Only: "apiserver"}},
		"exec keeps the flags of its command":        {"exec -- kubectl get -name pods", Command{Name: "exec", Args: []string{"kubectl", "get", "-name", "pods"}}},
		"exec works without the dashes too":          {"exec bash", Command{Name: "exec", Args: []string{"bash"}}},
		"exec keeps dashes that belong to a command": {"exec -- kubectl exec p -- ls", Command{Name: "exec", Args: []string{"kubectl", "exec", "p", "--", "ls"}}},
		"load takes files":                           {"load a.tar b.tar", Command{Name: "load", Args: []string{"a.tar", "b.tar"}}},
		"asking for help with a flag":                {"-h", Command{Name: "help"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(strings.Fields(c.line))
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Args) == 0 {
				got.Args = nil
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, line := range map[string]string{
		"nothing":                        "",
		"an unknown command":             "start",
		"an unknown flag":                "up -fast",
		"an argument of up":              "up now",
		"a group for another than build": "up -only apiserver",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Parse(strings.Fields(line)); !errors.Is(err, ErrUsage) {
				t.Errorf("got %+v, %v, want a hint to the help", got, err)
			}
		})
	}
}

func TestHelpListsEveryCommand(t *testing.T) {
	var out strings.Builder
	if err := Run(t.Context(), Command{Name: "help"}, cluster.Cluster{Out: &out}); err != nil {
		t.Fatal(err)
	}
	for _, c := range commands {
		if !strings.Contains(out.String(), "cluster "+c) && c != "help" {
			t.Errorf("no word about %s", c)
		}
	}
}
