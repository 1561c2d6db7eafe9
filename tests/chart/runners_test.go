package chart

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/clusterconfig"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/golden"
	"switchyard.dev/workflows/jobexec/results"
	"switchyard.dev/workflows/jobpod"
)

// The values of the chart are effective in the pods that the manager creates for a runner group: the recorded files have
// such a pod, as the manager renders it from its environment and configuration.
func TestRunnersAreRenderedFromTheValues(t *testing.T) {
	const folder = "testdata/runners"
	group := &crdv1.JobRunnerGroup{}
	group.Name, group.Namespace, group.UID = "tests", "shop", "11111111-1111-1111-1111-111111111111"
	group.Spec.Image = "alpine:3.22"
	for name, values := range casesIn(t, folder) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := mustRender(t, values)
			spec := all.podOf(t, "signadot-controller-manager")
			settings, err := manager.ParseSettings(spec.Containers[0].Args, getenv(spec), t.Output())
			if err != nil {
				t.Fatal(err)
			}
			config := as[corev1.ConfigMap](t, all.find("ConfigMap", namespace, "cluster-config"))
			cluster, err := clusterconfig.Parse([]byte(config.Data["cluster_config.yaml"]))
			if err != nil {
				t.Fatal(err)
			}
			jobs := settings.JobsIn(cluster)
			text := ""
			for _, part := range []any{
				map[string]any{"allow": jobs.Settings.Allow, "results": jobs.Limits, "finished": jobs.Finished},
				jobpod.Pod(group, "tests-random", jobs.Settings),
			} {
				document, err := yaml.Marshal(part)
				if err != nil {
					t.Fatal(err)
				}
				text += "---\n" + string(document)
			}
			golden.Compare(t, filepath.Join(folder, name+".yaml"), text)
		})
	}
}

// The manager, and no other pod, has the bucket of jobs and its credentials.
func TestTheManagerHasTheBucketOfJobs(t *testing.T) {
	for values, secret := range map[string]string{
		"jobs: {s3: {bucket: results, endpoint: \"https://s3.local\", region: here, secret: bucket-keys}}": "bucket-keys",
		"jobs: {s3: {bucket: results, endpoint: \"https://s3.local\", region: here}}":                      "",
	} {
		all := mustRender(t, values)
		config := as[corev1.ConfigMap](t, all.find("ConfigMap", namespace, "cluster-config"))
		cluster, err := clusterconfig.Parse([]byte(config.Data["cluster_config.yaml"]))
		if err != nil {
			t.Fatal(err)
		}
		spec := all.podOf(t, "signadot-controller-manager")
		settings, err := manager.ParseSettings(spec.Containers[0].Args, getenv(spec), t.Output())
		if err != nil {
			t.Fatal(err)
		}
		if got := settings.JobsIn(cluster).S3; got != (results.S3{Bucket: "results", Endpoint: "https://s3.local", Region: "here"}) {
			t.Errorf("%+v", got)
		}
		group := &crdv1.JobRunnerGroup{}
		group.Name, group.Namespace, group.Spec.Image = "tests", "shop", "alpine:3.22"
		pod, err := yaml.Marshal(jobpod.Pod(group, "tests-random", settings.JobsIn(cluster).Settings))
		if text := string(pod); err != nil || strings.Contains(text, "AWS_") || strings.Contains(text, "bucket-keys") || strings.Contains(text, "s3.local") {
			t.Errorf("a runner has the bucket or its credentials: %s, %v", text, err)
		}
		for _, w := range all.workloads(t) {
			var from []string
			for _, c := range w.template.Spec.Containers {
				for _, v := range c.Env {
					if (strings.HasPrefix(v.Name, "AWS_") || v.Name == "S3_CA") && v.ValueFrom != nil {
						from = append(from, v.ValueFrom.SecretKeyRef.Name+" "+v.ValueFrom.SecretKeyRef.Key)
					}
				}
			}
			want := []string{secret + " AWS_ACCESS_KEY_ID", secret + " AWS_SECRET_ACCESS_KEY", secret + " ca.crt"}
			if secret == "" || w.object.GetName() != "signadot-controller-manager" {
				want = nil
			}
			if !slices.Equal(from, want) {
				t.Errorf("%s: %q", w.object.GetName(), from)
			}
		}
	}
}
