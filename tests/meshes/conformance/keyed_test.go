package conformance

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/gateway-api/conformance/utils/grpc"
	"sigs.k8s.io/gateway-api/conformance/utils/roundtripper"
)

const (
	routingKey = "k7q2m9x4v1tz8"
	baggage    = "a=b,sd-routing-key=" + routingKey
)

// atBaselines are tests in which a request with the key reaches a baseline, and why.
var atBaselines = map[string]string{
	"HTTPRouteServiceTypes": "the addresses of two Services are written by hand, so no workload is known to be behind them",
}

// keyedHTTP sends the routing key with each HTTP request, and takes no answer of a baseline.
type keyedHTTP struct{ roundtripper.RoundTripper }

// CaptureRoundTrip sends a request and returns what its backend has seen, as if the fork were the
// backend.
func (k keyedHTTP) CaptureRoundTrip(r roundtripper.Request) (*roundtripper.CapturedRequest, *roundtripper.CapturedResponse, error) {
	r.Headers = maps.Clone(r.Headers)
	if r.Headers == nil {
		r.Headers = map[string][]string{}
	}
	r.Headers["baggage"] = []string{baggage}
	seen, answer, err := k.RoundTripper.CaptureRoundTrip(r)
	if err == nil && seen != nil && seen.Pod != "" {
		seen.Pod, err = asBackend(r.T, seen.Pod)
	}
	return seen, answer, err
}

// keyedGRPC does so for gRPC. Each call has a connection of its own, since calls are made at the
// same time.
type keyedGRPC struct{}

func (keyedGRPC) SendRPC(t *testing.T, address string, expected grpc.ExpectedResponse, timeout time.Duration) (*grpc.Response, error) {
	var metadata grpc.RequestMetadata
	if expected.RequestMetadata != nil {
		metadata = *expected.RequestMetadata
	}
	metadata.Metadata = maps.Clone(metadata.Metadata)
	if metadata.Metadata == nil {
		metadata.Metadata = map[string]string{}
	}
	metadata.Metadata["baggage"] = baggage
	expected.RequestMetadata = &metadata
	client := &grpc.DefaultClient{}
	defer client.Close()
	answer, err := client.SendRPC(t, address, expected, timeout)
	if context := answer.Response.GetAssertions().GetContext(); err == nil && context.GetPod() != "" {
		context.Pod, err = asBackend(t, context.GetPod())
	}
	return answer, err
}

func (keyedGRPC) Close() {}

// podOfFork is a pod of what the operator has made: the sandbox and the backend in its name, with
// a hash of both.
var podOfFork = regexp.MustCompile(`^` + sandboxName + `-(.+)-[0-9a-f]{8}(-[^-]+-[^-]+)$`)

// asBackend returns the name of a fork's pod as a pod of its backend has it; for another pod it
// returns an error, unless the test may reach it.
func asBackend(t *testing.T, pod string) (string, error) {
	if podOfFork.MatchString(pod) {
		return podOfFork.ReplaceAllString(pod, "$1$2"), nil
	}
	if test := strings.Split(t.Name(), "/")[1]; atBaselines[test] != "" {
		return pod, nil
	}
	return pod, fmt.Errorf("a request with the routing key was answered by pod %s of a baseline", pod)
}
