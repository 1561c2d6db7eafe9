package manager

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/reconcilers/survey"
)

// A sum over replicas is to count each pod once.
func TestOnlyTheLeaderCountsPods(t *testing.T) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(survey.New(survey.Config{Leads: make(chan struct{})})); err != nil { // a reader would be missed
		t.Fatal(err)
	}
	if families, err := registry.Gather(); err != nil || len(families) > 0 {
		t.Errorf("a replica that does not lead says %v, %v", families, err)
	}
}

func TestThePageTroubleshootingShowsTheLogOfTheLeader(t *testing.T) {
	page, err := os.ReadFile("../../charts/operator/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	const line = `kubectl logs -n signadot "$(kubectl get lease -n signadot ` + leaderID + ` -o jsonpath='{.spec.holderIdentity}' | cut -d_ -f1)"`
	if !strings.Contains(string(page), line) || strings.Contains(string(page), "logs -n signadot deployment/") {
		t.Errorf("the page lacks: %s", line)
	}
}
