package sidecarscope_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/sidecarscope"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestHidden has Service shop/customer with a VirtualService in namespace routes.
func TestHidden(t *testing.T) {
	const host = "customer.shop.svc.cluster.local"
	listing := func(namespace string, hosts ...string) string {
		return `{metadata: {name: default, namespace: ` + namespace + `}, spec: {egress: [{hosts: ["` + strings.Join(hosts, `", "`) + `"]}]}}`
	}
	for name, c := range map[string]struct {
		sidecar, annotation string
		want                string
	}{
		"the namespace of the VirtualService is missing": {listing("shop", "./*", "istio-system/*"), "false", "lost"},
		"the host is missing":                            {listing("shop", "routes/other.shop.svc.cluster.local"), "false", "lost"},
		"another Service is listed":                      {listing("shop", "./other.shop.svc.cluster.local", "istio-system/*"), "false", "lost"},
		"the namespace calls nothing":                    {listing("shop", "~/*"), "false", "note"},
		"the namespace calls the control plane alone":    {listing("shop", "istio-system/*"), "false", "note"},
		"some of its workloads call nothing":             {`{metadata: {name: x, namespace: shop}, spec: {workloadSelector: {labels: {a: b}}, egress: [{hosts: ["~/*"]}]}}`, "false", ""},
		"the root namespace's":                           {listing("istio-system", "./*"), "false", "lost"},
		"listed":                                         {listing("shop", "./*", "routes/"+host), "false", ""},
		"listed by wildcards":                            {listing("shop", "*/*.shop.svc.cluster.local"), "false", ""},
		"no restriction":                                 {`{metadata: {name: default, namespace: shop}, spec: {workloadSelector: {labels: {a: b}}}}`, "false", ""},
		"no workload calls it":                           {listing("shop", "./*"), "true", ""},
		"a client that lists the Service alone":          {listing("client", "shop/*"), "false", "note"},
		"a client that does not call it":                 {listing("client", "./*"), "false", ""},
		"some workloads":                                 {`{metadata: {name: x, namespace: shop}, spec: {workloadSelector: {labels: {a: b}}, egress: [{hosts: ["./*"]}]}}`, "false", "note"},
	} {
		t.Run(name, func(t *testing.T) {
			vs := object(t, `{metadata: {name: customer, namespace: routes, annotations: {istio.signadot.com/gateways-only: "`+c.annotation+`"}}, spec: {hosts: [`+host+`]}}`)
			got, remedy := "", ""
			for id, all := range sidecarscope.Hidden("cluster.local", []istio.Service{{Namespace: "shop", Name: "customer"}}, []*unstructured.Unstructured{vs}, []*unstructured.Unstructured{object(t, c.sidecar)}) {
				if got, remedy = "note", all[0].Message; all[0].Lost {
					got = "lost"
				}
				if id.Name != "customer" || len(all) != 1 {
					t.Errorf("%s: %v", id, all)
				}
			}
			if got != c.want || got != "" && !strings.Contains(remedy, "Add routes/"+host+" to spec.egress[].hosts") {
				t.Errorf("%q: %s", got, remedy)
			}
		})
	}
}
