package forkedworkload_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/fork/traffic"
	"switchyard.dev/reconcilers/forkedworkload"
)

// image returns the image of the container that records in the fork that is written; empty: it has none.
func image(t *testing.T, in forkedworkload.Input) string {
	t.Helper()
	d, is := forkedworkload.Decide(in).Fork.(*appsv1.Deployment)
	if !is {
		t.Fatal("no Deployment is written")
	}
	for _, c := range d.Spec.Template.Spec.InitContainers {
		if c.Name == traffic.ContainerName {
			return c.Image
		}
	}
	return ""
}

func TestAnUpgradeRestartsNoFork(t *testing.T) {
	settings := func(image string) traffic.Settings { return traffic.Settings{Image: image, CA: "of " + image} }
	for name, c := range map[string]struct {
		before, now    traffic.Settings
		exists, change bool
		want           string
	}{
		"a new fork gets it":                           {now: settings("v1"), want: "v1"},
		"an existing fork stays as it is":              {exists: true, now: settings("v1"), want: ""},
		"an existing fork gets it with a change":       {exists: true, now: settings("v1"), change: true, want: "v1"},
		"another image and other authorities":          {exists: true, before: settings("v1"), now: settings("v2"), want: "v1"},
		"these with a change":                          {exists: true, before: settings("v1"), now: settings("v2"), change: true, want: "v2"},
		"captures are disabled":                        {exists: true, before: settings("v1"), want: "v1"},
		"captures are disabled, and there is a change": {exists: true, before: settings("v1"), change: true, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			if w.in.Traffic = c.before; c.exists {
				w.runs(t)
			} else {
				w.in.Fork, w.in.Forks = nil, nil
			}
			w.in.Traffic = c.now
			if c.change {
				w.live(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "a:2" })
			}
			if got := image(t, w.in); got != c.want {
				t.Errorf("it records with %q, want %q", got, c.want)
			}
			if c.exists && apply.InLine(forkedworkload.Decide(w.in).Fork, w.in.Fork) == c.change {
				t.Errorf("it writes: %t", !c.change)
			}
		})
	}
}
