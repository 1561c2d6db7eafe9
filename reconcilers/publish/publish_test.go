package publish

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/publisher"
)

func TestAConfigMapReportsTheLog(t *testing.T) {
	mark := event.Before("e")
	mark.Seq = 12
	old := event.Mark{Pos: event.Pos{Epoch: "e", Seq: 12}}
	tests := []struct {
		name  string
		data  map[string]string
		want  publisher.Witness
		fails bool
	}{
		{"what was saved", map[string]string{
			"epoch": "e", "sequence": "12", "checksum": mark.Chain.String(), "since": "2026-11-21T08:00:00Z",
			"epochBefore": "d", "endedBecause": "it was full",
		}, publisher.Witness{
			Mark: mark, Since: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC), Before: "d", Ended: "it was full",
		}, false},
		{"what an older version saved", map[string]string{"epoch": "e", "sequence": "12"}, publisher.Witness{Mark: old}, false},
		{"nothing was saved", nil, publisher.Witness{}, false},
		{"a sequence without an epoch says nothing", map[string]string{"sequence": "12"}, publisher.Witness{}, false},
		{"a sequence that is no number", map[string]string{"epoch": "e", "sequence": "x"}, publisher.Witness{}, true},
		{"a checksum that is none", map[string]string{"epoch": "e", "sequence": "1", "checksum": "x"}, publisher.Witness{}, true},
		{"a time that is none", map[string]string{"epoch": "e", "sequence": "1", "since": "x"}, publisher.Witness{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := witnessOf(tt.data)
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("%v, %v", got, err)
			}
			if err != nil || tt.want == (publisher.Witness{}) {
				return
			}
			again := map[string]string{}
			for key, value := range dataOf(got) {
				if value != nil {
					again[key] = *value
				}
			}
			if diff := cmp.Diff(tt.data, again); diff != "" {
				t.Errorf("written again: %s", diff)
			}
		})
	}
}
