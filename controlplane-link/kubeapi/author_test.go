package kubeapi

import (
	"encoding/json"
	"strings"
	"testing"

	"switchyard.dev/controlplane-link/kubeapi/table"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// TestPatchesAreMadeInTheNameOfTheirUser shows which patches get their user as author. A webhook takes
// the author of a change from the object, so a patch must neither name another user nor leave the
// former author in a change that is checked.
func TestPatchesAreMadeInTheNameOfTheirUser(t *testing.T) {
	const merge = "application/merge-patch+json"
	jo := crdv1.Author{User: "switchyard:controlplane:acme:jo"}
	for name, c := range map[string]struct {
		form, body     string
		named, refused bool
	}{
		"a specification":               {merge, `{"spec": {"id": "x"}}`, true, false},
		"no specification":              {merge, `{"spec": null}`, true, false},
		"a label":                       {merge, `{"metadata": {"labels": {"a": "b"}}}`, false, false},
		"another annotation":            {merge, `{"metadata": {"annotations": {"a": "b"}}}`, false, false},
		"another author":                {merge, `{"metadata": {"annotations": {"switchyard.dev/author": "{\"user\": \"admin\"}"}}}`, true, false},
		"a routing key":                 {merge, `{"metadata": {"annotations": {"signadot.com/routing-key": "x"}}}`, true, false},
		"no routing key":                {merge, `{"metadata": {"annotations": {"signadot.com/routing-key": null}}}`, true, false},
		"a routing key, another author": {merge, `{"metadata": {"annotations": {"signadot.com/routing-key": "x", "switchyard.dev/author": "{\"user\": \"admin\"}"}}}`, true, false},
		"a lifetime":                    {merge, `{"metadata": {"annotations": {"signadot.com/ttl": "1m"}}}`, true, false},
		"an owner":                      {merge, `{"metadata": {"ownerReferences": [{"name": "x"}]}}`, true, false},
		"no annotations":                {merge, `{"metadata": {"annotations": null}}`, false, true},
		"no annotations, two keys":      {merge, `{"spec": {}, "metadata": {"annotations": {"a": "b"}, "annotations": null}}`, false, true},
		"no metadata":                   {merge, `{"metadata": null}`, false, true},
		"an apply patch of a label":     {applyPatch, "metadata: {labels: {a: b}}", true, false},
	} {
		got, err := authored(table.Request{Group: crdv1.Group, Verb: "patch"}, c.form, []byte(c.body), jo)
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
		if c.refused {
			continue
		}
		var o struct {
			Metadata struct{ Annotations map[string]*string }
		}
		if err := json.Unmarshal(got, &o); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		author := o.Metadata.Annotations[crdv1.AnnotationAuthor]
		if c.named != (author != nil) || c.named && *author != jo.String() || strings.Contains(string(got), "admin") {
			t.Errorf("%s: %s", name, got)
		}
	}
}
