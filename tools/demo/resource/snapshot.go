package resource

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"switchyard.dev/tools/demo"
)

// Namespaces are those in which steps run and objects are made for sandboxes.
var Namespaces = []string{"shop", "signadot"}

// kinds are those of objects that samples, steps and the operator make for a sandbox.
const kinds = "deployments,replicasets,pods,services,endpointslices,secrets,configmaps,leases,persistentvolumeclaims"

// Snapshot is the names of what there is in a cluster, and of the keys in podinfo's own Redis.
type Snapshot struct {
	Objects, Keys []string
}

// Look takes a snapshot. What the operator and Kubernetes keep for themselves is left out.
func Look(ctx context.Context) (s Snapshot, err error) {
	for _, namespace := range Namespaces {
		out, err := demo.Kubectl(ctx, "", "get", kinds, "-n", namespace, "-o", "name")
		if err != nil {
			return s, err
		}
		for _, name := range strings.Fields(out) {
			if namespace != "signadot" || !strings.HasPrefix(name, "lease.") && !strings.HasPrefix(name, "endpointslice.") {
				s.Objects = append(s.Objects, namespace+"/"+name)
			}
		}
	}
	// kubectl keeps what a cluster serves, perhaps from before our kinds were defined; this forgets it.
	if _, err := demo.Kubectl(ctx, "", "api-resources", "--api-group=signadot.com"); err != nil {
		return s, err
	}
	out, err := demo.Kubectl(ctx, "", "get", "signadot", "-A", "-o", "name")
	if err != nil {
		return s, err
	}
	s.Objects = append(s.Objects, strings.Fields(out)...)
	out, err = demo.Kubectl(ctx, "", "exec", "-n", "shop", "deployment/redis", "--", "redis-cli", "--raw", "KEYS", "*")
	for _, key := range strings.Fields(out) {
		if !strings.Contains(key, "podinfo-") { // podinfo and its forks keep their pods' names there for a minute.
			s.Keys = append(s.Keys, key)
		}
	}
	return s, err
}

// Since returns the objects that exist in s and not in before.
func (s Snapshot) Since(before Snapshot) Snapshot {
	return Snapshot{Objects: minus(s.Objects, before.Objects), Keys: minus(s.Keys, before.Keys)}
}

// String lists what there is; empty when that is nothing.
func (s Snapshot) String() string {
	out := slices.Clone(s.Objects)
	for _, k := range s.Keys {
		out = append(out, fmt.Sprintf("key %q in podinfo's own Redis", k))
	}
	return strings.Join(out, ", ")
}

func minus(all, without []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(without, s) })
}
