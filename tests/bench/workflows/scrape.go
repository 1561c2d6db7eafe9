package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// parse reads metrics.
func parse(r io.Reader) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(r)
}

// tally is how often the API server was asked to write what: "patch pods/status", …
type tally map[string]float64

// writes returns how often it was since it started.
func (c *cluster) writes(ctx context.Context) (tally, error) {
	content, err := c.raw.Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	all, err := parse(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	t := tally{}
	for _, m := range all["apiserver_request_total"].GetMetric() {
		of := map[string]string{}
		for _, l := range m.GetLabel() {
			of[l.GetName()] = l.GetValue()
		}
		verb, writes := verbs[of["verb"]]
		what := of["resource"]
		if of["subresource"] != "" {
			what += "/" + of["subresource"]
		}
		if writes && of["code"][0] == '2' && !aside[what] {
			t[verb+" "+what] += m.GetCounter().GetValue()
		}
	}
	return t, nil
}

var verbs = map[string]string{
	"POST": "create", "PUT": "update", "PATCH": "patch", "APPLY": "patch", "DELETE": "delete", "DELETECOLLECTION": "delete",
}

// aside are requests that write no object, or are not caused by a script.
var aside = map[string]bool{
	"leases": true, "nodes": true, "nodes/status": true, "serviceaccounts/token": true, "tokenreviews": true,
	"subjectaccessreviews": true, "selfsubjectaccessreviews": true, "localsubjectaccessreviews": true,
}

// since returns the writes after an earlier tally.
func (t tally) since(before tally) tally {
	out := tally{}
	for what, n := range t {
		if n -= before[what]; n > 0 {
			out[what] = n
		}
	}
	return out
}

// memory returns what the pods of a program that hold the most hold, in MiB.
func (c *cluster) memory(ctx context.Context, label, app string, port int) (float64, error) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace("signadot"), client.MatchingLabels{label: app}); err != nil {
		return 0, err
	}
	most := 0.0
	for _, p := range pods.Items {
		if p.Status.PodIP == "" || p.DeletionTimestamp != nil {
			continue
		}
		all, err := scrape(ctx, fmt.Sprintf("http://%s:%d/metrics", p.Status.PodIP, port))
		if err != nil {
			return 0, err
		}
		for _, m := range all["process_resident_memory_bytes"].GetMetric() {
			most = max(most, m.GetGauge().GetValue()/(1<<20))
		}
	}
	if most == 0 {
		return 0, fmt.Errorf("no pod of %s reports its memory", app)
	}
	return most, nil
}

func scrape(ctx context.Context, url string) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return parse(answer.Body)
}
