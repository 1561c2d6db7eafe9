package manager_test

import (
	"io"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/sidecars/traffic/manager"
)

func TestSettings(t *testing.T) {
	s, err := manager.ParseSettings([]string{"--store-size=1Gi", "--readers=a:b, c:d", "--request-headers-elided=x,y", "--replica=r"}, io.Discard)
	if err != nil || s.StoreBytes != 1<<30 || !slices.Equal(s.Readers, []string{"a:b", "c:d"}) || !slices.Equal(s.Always.RequestHeaders, []string{"x", "y"}) || s.Address != ":7444" || s.HealthAddress != ":16001" {
		t.Errorf("%+v, %v", s, err)
	}
	for _, size := range []string{"15Mi", "many", ""} {
		if _, err := manager.ParseSettings([]string{"--store-size=" + size}, io.Discard); err == nil || !strings.Contains(err.Error(), "store-size") {
			t.Errorf("a store of %q: %v", size, err)
		}
	}
	if s, err := manager.ParseSettings(nil, io.Discard); err != nil || s.StoreBytes != 512<<20 {
		t.Errorf("by default %+v, %v", s, err)
	}
}
