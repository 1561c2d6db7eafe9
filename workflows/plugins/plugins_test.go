package plugins_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/tests/world"
	"switchyard.dev/workflows/plugins"
	"switchyard.dev/workflows/spec"
)

func TestMain(m *testing.M) { world.Main(m) }

// A user who can create ConfigMaps in the operator's namespace replaces no version of a plugin, adds
// no higher one, and keeps no other from being read.
func TestAPluginCountsUnderItsOwnNameAndWhenItCannotChange(t *testing.T) {
	w := world.Shared(t)
	var skipped []string
	s := plugins.Store{Client: w.Client, Namespace: w.NewNamespace("plugins"), Warn: func(message string) { skipped = append(skipped, message) }}
	w.Must(put(t, s, "db@1.0.0", "honest"))
	list, err := s.List(t.Context())
	w.Must(err)
	if len(list) != 1 || len(skipped) > 0 {
		t.Fatalf("%+v, skipped %q", list, skipped)
	}
	var honest corev1.ConfigMapList
	w.List(&honest, client.InNamespace(s.Namespace), client.HasLabels{"signadot.com/resource-plugin"})
	labels, text := honest.Items[0].Labels, honest.Items[0].Data["plugin.json"]
	for name, content := range map[string]string{
		"zzz": strings.Replace(text, "honest", "attacker", 1), "higher": strings.Replace(text, "1.0.0", "9.0.0", 1), "unread": "{", "unnamed": "{}",
	} {
		w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name, Labels: labels}, Immutable: new(true), Data: map[string]string{"plugin.json": content}})
	}
	// One that has the right name and can be changed.
	w.Must(put(t, s, "cache@1.0.0", "honest"))
	var all corev1.ConfigMapList
	w.List(&all, client.InNamespace(s.Namespace), client.MatchingLabels{"signadot.com/resource-plugin": "cache"})
	mutable := all.Items[0].DeepCopy()
	w.Remove(&all.Items[0])
	mutable.ObjectMeta = metav1.ObjectMeta{Namespace: s.Namespace, Name: mutable.Name, Labels: mutable.Labels}
	mutable.Immutable = nil
	w.Create(mutable)

	list, err = s.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Plugin.Spec.Description != "honest" || list[0].Name.Version != "1.0.0" {
		t.Errorf("%v: %+v", err, list)
	}
	if len(skipped) != 5 {
		t.Errorf("%d are skipped: %q", len(skipped), skipped)
	}
	for _, message := range skipped {
		if !strings.Contains(message, "ConfigMap "+s.Namespace+"/") || !strings.Contains(message, "Delete it") {
			t.Errorf("a warning without object or remedy: %s", message)
		}
	}
}

func put(t *testing.T, s plugins.Store, name, description string) error {
	t.Helper()
	p := spec.Plugin{Name: name}
	p.Spec.Description = description
	_, err := s.Put(t.Context(), p)
	return err
}
