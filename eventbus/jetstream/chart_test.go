package jetstream_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/logtest"
)

// deployment is the part of a Deployment that configures the connection to the bus.
type deployment struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Template struct {
			Spec struct {
				Containers []struct {
					Args []string
					Env  []struct{ Name, Value string }
				}
				Volumes []struct {
					Projected struct {
						Sources []struct {
							Secret struct {
								Name  string
								Items []struct{ Key, Path string }
							}
						}
					}
				}
			}
		}
	}
}

// rendered returns a Deployment of the chart for an external cluster, from the rendered files
// of tests/chart.
func rendered(t *testing.T, name string) deployment {
	t.Helper()
	text, err := os.ReadFile("../../tests/chart/testdata/external-bus.out.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for documents := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var d deployment
		if err := documents.Decode(&d); errors.Is(err, io.EOF) {
			t.Fatalf("the chart renders no Deployment %s", name)
		} else if err != nil {
			t.Fatal(err)
		}
		if d.Kind == "Deployment" && d.Metadata.Name == name {
			return d
		}
	}
}

// configuration is how a program of the chart reaches the cluster: by its arguments and
// variables, with the files that its volumes have of the Secrets.
func (c *cluster) configuration(t *testing.T, name string, role connect.Role, secrets map[string]map[string]string) connect.Config {
	t.Helper()
	pod := rendered(t, name).Spec.Template.Spec
	mounted := t.TempDir()
	for _, v := range pod.Volumes {
		for _, source := range v.Projected.Sources {
			for _, item := range source.Secret.Items {
				if file := secrets[source.Secret.Name][item.Key]; file != "" {
					content, err := os.ReadFile(filepath.Join(c.dir, file))
					if err != nil {
						t.Fatal(err)
					}
					write(t, filepath.Join(mounted, item.Path), content)
				}
			}
		}
	}
	getenv := func(variable string) string {
		for _, e := range pod.Containers[0].Env {
			if e.Name == variable {
				return e.Value
			}
		}
		return ""
	}
	config := connect.Config{Role: role}
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	replicas := set.Int("eventbus-replicas", 1, "") // the manager's own
	parsed := connect.Flags(set, getenv, &config)
	for _, arg := range pod.Containers[0].Args {
		argument, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if set.Lookup(argument) == nil {
			continue
		}
		if err := set.Set(argument, strings.Replace(value, "/var/run/secrets/eventbus", mounted, 1)); err != nil {
			t.Fatal(err)
		}
	}
	parsed()
	if urls := strings.Split(config.URL, ","); len(urls) != len(c.nodes) || role == connect.Writer && *replicas != len(c.nodes) {
		t.Fatalf("%s is told of %q, and to keep the log %d times", name, urls, *replicas)
	}
	config.URL = c.url() // those names are nobody's here
	return config
}

// TestTheChartsConfigurationIsEnoughForThreeServers: what the chart renders for the manager and
// the route servers takes them to a cluster that asks for all that it can, as the users of
// the README; and the loss of a server does not part them from it.
func TestTheChartsConfigurationIsEnoughForThreeServers(t *testing.T) {
	c := startCluster(t)
	secrets := map[string]map[string]string{
		"bus-writer":   {"nats.creds": manager + ".creds"},
		"bus-follower": {"nats.creds": routeServer + ".creds"},
		"bus-ca":       {"ca.crt": "ca.pem"},
		"bus-client":   {"tls.crt": "client.pem", "tls.key": "client.key"},
	}
	writer, _ := c.open(t, c.configuration(t, "signadot-controller-manager", connect.Writer, secrets))
	reader, _ := c.open(t, c.configuration(t, "routeserver", connect.Follower, secrets))
	if _, err := writer.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	follower, err := reader.Follow(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	for n, between := range []func(){func() {}, func() { c.stop(c.leader(t)) }} {
		between()
		if err := stateFact(ctx, writer, logtest.Fact("a", n)); err != nil {
			t.Fatal(err)
		}
		facts, err := follower.Next(ctx)
		if err != nil || len(facts) != 1 || !event.Same(facts[0].Fact, logtest.Fact("a", n)) {
			t.Fatalf("after fact %d the route server has %v: %v", n, facts, err)
		}
	}
}
