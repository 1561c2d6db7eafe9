package wire

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"switchyard.dev/tools/traffic"
)

// Echo is a server of Go's own that answers with the request, over HTTP/1 and HTTP/2.
func Echo() *http.Server {
	return &http.Server{Protocols: traffic.Protocols(true, true), Handler: http.HandlerFunc(echo), ReadHeaderTimeout: idle}
}

func echo(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	var lines []string
	for name, values := range q.Header {
		for _, value := range values {
			lines = append(lines, strings.ToLower(name)+": "+brief(value))
		}
	}
	for name, values := range q.Trailer {
		lines = append(lines, "trailer "+strings.ToLower(name)+": "+strings.Join(values, ", "))
	}
	slices.Sort(lines)
	lines = slices.DeleteFunc(lines, ownHop)
	answer := fmt.Sprintf("%s %s %s %s %q %v\n%s\n", q.Method, brief(q.RequestURI), q.Proto, q.Host, brief(string(body)), err != nil, strings.Join(briefly(lines, 0), "\n"))
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
	_, _ = io.WriteString(w, answer)
}
