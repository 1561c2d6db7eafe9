package program

import (
	"bufio"
	"os"
	"strings"
)

// ResolverFile is the resolver configuration that the kubelet writes for a pod.
const ResolverFile = "/etc/resolv.conf"

// ClusterDomain returns the domain of the cluster's Services, which the kubelet writes into
// each pod's resolver configuration: among the search domains, after "svc.". It is empty if the
// file does not contain it, as outside a pod.
func ClusterDomain(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // It was only read.
	domain := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0] != "search" {
			continue
		}
		domain = "" // Only the last line counts for the resolver.
		for _, d := range fields[1:] {
			if of, is := strings.CutPrefix(d, "svc."); is && domain == "" {
				domain = strings.TrimSuffix(of, ".")
			}
		}
	}
	return domain
}
