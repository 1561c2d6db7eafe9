package sshd

import (
	"fmt"
	"regexp"
	"strings"

	"switchyard.dev/eventbus/lists"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/cluster"
	"switchyard.dev/tunnels/inbound"
)

type clusterPort = cluster.Port

// label matches a part of the name of an external workload.
var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// kinds may follow the namespace: published clients write the kind of the baseline there.
var kinds = []string{"deploy", "deployment", "rollout", "argorollout", "revtun"}

// parseTarget parses the address of a requested forward: NAME.NAMESPACE[.KIND] and a port.
func parseTarget(host string, port uint32) (target, error) {
	parts := strings.Split(host, ".")
	if len(parts) == 3 {
		for _, k := range kinds {
			if strings.EqualFold(parts[2], k) {
				parts = parts[:2]
				break
			}
		}
	}
	if len(parts) != 2 || !label.MatchString(parts[0]) || !label.MatchString(parts[1]) {
		return target{}, fmt.Errorf("%.253q names no external workload: write ssh -R NAME.NAMESPACE:PORT:localhost:8080, with the name of the SignadotExternalWorkload", host)
	}
	if port == 0 || port > 65535 {
		return target{}, fmt.Errorf("port %d is none of a baseline: give the container port that the external workload lists", port)
	}
	return target{inbound.Key{Namespace: parts[1], Name: parts[0]}, int32(port)}, nil
}

func portsOf(w cluster.Workload) []int32 {
	return lists.Map(w.Ports, func(p cluster.Port) int32 { return p.Baseline })
}

func refusal(reason tunnelv1.Reason, format string, args ...any) *tunnelv1.Refused {
	return &tunnelv1.Refused{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
