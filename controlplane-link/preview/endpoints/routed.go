package endpoints

import "fmt"

// Unrouted returns why requests with the routing key could reach baselines instead of the owner: it is not ready, or
// its last change was not observed. The text is for people, in sentences; empty: they are routed.
func (e Endpoint) Unrouted() string {
	s, what := e.Status, "Sandbox"
	if e.Group {
		what = "Route group"
		part, has := s.Clusters[e.Cluster.Name]
		if !has {
			return fmt.Sprintf("Route group %s has no sandbox in cluster %s.", e.Owner, e.Cluster.Name)
		}
		s = part
	}
	switch {
	case s.Generation < e.Generation:
		return fmt.Sprintf("%s %s was changed, and cluster %s has not reported the change yet.", what, e.Owner, e.Cluster.Name)
	case !s.Ready && s.Message != "":
		return fmt.Sprintf("%s %s is not ready: %s", what, e.Owner, s.Message)
	case !s.Ready:
		return fmt.Sprintf("%s %s is not ready.", what, e.Owner)
	}
	return ""
}
