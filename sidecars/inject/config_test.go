package inject

import (
	"strings"
	"testing"
)

func TestFromEnvReadsWhatTheChartSets(t *testing.T) {
	env := map[string]string{
		"ROUTE_SIDECAR_IMAGE":                  "r/sidecar:1",
		"ROUTE_SIDECAR_IMAGE_PULL_POLICY":      "Always",
		"ROUTE_SIDECAR_IMAGE_PULL_SECRET":      "registry",
		"DEV_MESH_SIDECAR_CONTAINER_RESOURCES": `{"limits":{"cpu":"500m"}}`,
		"SIDECAR_INIT_IMAGE":                   "r/init:1",
	}
	c, err := FromEnv(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	if c.Sidecar.Image != "r/sidecar:1" || c.Sidecar.PullPolicy != "Always" || c.Sidecar.PullSecret != "registry" ||
		c.Sidecar.Resources.Limits.Cpu().MilliValue() != 500 || len(c.Sidecar.Resources.Requests) != 0 {
		t.Errorf("sidecar %+v", c.Sidecar)
	}
	if c.Redirect.Image != "r/init:1" || c.Redirect.PullPolicy != "IfNotPresent" ||
		c.Redirect.Resources.Requests.Memory().String() != "128Mi" {
		t.Errorf("redirect %+v", c.Redirect)
	}
}

func TestAConfigThatCannotWorkIsRefused(t *testing.T) {
	cases := map[string]struct {
		env  map[string]string
		want string
	}{
		"no image":                 {map[string]string{"SIDECAR_INIT_IMAGE": "i"}, "no image for the sidecar container"},
		"resources that are YAML":  {map[string]string{"DEV_MESH_INIT_CONTAINER_RESOURCES": "limits:"}, "not a resources object"},
		"a pull policy misspelled": {map[string]string{"SIDECAR_INIT_IMAGE_PULL_POLICY": "never"}, `pull policy "never"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := FromEnv(func(name string) string { return c.env[name] })
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	for name, c := range map[string]Config{
		"a log level":   {LogLevel: "loud"},
		"iptables mode": {IptablesMode: "ebpf"},
	} {
		c.Sidecar.Image, c.Redirect.Image = "a", "b"
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(name, "a ")) {
			t.Errorf("error %v does not name %s", err, name)
		}
	}
}
