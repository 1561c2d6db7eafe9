package main

import (
	"strings"
	"testing"

	"switchyard.dev/xds/routingkey"
	"switchyard.dev/xds/routingkey/keytest"
)

func TestTheKeyIsTheSidecarsAndItsHeaderIsNamed(t *testing.T) {
	custom := keytest.CustomHeaders()
	for name, c := range keytest.Forms() {
		lines := func(name string) (of []string) {
			for _, line := range c.Lines {
				if strings.EqualFold(line[0], name) {
					of = append(of, line[1])
				}
			}
			return of
		}
		key, header := keys(custom)(lines)
		if want := routingkey.Of(lines, custom); key != want {
			t.Errorf("%s: the key is %q, want %q", name, key, want)
		}
		if (key == "") != (header == "") || key != "" && len(lines(header)) == 0 {
			t.Errorf("%s: the key %q comes from the header %q", name, key, header)
		}
	}
}
