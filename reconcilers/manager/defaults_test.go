package manager_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/program"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/publish"
)

// The state of the cluster decides which defaults an installation has: the first manager of this
// release records them, and they stay.
func TestAnInstallationKeepsTheDefaultsItBeganWith(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		want program.Defaults
	}{
		"new":                      {`{}`, program.Current},
		"of-an-earlier-chart":      {`{epoch: e, sequence: "7"}`, program.Earlier},
		"rolled-back-and-upgraded": {`{epoch: e, sequence: "7", defaults: "1"}`, program.Earlier},
		"new-and-upgraded":         {`{epoch: e, sequence: "7", defaults: "2"}`, program.Current},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t, "defaults-"+name)
			epochs := publish.Epochs{Reader: cluster.Client, Writer: cluster.Client, Namespace: cluster.operator()}
			if d, err := epochs.Defaults(t.Context()); err != nil || !d.Current() {
				t.Errorf("without the chart: %d, %v", d, err)
			}
			cluster.Make(&corev1.ConfigMap{}, `{metadata: {name: `+publish.EpochConfigMap+`, namespace: `+cluster.operator()+`}, data: `+c.data+`}`)
			for range 2 {
				if d, err := epochs.Defaults(t.Context()); err != nil || d != c.want {
					t.Errorf("%d, %v; want %d", d, err, c.want)
				}
			}
			stop := cluster.manage(manager.Config{})
			cluster.Eventually("the routing log is whole", cluster.main.LogReady)
			stop()
			var kept corev1.ConfigMap
			cluster.Must(cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: cluster.operator(), Name: publish.EpochConfigMap}, &kept))
			if d, err := program.ParseDefaults(kept.Data["defaults"]); err != nil || d != c.want || kept.Data["epoch"] == "" {
				t.Errorf("recorded is %v: %v", kept.Data, err)
			}
		})
	}
}
