package routesclient

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"google.golang.org/protobuf/encoding/protojson"

	pb "switchyard.dev/protos/gen/routes"
)

// largestAnswer is the most of an answer that is read, in bytes, and longestError the most of an
// error's text that is returned.
const largestAnswer, longestError = 256 << 20, 1 << 10

// HTTP calls a route server over HTTP.
type HTTP struct {
	// URL is that of the server; in the cluster http://routeserver.signadot.svc:7778. Required.
	URL string
	// Client sends the requests. Default: http.DefaultClient.
	Client *http.Client
}

// Rules returns the rules that match the filter. An error is no empty answer: keep the last rules.
func (h HTTP) Rules(ctx context.Context, filter Filter) ([]*pb.WorkloadRoutingRule, error) {
	query := url.Values{}
	for name, value := range map[string]string{
		"baselineKind": filter.Baseline.Kind, "baselineNamespace": filter.Baseline.Namespace, "baselineName": filter.Baseline.Name,
		"routingKey": filter.RoutingKey, "destinationSandboxName": filter.Sandbox,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+"/api/v1/workloads/routing-rules?"+query.Encode(), nil)
	if err != nil {
		return nil, fmt.Errorf("routesclient: %w", err)
	}
	response, err := cmp.Or(h.Client, http.DefaultClient).Do(request)
	if err != nil {
		return nil, fmt.Errorf("routesclient: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer))
	if err != nil {
		return nil, fmt.Errorf("routesclient: read the answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("routesclient: %s: %.*s", response.Status, longestError, body)
	}
	var rules pb.GetWorkloadRoutingRulesResponse
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, &rules); err != nil {
		return nil, fmt.Errorf("routesclient: the answer is not that of the routes API: %w", err)
	}
	return rules.GetRoutingRules(), nil
}
