package policy_test

import (
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/sidecars/traffic/override/policy"
)

func TestWhichAnswersCount(t *testing.T) {
	const grpc = "application/grpc+proto"
	marked := http.Header{"Sd-Override": {"true"}}
	status := func(code string) http.Header { return http.Header{"Grpc-Status": {code}} }
	plain, not404 := policy.Policy{}, policy.Policy{ByStatus: true, Except: []int{404, 503}}
	notUnavailable := policy.Policy{ByStatus: true, Except: []int{14, 404}}
	for name, c := range map[string]struct {
		by              policy.Policy
		status          int
		kind            string
		header, trailer http.Header
		counts, known   bool
	}{
		"marked":                              {plain, 500, "", marked, nil, true, true},
		"marked as false":                     {plain, 200, "", http.Header{"Sd-Override": {"false"}}, nil, false, true},
		"not marked":                          {plain, 200, "", nil, nil, false, true},
		"a trailer of HTTP is not awaited":    {plain, 200, "", nil, nil, false, true},
		"gRPC, marked at first":               {plain, 200, grpc, marked, nil, true, true},
		"gRPC, before its end":                {plain, 200, grpc, nil, nil, false, false},
		"gRPC, marked at its end":             {plain, 200, grpc, nil, marked, true, true},
		"gRPC, not marked":                    {plain, 200, grpc, nil, status("0"), false, true},
		"gRPC, only a status, not marked":     {plain, 200, grpc, status("12"), nil, false, true},
		"by status":                           {not404, 200, "", nil, nil, true, true},
		"an excluded status":                  {not404, 503, "", nil, nil, false, true},
		"an excluded status that is marked":   {not404, 503, "", marked, nil, false, true},
		"gRPC by a status of HTTP":            {not404, 200, grpc, nil, nil, true, true},
		"gRPC by status, before its end":      {notUnavailable, 200, grpc, nil, nil, false, false},
		"gRPC with an excluded status":        {notUnavailable, 200, grpc, nil, status("14"), false, true},
		"gRPC with an excluded status alone":  {notUnavailable, 200, grpc, status("14"), nil, false, true},
		"gRPC with another status":            {notUnavailable, 200, grpc, nil, status("5"), true, true},
		"gRPC with an excluded one of HTTP":   {notUnavailable, 404, grpc, nil, nil, false, true},
		"HTTP is not compared with gRPC's":    {notUnavailable, 200, "text/plain", nil, nil, true, true},
		"gRPC that ended without its status":  {notUnavailable, 200, grpc, nil, http.Header{}, true, true},
		"gRPC that ended without its trailer": {plain, 200, grpc, nil, http.Header{}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{"Content-Type": {c.kind}}
			for k, v := range c.header {
				h[k] = v
			}
			if counts, known := c.by.Counts(c.status, h, c.trailer); counts != c.counts || known != c.known {
				t.Errorf("counts %v, known %v", counts, known)
			}
		})
	}
}

func TestPoliciesAreRead(t *testing.T) {
	for text, wrong := range map[string]string{
		"":                            "",
		" {} ":                        "",
		`{"overrideByDefault": true}`: "",
		`{"OverrideByDefault": true, "ExcludedStatusCodes": [404, 503, 14]}`: "",
		`{"excludedStatusCodes": [404]}`:                                     "without overrideByDefault",
		`{"overrideByDefault": true, "excludedStatusCodes": [99]}`:           "has status 99",
		`{"overrideByDefault": true, "excludedStatusCodes": [100]}`:          "has status 100",
		`{"byDefault": true}`:                                                "unknown field",
		`[404]`:                                                              "is not a JSON object",
		`{} {}`:                                                              "more than one",
		`{"overrideByDefault"`:                                               "is not a JSON object",
	} {
		p, err := policy.Parse(text)
		if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%s: %v", text, err)
		}
		if strings.Contains(text, "503") && (!p.ByStatus || len(p.Except) != 3) {
			t.Errorf("%s: %+v", text, p)
		}
	}
}
