package main

import (
	"crypto/rand"
	"fmt"
	"strings"
)

// span returns the value of a traceresponse, which HotROD's answers have: the trace of the request, or a new one, with a new span.
func span(parent string) string {
	random := make([]byte, 24)
	_, _ = rand.Read(random) // it never fails
	trace := fmt.Sprintf("%x", random[8:])
	if ids := strings.Split(parent, "-"); len(ids) == 4 {
		trace = ids[1]
	}
	return fmt.Sprintf("00-%s-%x-01", trace, random[:8])
}
