package sample

import (
	"encoding/json"
	"strings"
)

// shows are what may be read without the right to read Secrets: objects, events, and what the
// operator's programs have logged.
var shows = [][]string{
	{"get", "signadot,events,configmaps,pods,deployments", "-A", "-o", "json"},
	{"logs", "-n", "signadot", "-l", "control-plane=controller-manager", "--all-containers", "--tail=-1"},
	{"logs", "-n", "signadot", "-l", "app=io-context-server", "--all-containers", "--tail=-1"},
	{"logs", "-n", "signadot", "-l", "app=routeserver", "--all-containers", "--tail=-1"},
}

// Hidden checks that texts are to be read in Secrets alone.
func (s *Shop) Hidden(texts ...string) {
	s.Helper()
	s.Kubectl("", "api-resources") // It reads again which kinds a category has; get takes them from its cache.
	for _, args := range shows {
		out := s.Kubectl("", args...)
		for _, text := range texts {
			if strings.Contains(out, text) {
				s.Errorf("the value %q is printed by kubectl %s", text, strings.Join(args, " "))
			}
		}
	}
}

// outputs returns what the steps of a resource gave, as forks have it.
func (s *Shop) outputs(x Sample) (values []string) {
	s.Helper()
	name := s.Kubectl("", "get", "resources.signadot.com", "-l", "signadot.com/sandbox="+x.Sandbox, "-o", "jsonpath={.items[0].status.outputs.secretName}")
	var secret struct {
		Data map[string][]byte `json:"data"`
	}
	s.Must(json.Unmarshal([]byte(s.Kubectl("", "get", "secret", "-n", "shop", name, "-o", "json")), &secret))
	for _, value := range secret.Data {
		values = append(values, string(value))
	}
	if len(values) == 0 {
		s.Errorf("Secret %s has no values", name)
	}
	return values
}
