package parse

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/tools/switchyard/command/exit"
)

func TestVersionsAsPeopleWriteThem(t *testing.T) {
	zone := time.FixedZone("CET", 3600)
	now := time.Date(2026, 11, 20, 15, 30, 0, 0, zone)
	position := func(epoch string, seq uint64) *routingv1.At {
		return &routingv1.At{Version: &routingv1.At_Position{Position: &routingv1.Position{Epoch: epoch, Sequence: seq}}}
	}
	moment := func(day, hour, minute, second int) *routingv1.At {
		at := time.Date(2026, 11, day, hour, minute, second, 0, zone)
		return &routingv1.At{Version: &routingv1.At_Time{Time: timestamppb.New(at)}}
	}
	for text, want := range map[string]*routingv1.At{
		"":                          nil,
		"now":                       {Version: &routingv1.At_Fresh{Fresh: true}},
		"12":                        position("", 12),
		"4y2k/12":                   position("4y2k", 12),
		"2026-11-20T14:03:00Z":      moment(20, 15, 3, 0),
		"2026-11-20T14:03:00+01:00": moment(20, 14, 3, 0),
		"14:03":                     moment(20, 14, 3, 0),
		"14:03:07":                  moment(20, 14, 3, 7),
		"15:31":                     moment(19, 15, 31, 0), // not yet today
		"15m":                       moment(20, 15, 15, 0),
		"2h30m":                     moment(20, 13, 0, 0),
		"1d":                        moment(19, 15, 30, 0),
		"1d2h":                      moment(19, 13, 30, 0),
	} {
		got, err := At(text, now)
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got)\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"/12", "a/b", "a/", "-15m", "-3", "25:00", "d", "yesterday", "1d-2h", "2026-11-20"} {
		if got, err := At(text, now); exit.Of(err) != exit.Usage {
			t.Errorf("%q is read as %v, %v", text, got, err)
		}
	}
}
