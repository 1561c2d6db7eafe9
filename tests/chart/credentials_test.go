package chart

import (
	"strings"
	"testing"
)

func TestWriterAndFollowersHaveCredentialsOfTheirOwn(t *testing.T) {
	for values, want := range map[string][2]string{
		"credentialsSecret: both": {"both", "both"},
		"writerCredentialsSecret: writes, followerCredentialsSecret: reads": {"writes", "reads"},
		"credentialsSecret: both, followerCredentialsSecret: reads":         {"both", "reads"},
		"writerCredentialsSecret: writes":                                   {"writes", ""},
	} {
		all := mustRender(t, "eventBus: {external: {url: 'nats://there:4222', "+values+"}}")
		for i, name := range []string{"signadot-controller-manager", "routeserver"} {
			mounted, told := "", false
			for _, w := range all.workloads(t) {
				if w.object.GetName() != name {
					continue
				}
				for _, v := range w.template.Spec.Volumes {
					if v.Name == "eventbus-credentials" {
						mounted = v.Projected.Sources[0].Secret.Name
					}
				}
				told = strings.Contains(strings.Join(w.template.Spec.Containers[0].Args, " "), "--eventbus-credentials-file=")
			}
			if mounted != want[i] || told != (want[i] != "") {
				t.Errorf("%s: %s has Secret %q, is told of it: %t", values, name, mounted, told)
			}
		}
	}
}
