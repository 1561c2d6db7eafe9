package main

import (
	"bufio"
	"bytes"
	"context"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/tools/traffic"
)

// Metrics of the webhook and of the API server.
const (
	handled    = "switchyard_webhook_review_seconds"
	called     = "apiserver_admission_webhook_admission_duration_seconds"
	failedOpen = "apiserver_admission_webhook_fail_open_count"
)

// series are the values of a process's metrics at one time.
type series map[string]float64

// read reads metrics in their text form: a name with its labels, and a value.
func read(text []byte) series {
	s := series{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		if value, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			s[line[:at]] += value
		}
	}
	return s
}

func (r *rig) ofTheAPIServer(ctx context.Context) (series, error) {
	text, err := r.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	return read(text), err
}

// ofTheManager reads its counters: requests within a second share one answer.
func (r *rig) ofTheManager(ctx context.Context) (series, error) {
	time.Sleep(time.Second)
	text, err := traffic.Fetch(ctx, pages, "http://"+r.metrics+"/metrics")
	return read(text), err
}

// pages gets pages of the manager.
var pages = &http.Client{Timeout: 10 * time.Second}

// sum adds up the series of a name, whatever their labels.
func (s series) sum(name string) (sum float64) {
	for labelled, value := range s {
		if labelled == name || strings.HasPrefix(labelled, name+"{") {
			sum += value
		}
	}
	return sum
}

// since returns the increments since an earlier reading.
func (s series) since(before series) series {
	out := series{}
	for name, value := range s {
		out[name] = value - before[name]
	}
	return out
}

// upTo returns how many a histogram has counted up to each of its bounds.
func (s series) upTo(histogram string) map[float64]float64 {
	out := map[float64]float64{}
	for labelled, value := range s {
		if !strings.HasPrefix(labelled, histogram+"_bucket{") {
			continue
		}
		_, le, _ := strings.Cut(labelled, `le="`)
		le, _, _ = strings.Cut(le, `"`)
		if bound, err := strconv.ParseFloat(le, 64); err == nil {
			out[bound] += value
		}
	}
	return out
}

// quantile returns the value that a share q of a histogram's measurements did not
// exceed, with those of one bucket spread evenly over it.
func (s series) quantile(histogram string, q float64) float64 {
	counts := s.upTo(histogram)
	rank, below, lower := q*counts[math.Inf(1)], 0.0, 0.0
	for _, bound := range slices.Sorted(maps.Keys(counts)) {
		if counts[bound] >= rank && counts[bound] > below {
			return lower + (bound-lower)*(rank-below)/(counts[bound]-below)
		}
		below, lower = counts[bound], bound
	}
	return 0
}
