package spec_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/spec"
)

func TestLifetimes(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1m": time.Minute, "90m": 90 * time.Minute, "2d": 48 * time.Hour, "3w": 3 * 7 * 24 * time.Hour, "4294967295w": math.MaxInt64,
		"": 0, "0h": 0, "-1h": 0, "1.5h": 0, "1s": 0, "2 d": 0, "4294967296m": 0, "h": 0,
	} {
		if got, err := spec.Lifetime(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

func TestEndOfASandbox(t *testing.T) {
	created := time.Date(2026, 11, 24, 1, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		noted map[string]string
		want  string
	}{
		"no lifetime":              {nil, "never"},
		"from its creation":        {map[string]string{crdv1.AnnotationTTL: "2h"}, "2026-11-24T03:00:00Z"},
		"from its last change":     {map[string]string{crdv1.AnnotationTTL: "2h", crdv1.AnnotationTTLFrom: "updatedAt", crdv1.AnnotationUpdatedAt: "2026-11-24T02:30:00Z"}, "2026-11-24T04:30:00Z"},
		"never changed":            {map[string]string{crdv1.AnnotationTTL: "2h", crdv1.AnnotationTTLFrom: "updatedAt"}, "2026-11-24T03:00:00Z"},
		"no duration":              {map[string]string{crdv1.AnnotationTTL: "x"}, `annotation signadot.com/ttl is "x"; write a number and m, h, d or w, such as 2d for two days`},
		"from something else":      {map[string]string{crdv1.AnnotationTTL: "2h", crdv1.AnnotationTTLFrom: "birth"}, `annotation signadot.com/ttl-offset-from is "birth"; use createdAt or updatedAt`},
		"changed at no known time": {map[string]string{crdv1.AnnotationTTL: "2h", crdv1.AnnotationTTLFrom: "updatedAt", crdv1.AnnotationUpdatedAt: "noon"}, `annotation signadot.com/updated-at is "noon"; write a time as RFC 3339 has it`},
	} {
		o := &metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created), Annotations: tt.noted}
		at, ends, err := spec.Expires(o)
		got := "never"
		if ends {
			got = at.Format(time.RFC3339)
		}
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %s, not %s", name, got, tt.want)
		}
	}
}

func TestNamesAndVersionsOfPlugins(t *testing.T) {
	var names []spec.PluginName
	for _, text := range []string{"b@1.2.0", "b@1.10.0", "a", "b", "b@1.10.0-rc.1", "b@1.2.0+x"} {
		n, err := spec.ParsePluginName(text)
		if err != nil || n.String() != text {
			t.Errorf("%s: %s, %v", text, n, err)
		}
		names = append(names, n.Defaulted())
	}
	spec.NewestFirst(names)
	if diff := cmp.Diff("[a b@1.10.0 b@1.10.0-rc.1 b@1.2.0+x b@1.2.0 b]", fmt.Sprint(names)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n, err := spec.ParsePluginName("c@0.0.0"); err != nil || n.String() != "c" || n.Next().String() != "c@0.0.1" {
		t.Errorf("%s, %v", n, err)
	}
	for _, text := range []string{"", "@1.0.0", "a@", "a@latest", "a@1.0", "a@1.0.0@2", "-a", "a b", "a{{", "a/b"} {
		if n, err := spec.ParsePluginName(text); err == nil {
			t.Errorf("%q is %s", text, n)
		}
	}
}
