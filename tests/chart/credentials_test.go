package chart

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// secretsOf names the Secrets that a pod has for a bus of somebody else's.
func secretsOf(spec corev1.PodSpec) string {
	var names []string
	for _, v := range spec.Volumes {
		if v.Name != "eventbus-credentials" {
			continue
		}
		for _, source := range v.Projected.Sources {
			names = append(names, source.Secret.Name)
		}
	}
	return strings.Join(names, " ")
}

func TestWriterAndFollowersHaveCredentialsOfTheirOwn(t *testing.T) {
	for values, want := range map[string]struct{ manager, routeServer string }{
		"":                        {"", ""},
		"credentialsSecret: both": {"both", "both"},
		"credentialsSecret: writes, followerCredentialsSecret: reads": {"writes", "reads"},
		"followerCredentialsSecret: reads":                            {"", "reads"},
		"certSecret: both":                                            {"both", "both"},
		"certSecret: writes, followerCertSecret: reads":               {"writes", "reads"},
		"caSecret: ca, credentialsSecret: a, certSecret: b, followerCertSecret: c, followerCredentialsSecret: d": {"a ca b", "d ca c"},
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			all := mustRender(t, "eventBus: {external: {url: 'nats://there:4222', "+values+"}}")
			if got := secretsOf(all.podOf(t, "signadot-controller-manager")); got != want.manager {
				t.Errorf("the manager has %q, want %q", got, want.manager)
			}
			if got := secretsOf(all.podOf(t, "routeserver")); got != want.routeServer {
				t.Errorf("route servers have %q, want %q", got, want.routeServer)
			}
		})
	}
}
