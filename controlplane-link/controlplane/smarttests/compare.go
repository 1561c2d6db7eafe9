package smarttests

import (
	"cmp"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/eventbus/lists"
	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/workflows/comparison"
	"switchyard.dev/workflows/comparison/exchange"
	"switchyard.dev/workflows/comparison/noise"
)

// Compare compares the captured calls of both sides; false: a side has none.
func Compare(x model.TestExecution, printed map[Side]Printed) (comparison.Result, bool) {
	base, target := captured(x, printed[Baseline]), captured(x, printed[Target])
	if len(base) == 0 || len(target) == 0 {
		return comparison.Result{}, false
	}
	return comparison.Compare(base, target, comparison.Options{}), true
}

// captured returns the captured calls of the runs of a side.
func captured(x model.TestExecution, p Printed) (out []exchange.Run) {
	for _, r := range p.Runs {
		var run exchange.Run
		for _, c := range r.Calls {
			e := &trafficv1.Exchange{}
			if c.Exchange == nil || protojson.Unmarshal(c.Exchange, e) != nil {
				continue
			}
			run = append(run, exchange.Exchange{
				ID: e.GetId(), Test: x.Test, Name: c.Name, Method: e.GetRequest().GetMethod(), Path: e.GetRequest().GetTarget(),
				Request: message(e.GetRequest()), Response: message(e.GetResponse()),
			})
		}
		if len(run) > 0 {
			out = append(out, run)
		}
	}
	return out
}

// own are headers that differ in each call: that of its trace, which the interpreter sets, and the time of the response.
var own = map[string]bool{"Traceparent": true, "Date": true}

func message(m *trafficv1.Message) exchange.Message {
	fields := func(all []*trafficv1.Header) (out []exchange.Field) {
		for _, h := range all {
			if !own[h.GetName()] {
				out = append(out, exchange.Field{Name: h.GetName(), Value: h.GetValue()})
			}
		}
		return out
	}
	return exchange.Message{
		Status: int(m.GetStatus()), Header: fields(m.GetHeaders()), Trailer: fields(m.GetTrailers()), Body: m.GetBody(),
		Size: int64(m.GetBodySize()), SHA256: hex.EncodeToString(m.GetBodySha256()), //nolint:gosec // the size of a body
	}
}

// point is where calls of an execution are captured.
func point(x model.TestExecution) v2.TrafficmodelsBy {
	return v2.TrafficmodelsBy{Direction: "Outbound", Kind: "Job", Name: JobName(x.ID, Target), Namespace: new(crdv1.SmartTestsNamespace)}
}

// mostUnpaired bounds the captures in a row that the other side lacks.
const mostUnpaired = 1000

// Diff returns the summary of the comparison; nil: a side has no captures.
func Diff(x model.TestExecution, printed map[Side]Printed) *v2.TrafficDiff {
	r, is := Compare(x, printed)
	if !is {
		return nil
	}
	out := summary(r)
	out.BaselineSession, out.TargetSession, out.CapturePoints = new(JobName(x.ID, Baseline)), new(JobName(x.ID, Target)), []v2.TrafficmodelsBy{point(x)}
	return &out
}

// summary counts the calls of a comparison, and names those that one side lacks.
func summary(r comparison.Result) (out v2.TrafficDiff) {
	var all v2.TrafficDiffSummary
	for _, call := range r.Calls {
		count(&all, call)
		count(map[noise.Colour]*v2.TrafficDiffSummary{noise.Red: &out.Red, noise.Yellow: &out.Yellow, noise.Green: &out.Green}[call.Colour()], call)
	}
	out.Captures, out.Additions, out.Removals, out.Replacements, out.MaxRelevance = all.Captures, all.Additions, all.Removals, all.Replacements, all.MaxRelevance
	for _, u := range r.Unpaired[:min(len(r.Unpaired), mostUnpaired)] {
		if id := orNil(u.Exchange.ID); u.Fork {
			out.UnpairedCaptures = append(out.UnpairedCaptures, v2.TestexecutionsUnpairedCapture{TargetCaptureID: id})
		} else {
			out.UnpairedCaptures = append(out.UnpairedCaptures, v2.TestexecutionsUnpairedCapture{BaselineCaptureID: id})
		}
	}
	return out
}

// count adds a call to a summary.
func count(to *v2.TrafficDiffSummary, call comparison.Compared) {
	to.Captures++
	for _, f := range slices.Concat(call.Request, call.Response) {
		switch f.Operation {
		case noise.Add:
			to.Additions++
		case noise.Remove:
			to.Removals++
		default:
			to.Replacements++
		}
		to.MaxRelevance = max(to.MaxRelevance, 1-noiseOf(f))
	}
}

// undecided is the noise of a finding that can be a change or noise.
const undecided = 0.5

// noiseOf returns how probably a finding is noise, from 0 to 1; its relevance is the rest to 1.
func noiseOf(f noise.Finding) float32 { return float32(min(f.Level, undecided)) }

// operation returns a finding.
func operation(f noise.Finding) v2.DiffOp {
	return v2.DiffOp{Classification: &v2.DiffOpClassification{Noise: noiseOf(f)}, OldValue: f.Old.Any(), Value: f.New.Any(), Op: new(string(f.Operation)), Path: new("/" + f.At)}
}

// Findings are the differences to return.
type Findings struct {
	// Colours are those of the calls. Most bounds the operations; 0: all. Calls after the last operation are left out.
	Colours []noise.Colour
	Most    int
	// Messages: with the messages of the calls.
	Messages bool
}

// Differences returns the calls of both sides with what differs.
func Differences(x model.TestExecution, printed map[Side]Printed, of Findings) v2.TrafficDiffResult {
	out := v2.TrafficDiffResult{Baseline: new(JobName(x.ID, Baseline)), Target: new(JobName(x.ID, Target))}
	r, is := Compare(x, printed)
	if !is {
		return out
	}
	at, left := v2.TrafficDiffPointResult{By: point(x)}, cmp.Or(of.Most, math.MaxInt)
	operations := func(all []noise.Finding) []v2.DiffOp {
		all = all[:min(len(all), left)]
		left -= len(all)
		return lists.Map(all, operation)
	}
	for i, call := range r.Calls {
		if left == 0 {
			break
		}
		if !slices.Contains(of.Colours, call.Colour()) {
			continue
		}
		base, target := first(call.Baseline), first(call.Fork)
		d := v2.TrafficDiffPairedDiff{
			ID: new(strconv.Itoa(i + 1)), BaselineCaptureID: orNil(base.ID), TargetCaptureID: orNil(target.ID), Source: &v2.Source{RequestName: orNil(target.Name)},
			Request: &v2.RequestDiff{DiffOps: operations(call.Request)}, Response: &v2.ResponseDiff{DiffOps: operations(call.Response)},
		}
		if of.Messages {
			d.Request.Baseline, d.Request.Target = request(base), request(target)
			d.Response.Baseline, d.Response.Target = response(base), response(target)
		}
		at.Diffs = append(at.Diffs, d)
	}
	out.Results = []v2.TrafficDiffPointResult{at}
	return out
}

// first returns the exchange of the first run that has one.
func first(all []*exchange.Exchange) *exchange.Exchange {
	return all[slices.IndexFunc(all, func(e *exchange.Exchange) bool { return e != nil })]
}

func request(e *exchange.Exchange) *v2.CaptureRequest {
	return &v2.CaptureRequest{Method: orNil(e.Method), URI: orNil(e.Path), Message: captureOf(e.Request)}
}

func response(e *exchange.Exchange) *v2.CaptureResponse {
	return &v2.CaptureResponse{StatusCode: &e.Response.Status, Message: captureOf(e.Response)}
}

func captureOf(m exchange.Message) *v2.CaptureMessage {
	headers := map[string]string{}
	for _, f := range m.Header {
		headers[f.Name] = exchange.Value(m.Header, f.Name)
	}
	return &v2.CaptureMessage{Headers: headers, Body: strings.ToValidUTF8(string(m.Body), "\uFFFD")}
}

func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
