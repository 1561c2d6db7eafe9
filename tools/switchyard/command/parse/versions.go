// Package parse parses arguments of the command line: versions of the table, objects, and filters.
package parse

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/tools/switchyard/command/exit"
)

const versionForms = "a version is epoch/sequence, a sequence, a time (2026-11-21T14:03:00+01:00 or 14:03), how long ago (15m, 3d) or now"

// At parses a version, relative to now and in its time zone; nil for none. The version "now" is the
// newest once it has reached everything recorded before the request.
func At(text string, now time.Time) (*routingv1.At, error) {
	switch text {
	case "":
		return nil, nil
	case "now":
		return &routingv1.At{Version: &routingv1.At_Fresh{Fresh: true}}, nil
	}
	if p, ok := positionIn(text); ok {
		return &routingv1.At{Version: &routingv1.At_Position{Position: p}}, nil
	}
	moment, ok := moment(text, now)
	if !ok {
		return nil, exit.Usage.Errorf("%q is no version: %s", text, versionForms)
	}
	return &routingv1.At{Version: &routingv1.At_Time{Time: timestamppb.New(moment)}}, nil
}

// Position reads a version that has to be a place in the log.
func Position(flag, text string) (*routingv1.Position, error) {
	if text == "" {
		return nil, nil
	}
	p, ok := positionIn(text)
	if !ok {
		return nil, exit.Usage.Errorf("--%s is a position, epoch/sequence or sequence, not %q", flag, text)
	}
	return p, nil
}

func positionIn(text string) (*routingv1.Position, bool) {
	epoch, number, both := strings.Cut(text, "/")
	if !both {
		epoch, number = "", text
	}
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil || both && epoch == "" {
		return nil, false
	}
	return &routingv1.Position{Epoch: epoch, Sequence: seq}, true
}

var days = regexp.MustCompile(`^([0-9]{1,5})d(.*)$`)

// moment reads a time, or how long ago it was.
func moment(text string, now time.Time) (time.Time, bool) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, true
	}
	for _, clock := range []string{"15:04", "15:04:05"} {
		if t, err := time.ParseInLocation(clock, text, now.Location()); err == nil {
			t = time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location())
			if t.After(now) {
				t = t.AddDate(0, 0, -1)
			}
			return t, true
		}
	}
	var ago time.Duration
	if m := days.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1]) // digits
		ago, text = time.Duration(n)*24*time.Hour, m[2]
		if text == "" {
			return now.Add(-ago), true
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return time.Time{}, false
	}
	return now.Add(-ago - d), true
}
