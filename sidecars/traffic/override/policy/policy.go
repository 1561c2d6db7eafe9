// Package policy decides which answers of an override count, and reads its configuration. It is pure.
package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Headers of answers.
const (
	// Header marks an answer of the override: the override sets it to true in answers that count, unless they count by
	// their status. Callers get it with all of its answers.
	Header = "Sd-Override"
	// AskedHeader marks an answer of the application to a request that the override has served too.
	AskedHeader = "Sd-Override-Asked"
	// SkippedHeader has the reason why the override did not answer.
	SkippedHeader = "Sd-Override-Skipped"
	// IgnoredHeader has the reason why the request's selection of middlewares is ignored.
	IgnoredHeader = "Sd-Traffic-Ignored"
)

// Name is the name of the middleware.
const Name = "override"

// All returns the names of the middlewares that a request can select.
func All() []string { return []string{Name, "trafficwatch"} }

// Policy decides which answers of an override count. The zero value: those with Header.
type Policy struct {
	// ByStatus: answers count by their status, all but Except. Statuses below 100 are those of gRPC.
	ByStatus bool  `json:"overrideByDefault"`
	Except   []int `json:"excludedStatusCodes"`
}

// Parse reads the argument policy of the middleware, a JSON object with the fields of Policy; "" is the zero value.
// The error states the problem and the remedy.
func Parse(text string) (p Policy, err error) {
	if strings.TrimSpace(text) == "" {
		return p, nil
	}
	in := json.NewDecoder(bytes.NewReader([]byte(text)))
	in.DisallowUnknownFields()
	if err := in.Decode(&p); err != nil {
		return Policy{}, fmt.Errorf(`is not a JSON object with overrideByDefault and excludedStatusCodes, such as {"overrideByDefault": true, "excludedStatusCodes": [404]}: %w`, err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return Policy{}, errors.New("has more than one JSON object")
	}
	if len(p.Except) > 0 && !p.ByStatus {
		return Policy{}, errors.New("has excludedStatusCodes without overrideByDefault: true")
	}
	for _, code := range p.Except {
		if err := CheckStatus(code); err != nil {
			return Policy{}, err
		}
	}
	return p, nil
}

const (
	// maxGRPC is the greatest status of gRPC; those of HTTP are from minHTTP to maxHTTP.
	maxGRPC          = 16
	minHTTP, maxHTTP = 200, 599
)

// CheckStatus returns an error if a number is no status of a whole answer, of HTTP or gRPC.
func CheckStatus(code int) error {
	if code >= 0 && code <= maxGRPC || code >= minHTTP && code <= maxHTTP {
		return nil
	}
	return fmt.Errorf("has status %d: those of answers are %d to %d, and 0 to %d with gRPC", code, minHTTP, maxHTTP, maxGRPC)
}

// Counts reports whether an answer counts, by its status and its header and trailers, with names as http.Header has them. known
// is false if that depends on the trailers, and these are nil because they have not arrived.
func (p Policy) Counts(status int, header, trailer map[string][]string) (counts, known bool) {
	grpc := strings.HasPrefix(first(header, "Content-Type"), "application/grpc")
	if !p.ByStatus {
		if marked(header) || marked(trailer) {
			return true, true
		}
		return false, !grpc || trailer != nil || first(header, grpcStatus) != ""
	}
	if slices.Contains(p.Except, status) {
		return false, true
	}
	if !grpc || !slices.ContainsFunc(p.Except, func(code int) bool { return code <= maxGRPC }) {
		return true, true
	}
	text := first(header, grpcStatus) // of an answer that is nothing else
	if text == "" && trailer == nil {
		return false, false
	}
	if text == "" {
		text = first(trailer, grpcStatus)
	}
	code, err := strconv.Atoi(text)
	return err != nil || !slices.Contains(p.Except, code), true
}

const grpcStatus = "Grpc-Status"

func marked(h map[string][]string) bool { return strings.EqualFold(first(h, Header), "true") }

func first(h map[string][]string, name string) string {
	if len(h[name]) == 0 {
		return ""
	}
	return h[name][0]
}
