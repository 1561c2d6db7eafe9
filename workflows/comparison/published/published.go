// Package published writes a comparison in the form of the published API: TrafficDiff, and the operations of a pair.
package published

import (
	"switchyard.dev/workflows/comparison"
	"switchyard.dev/workflows/comparison/noise"
	"switchyard.dev/workflows/comparison/structure"
)

// Summary counts the captures of a colour, and their operations.
type Summary struct {
	Additions    int     `json:"additions"`
	Captures     int     `json:"captures"`
	MaxRelevance float64 `json:"maxRelevance"`
	Removals     int     `json:"removals"`
	Replacements int     `json:"replacements"`
}

// TrafficDiff is the summary of a comparison, without the capture points, which the caller knows.
type TrafficDiff struct {
	Summary
	BaselineSession  string            `json:"baselineSession"`
	TargetSession    string            `json:"targetSession"`
	Green            Summary           `json:"green"`
	Red              Summary           `json:"red"`
	Yellow           Summary           `json:"yellow"`
	UnpairedCaptures []UnpairedCapture `json:"unpairedCaptures"`
}

// UnpairedCapture is a capture that the other side lacks.
type UnpairedCapture struct {
	BaselineCaptureID string `json:"baselineCaptureID,omitempty"`
	TargetCaptureID   string `json:"targetCaptureID,omitempty"`
}

// DiffOp is one difference of a message.
type DiffOp struct {
	Classification Classification  `json:"classification"`
	OldValue       any             `json:"oldValue,omitempty"`
	Op             noise.Operation `json:"op"`
	Path           string          `json:"path"`
	Value          any             `json:"value,omitempty"`
}

// Classification is how probably a difference is noise, from 0 to 1; its relevance is the rest to 1.
type Classification struct {
	Noise float64 `json:"noise"`
}

// undecided is the noise of a finding that can be a change or noise.
const undecided = 0.5

func noiseOf(f noise.Finding) float64 { return min(f.Level, undecided) }

// Of summarizes a comparison of two sessions.
func Of(r comparison.Result, baselineSession, targetSession string) TrafficDiff {
	d := TrafficDiff{BaselineSession: baselineSession, TargetSession: targetSession, UnpairedCaptures: []UnpairedCapture{}}
	for _, call := range r.Calls {
		colour := map[noise.Colour]*Summary{noise.Red: &d.Red, noise.Yellow: &d.Yellow, noise.Green: &d.Green}[call.Colour()]
		d.add(call)
		colour.add(call)
	}
	for _, u := range r.Unpaired {
		if u.Fork {
			d.UnpairedCaptures = append(d.UnpairedCaptures, UnpairedCapture{TargetCaptureID: u.Exchange.ID})
		} else {
			d.UnpairedCaptures = append(d.UnpairedCaptures, UnpairedCapture{BaselineCaptureID: u.Exchange.ID})
		}
	}
	return d
}

func (s *Summary) add(call comparison.Compared) {
	s.Captures++
	for _, all := range [][]noise.Finding{call.Request, call.Response} {
		for _, f := range all {
			switch f.Operation {
			case noise.Add:
				s.Additions++
			case noise.Remove:
				s.Removals++
			default:
				s.Replacements++
			}
			s.MaxRelevance = max(s.MaxRelevance, 1-noiseOf(f))
		}
	}
}

// Operations returns the findings of a message.
func Operations(all []noise.Finding) []DiffOp {
	ops := []DiffOp{}
	for _, f := range all {
		ops = append(ops, DiffOp{Classification{noiseOf(f)}, value(f.Old), f.Operation, "/" + f.At, value(f.New)})
	}
	return ops
}

func value(v *structure.Value) any {
	if v == nil {
		return nil
	}
	return v.Any()
}
