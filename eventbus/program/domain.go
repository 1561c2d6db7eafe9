package program

import (
	"bufio"
	"os"
	"strings"
)

// ResolverFile is where the kubelet says how a pod finds Services.
const ResolverFile = "/etc/resolv.conf"

// ClusterDomain returns the domain of the cluster's Services, as the kubelet tells it to each pod: it
// stands in the file for the resolver, among the domains to search, after "svc.". It is empty where
// the file does not say it, as outside a pod.
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
