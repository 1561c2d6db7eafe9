package replay

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"switchyard.dev/workflows/comparison/pairing"
)

// Request is a recorded request.
type Request struct {
	ID string
	// Workload is the fork that served it, KIND/NAMESPACE/NAME, and Port the port of its application.
	Workload string
	Port     uint32
	// Target is the path with the query, as it was sent, and Host the authority.
	Method, Target, Host string
	// Protocol is HTTP/1.1, HTTP/2, grpc or websocket.
	Protocol string
	Header   http.Header
	Body     []byte
	// Missing is why the recording does not have all of its body; empty: it does.
	Missing string
}

// path returns the target without the query.
func (r Request) path() string {
	path, _, _ := strings.Cut(r.Target, "?")
	return path
}

// Rule names requests that are sent although they can change data.
type Rule struct{ Method, Path string }

// ParseRule reads a rule, METHOD PATH. The path has no query, and {} for parts that are numbers or other IDs.
func ParseRule(text string) (Rule, error) {
	words := strings.Fields(text)
	if len(words) != 2 || !strings.HasPrefix(words[1], "/") || strings.Contains(words[1], "?") {
		return Rule{}, fmt.Errorf("%q is not METHOD PATH without a query, such as \"POST /orders/{}\"", text)
	}
	return Rule{strings.ToUpper(words[0]), words[1]}, nil
}

func (r Rule) matches(q Request) bool {
	return r.Method == q.Method && (r.Path == q.path() || r.Path == pairing.Template(q.Target))
}

// Listed is a request that was not compared.
type Listed struct {
	ID     string `json:"id"`
	Method string `json:"method"`
	// Target is the path with the query.
	Target string `json:"target"`
	Reason string `json:"reason"`
}

func listed(r Request, format string, args ...any) Listed {
	return Listed{r.ID, r.Method, r.Target, fmt.Sprintf(format, args...)}
}

// Select returns the requests that are sent, at most so many of each endpoint, and the others with the reason: GET, HEAD and
// OPTIONS over HTTP, and those that a rule names.
func Select(all []Request, rules []Rule, most int) (chosen []Request, others []Listed) {
	count := map[[3]string]int{}
	for _, r := range all {
		endpoint := [3]string{r.Workload, r.Method, pairing.Template(r.Target)}
		switch why := unfit(r, rules); {
		case why != "":
			others = append(others, listed(r, "%s", why))
		case count[endpoint] == most:
			others = append(others, listed(r, "at most %d requests of an endpoint are sent", most))
		default:
			count[endpoint]++
			chosen = append(chosen, r)
		}
	}
	return chosen, others
}

// unfit returns why a request is not sent; empty: it is.
func unfit(r Request, rules []Rule) string {
	named := slices.ContainsFunc(rules, func(rule Rule) bool { return rule.matches(r) })
	safe := slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, r.Method)
	switch {
	case r.Protocol == "websocket":
		return "connections of WebSocket are not compared"
	case r.Protocol == "grpc" && !named:
		return "calls of gRPC can change data, and no rule names this one"
	case !safe && !named:
		return r.Method + " can change data, and no rule names this path"
	case strings.HasPrefix(r.Target, "//"):
		return "its target begins with two slashes"
	}
	return r.Missing
}
